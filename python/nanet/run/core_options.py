# SPDX-License-Identifier: Apache-2.0
"""Options of the core's Trigger and Replay: the configuration, resolved for this host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from nanet.config import conditions
from nanet.config.file import Config
from nanet.config.options import core_values
from nanet.config.sections import (
    ALGORITHMS,
    DEFAULT_DEADLINE_US,
    DEFAULT_TIMEOUT_US,
    REAL_TIME_DEADLINE_US,
    REAL_TIME_TIMEOUT_US,
    Card,
    DetectorFile,
    Final,
    Trigger,
    names_a_plugin,
)
from nanet.config.values import cpu_list
from nanet.detector import Detector, load_or_default
from nanet.errors import UsageError, located, near, starting
from nanet.report.final import FRAME_US
from nanet.run import gpu_recovery, host

MERGED_BOARDS = 4  # of a merged buffer (docs/formats.md)
ANSWER_MARGIN_US = 20.0  # before t + L: answer_margin in src/nanet/ttc/deadline.hpp


def executor(
    device: str, *, threads: int = 1, key: str = "trigger.device", remedy: str = "use --device cpu"
) -> str:
    """Device for a requested one: cpu or cuda:N. UsageError for a GPU that cannot be used.

    auto: the first GPU, if there is one and `threads` is 1. key, remedy: words of the error.
    """
    if device == "cpu" or (device == "auto" and threads > 1):
        return "cpu"
    found = host.cuda()
    if device == "auto":
        return "cpu" if found["trouble"] else "cuda:0"
    if found["trouble"]:
        raise UsageError(f"{key} = {device!r}: {found['trouble']}: {remedy}")
    number = int(device.partition(":")[2] or 0)
    if number >= len(found["devices"]):
        there = ", ".join(f"cuda:{one['number']} ({one['name']})" for one in found["devices"])
        raise UsageError(f"{key} = {device!r}: there is no such GPU; this host has {there}")
    if threads > 1:
        text = f"trigger.threads = {threads} with {key} = {device!r}"
        raise UsageError(f"{text}: a GPU is fed by one thread: leave --threads out")
    return f"cuda:{number}"


@attrs.frozen
class Algorithm:
    """Algorithm in use."""

    name: str  # in the core
    plugin: str = ""  # file of the plug-in
    cuda: bool = True  # can run on a GPU


def load_algorithm(given: str) -> Algorithm:
    """Algorithm of a name, or of a plug-in file, which is loaded. UsageError: the file is no plug-in."""
    from nanet import _core

    if not names_a_plugin(given):
        # Without any GPU kernel the build has no CUDA component, which `executor` reports.
        kernels = _core.cuda_algorithms()
        return Algorithm(given, cuda=not kernels or given in kernels)
    with starting():
        plugin = _core.load_algorithm(given)
    return Algorithm(plugin["name"], plugin["path"], plugin["cuda"])


def check_parameters(algorithm: str, parameters: dict[str, float], detector: dict[str, Any] | None) -> None:
    """UsageError for parameters that the core refuses, also of an algorithm not in use."""
    import numpy as np

    from nanet import _core

    known = [one["name"] for one in _core.algorithm_parameters(algorithm)]
    for key, value in parameters.items():
        if key not in known:
            raise UsageError(f"algorithm.{algorithm}.{key} = {value:g}: no such parameter{near(key, known)}")
    with starting():
        _core.reconstruct(algorithm, np.zeros(1, np.uint32), np.zeros(0, np.uint16), parameters, detector)


def usable_cpus(key: str, given: str) -> list[int]:
    """CPU numbers of a list such as 2,3 or 2-5. UsageError for a CPU outside the affinity of this process."""
    usable = host.cpus()
    wanted = cpu_list(given)
    for cpu in wanted:
        if cpu not in usable:
            text = f"{key} = {given!r}: CPU {cpu} is not available to this process"
            raise UsageError(f"{text}; take from {usable[0]} to {usable[-1]}")
    return wanted


def core_options(config: Config, also: Iterable[str] = ()) -> dict[str, Any]:
    """Options of the core by key. A timeout of 0 gets the default for this host (docs/formats.md, Clocks).

    also: names of loaded algorithms beside the trigger's, whose parameters the file may have.
    """
    from nanet import _core

    trigger, card = config[Trigger], config[Card]
    detector = load_or_default(config[DetectorFile].detector) if config[DetectorFile].detector else None
    of_core = detector.core() if detector else None
    pin = usable_cpus("card.pin", card.pin)
    algorithm = load_algorithm(trigger.algorithm)
    known = dict.fromkeys((*ALGORITHMS, algorithm.name, *also))
    for name, parameters in config.algorithms.items():
        if name not in known:
            remedy = "" if algorithm.plugin else "; for a plug-in, set trigger.algorithm to its file"
            text = f"[algorithm.{name}]: no such algorithm{near(name, known)}{remedy}"
            raise UsageError(f"{config.where()}{text}")
        with located(config.where()):
            check_parameters(name, parameters, of_core)
    if detector and of_core:
        _check_detector(detector, config[DetectorFile].detector, card, known)
    if trigger.device not in ("auto", "cpu") and not algorithm.cuda:
        raise UsageError(
            f"trigger.device = {trigger.device!r}: {algorithm.plugin} was built without CUDA and runs on "
            "CPUs only: use --device cpu, or build it again on a host with nvcc"
            if algorithm.plugin
            else f"trigger.device = {trigger.device!r} with trigger.algorithm = {algorithm.name!r}: this "
            f"build has kernels for {', '.join(_core.cuda_algorithms())}: use --device cpu, or build with "
            "-DNANET_CUDA_ALGORITHMS=all"
        )
    fit, _ = host.fit_for_real_time()
    exact = fit or card.card == "gateware"  # the clock of the simulated card is exact on any host
    timeout_us = card.timeout_us or (REAL_TIME_TIMEOUT_US if exact else DEFAULT_TIMEOUT_US)
    deadline_us = trigger.deadline_us or (REAL_TIME_DEADLINE_US if exact else DEFAULT_DEADLINE_US)
    _check_combinations(trigger, card, timeout_us, deadline_us)
    # For a GPU, the CPU builds the events of wide detectors, from whole frames.
    wide = detector is not None and detector.wide
    on_gpu = algorithm.cuda and (card.gather == "frame" or not wide)
    channels = detector.channels if detector else conditions.PM_COUNT
    options = {
        **core_values(trigger),
        **core_values(card),
        "algorithm": algorithm.name,
        "plugin": algorithm.plugin,
        "parameters": config.algorithms.get(algorithm.name, {}),
        "device": executor(trigger.device if on_gpu else "cpu", threads=trigger.threads),
        "pin": pin,
        "busy": fit if card.busy == "auto" else card.busy == "yes",
        "real_time": fit,
        "timeout_us": timeout_us,
        "deadline_us": deadline_us,
        "conditions": conditions.load(trigger.conditions, channels).core() if trigger.conditions else None,
        "detector": of_core,
    }
    if detector and of_core and card.boards == "4":
        options["boards"] = (1 << detector.boards) - 1
    if trigger.gpu_recovery and not of_core:
        options["recovery"] = gpu_recovery.command()
    return options


def check_latency(final: Final, latency_us: float, timeout_us: float, speed: float = 1.0) -> None:
    """UsageError for an L within which a frame without a board is never answered in time.

    speed: of the experiment's clock, whose time L is; the timeout is of the card's.
    """
    closed_us, what = timeout_us * speed, f"card.timeout_us = {timeout_us:g}"
    if final.close_ticks:
        ticks_us = FRAME_US * (1 + final.close_ticks / 256)
        closed_us, what = min((closed_us, what), (ticks_us, f"final.close_ticks = {final.close_ticks}"))
    least = closed_us + ANSWER_MARGIN_US
    if latency_us < least:
        raise UsageError(
            f"final.latency_us = {latency_us:g}: answers leave {ANSWER_MARGIN_US:g} us before t + L, and "
            f"{what} closes a frame without a board after {closed_us:g} us of the experiment: give at least "
            f"{least:.1f}, or a shorter timeout"
        )


def check_late(final: Final, card: Card) -> None:
    """UsageError for late frames that the card cannot pass."""
    if final.late == "pass" and card.card == "gateware":
        raise UsageError(
            "final.late = 'pass' with card.type = 'gateware': this card drops late frames: use --late drop, "
            "or --card socket"
        )


def _check_detector(detector: Detector, given: str, card: Card, known: Iterable[str]) -> None:
    """UsageError for options that the detector excludes, and for wrong parameters in its file."""
    text = f"detector.file = {given!r}"
    if card.card == "gateware":
        raise UsageError(
            f"{text} with card.type = 'gateware': this card has NA62's boards: use --card socket"
        )
    if card.merge and detector.boards > MERGED_BOARDS:
        raise UsageError(
            f"{text} has {detector.boards} boards, with card.merge = true: a row of a merged buffer has room "
            f"for {MERGED_BOARDS}: leave --merge out"
        )
    for name, parameters in detector.algorithms.items():
        if name not in known:
            raise UsageError(f"{given}: algorithm.{name}: no such algorithm{near(name, known)}")
        with located(f"{given}: "):
            check_parameters(name, parameters, detector.core())


def _check_merging(card: Card) -> None:
    """UsageError for options under which a card cannot merge."""
    for name, value, remedy in (
        ("card.gather", card.gather, "packets"),
        ("card.boards", card.boards, "merged"),
    ):
        if value == remedy:
            raise UsageError(f"card.merge = true with {name} = {value!r}: leave --merge out")


def _check_combinations(trigger: Trigger, card: Card, timeout_us: float, deadline_us: float) -> None:
    """UsageError for values that exclude each other."""
    if card.card == "gateware":
        if card.node:
            text = f"card.node = {card.node!r}: the gateware card receives every frame"
            raise UsageError(f"{text}: leave it out, or use --card socket")
        for name, value in (("keep_bad", card.keep_bad), ("record", card.record)):
            if value:
                text = f"card.{name} = {value!r}: the gateware card gives no copies of packets"
                raise UsageError(f"{text}: leave it out, or use --card socket")
    if card.merge:
        _check_merging(card)
    if trigger.conditions and card.gather == "packets":
        raise UsageError(
            f"trigger.conditions = {trigger.conditions!r} with card.gather = 'packets': bursts are followed "
            "with --gather frame only"
        )
    if trigger.choke_low > trigger.choke_high:
        raise UsageError(
            f"trigger.choke_low = {trigger.choke_low:g}: must not be above trigger.choke_high = "
            f"{trigger.choke_high:g}"
        )
    if deadline_us <= timeout_us:
        raise UsageError(
            f"trigger.deadline_us = {deadline_us:g}: must be more than card.timeout_us = "
            f"{timeout_us:g}, or no incomplete frame is ever answered in time"
        )
