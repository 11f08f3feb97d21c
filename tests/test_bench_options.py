# SPDX-License-Identifier: Apache-2.0
"""Options of `nanet bench`: those that a benchmark uses, values, and cores that a card needs."""

from __future__ import annotations

import importlib
import inspect
import re

from nanet.run import placement

from nanet.bench import NAMES, OPTIONS, Settings, trigger


def test_one_thread_instead_of_several_is_named(machine):
    machine(2)
    message = "the card has one thread: 2 threads require 6 cores, this host has 2"
    assert placement.too_few_cores(2) == message
    assert placement.too_few_cores(0) == placement.too_few_cores(1) == ""
    assert not placement.chain_reason().fit
    for cpus in (placement.CHAIN_CORES - 1, placement.CHAIN_CORES):
        machine(cpus)
        assert bool(placement.too_few_cores(3)) != bool(trigger.own_cores(Settings(card_threads=3)))
        assert placement.chain_reason().fit == bool(trigger.own_cores(Settings()))


def test_wrong_options_are_reported(nanet):
    assert "did you mean math" in nanet("bench", "rings", "--algorithm", "mth", status=2).stderr
    assert "draws no figures" in nanet("bench", "replay", "--plots", "here", status=2).stderr
    wrong = nanet("bench", "overload", "--card", "gatware", status=2).stderr
    assert "--card gatware: must be one of socket, xdp, gateware" in wrong
    assert "bench replay has no choice of cards" in nanet("bench", "replay", "--card", "xdp", status=2).stderr
    refused = nanet("bench", "latency", "--seconds", 5, status=2).stderr
    assert "--seconds 5: bench latency does not use it: leave it out" in refused
    assert "it takes --samples, --algorithm, --device" in refused
    assert "--rate 1e+07: bench card" in nanet("bench", "card", "--rate", "10e6", status=2).stderr
    for value in ("0", "-1"):
        refused = nanet("bench", "trigger", "--seconds", value, status=2).stderr
        assert f"--seconds {value}: give seconds above 0" in refused
    for option in ("--seconds", "--rate", "--batch-us"):
        refused = nanet("bench", "trigger", option, "nan", status=2).stderr
        assert f"{option} nan: give a finite number" in refused
        assert "inf" in nanet("bench", "trigger", option, "inf", status=2).stderr


def test_the_list_of_options_is_that_of_each_benchmark():
    """Fields of Settings in its module, and in the functions of trigger and monitor that it calls."""
    assert OPTIONS.keys() == NAMES.keys()
    modules = {name: importlib.import_module(f"nanet.bench.{name}") for name in (*NAMES, "rings_cuda")}
    functions = {
        name: found
        for name, found in inspect.getmembers(modules["trigger"], inspect.isfunction)
        + inspect.getmembers(modules["monitor"], inspect.isfunction)
        if "settings" in inspect.signature(found).parameters
    }

    def used(source, seen=()):
        fields = set(re.findall(r"settings\.(\w+)", source))
        called = set(re.findall(r"(\w+)\((?:self\.)?settings\b", source))
        for name in (called & functions.keys()) - {*seen, "run"}:
            fields |= used(inspect.getsource(functions[name]), (*seen, name))
        return {"algorithm" if field == "only" else field for field in fields}

    for name in NAMES:
        source = inspect.getsource(modules[name])
        if name == "rings":
            source += inspect.getsource(modules["rings_cuda"])
        assert used(source) == set(OPTIONS[name]), name


def test_unknown_name_is_a_usage_error(nanet):
    assert "replay, loopback, latency, rings, answers, bandwidth" in nanet("bench", "speed", status=2).stderr
