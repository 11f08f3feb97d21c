# SPDX-License-Identifier: Apache-2.0
"""What the configuration says, as the one flat dictionary that the core's Trigger and Replay take."""

from __future__ import annotations

from typing import Any

import attrs

from nanet.config import conditions
from nanet.config.file import Config
from nanet.config.sections import (
    ALGORITHMS,
    Card,
    Trigger,
    board_mask,
    cpu_list,
    downscale_factors,
    names_a_plugin,
)
from nanet.errors import UsageError, near, starting
from nanet.run import gpu_recovery, host


def executor(device: str, *, threads: int = 1) -> str:
    """The device that runs, of the one asked for: cpu or cuda:N.

    auto is a GPU where there is one and one thread is asked for.
    """
    if device == "cpu" or (device == "auto" and threads > 1):
        return "cpu"
    found = host.cuda()
    if device == "auto":
        return "cpu" if found["trouble"] else "cuda:0"
    if found["trouble"]:
        raise UsageError(f"trigger.device = {device!r}: {found['trouble']}: use --device cpu")
    number = int(device.partition(":")[2] or 0)
    if number >= len(found["devices"]):
        there = ", ".join(f"cuda:{one['number']} ({one['name']})" for one in found["devices"])
        raise UsageError(f"trigger.device = {device!r}: there is no such GPU; there are {there}")
    if threads > 1:
        text = f"trigger.threads = {threads} with trigger.device = {device!r}"
        raise UsageError(f"{text}: a GPU is fed by one thread: leave --threads out")
    return f"cuda:{number}"


@attrs.frozen
class Algorithm:
    """The algorithm in use: its name for the core, which knows a plug-in's once it is loaded."""

    name: str
    plugin: str = ""  # the file it came from
    cuda: bool = True  # can run on a GPU


def load_algorithm(given: str) -> Algorithm:
    """The algorithm of that name, or of the plug-in in that file. UsageError says what is wrong with it."""
    from nanet import _core

    if not names_a_plugin(given):
        # Without any GPU kernel the build has no CUDA component, which `executor` reports.
        kernels = _core.cuda_algorithms()
        return Algorithm(given, cuda=not kernels or given in kernels)
    with starting():
        plugin = _core.load_algorithm(given)
    return Algorithm(plugin["name"], plugin["path"], plugin["cuda"])


def _check(algorithm: str, parameters: dict[str, float]) -> None:
    """UsageError where the core refuses the parameters; also those of an algorithm that is not in use now."""
    import numpy as np

    from nanet import _core

    with starting():
        _core.reconstruct(algorithm, np.zeros(1, np.uint32), np.zeros(0, np.uint16), parameters)


def usable_cpus(key: str, given: str) -> list[int]:
    """The CPUs of a list such as 2,3 or 2-5. UsageError names the key and one that this process has not."""
    usable = host.cpus()
    wanted = cpu_list(given)
    for cpu in wanted:
        if cpu not in usable:
            text = f"{key} = {given!r}: CPU {cpu} is not one this process may use"
            raise UsageError(f"{text}; take from {usable[0]} to {usable[-1]}")
    return wanted


def core_options(config: Config) -> dict[str, Any]:
    """Options of the core, by name; times not given are those of docs/formats.md (Clocks) for this host."""
    from nanet import _core

    trigger, card = config[Trigger], config[Card]
    pin = usable_cpus("card.pin", card.pin)
    algorithm = load_algorithm(trigger.algorithm)
    known = dict.fromkeys((*ALGORITHMS, algorithm.name))
    for name, parameters in config.algorithms.items():
        if name not in known:
            remedy = "" if algorithm.plugin else "; a plug-in's is known when trigger.algorithm is its file"
            raise UsageError(f"[algorithm.{name}]: no such algorithm{near(name, known)}{remedy}")
        _check(name, parameters)
    if trigger.device not in ("auto", "cpu") and not algorithm.cuda:
        raise UsageError(
            f"trigger.device = {trigger.device!r}: {algorithm.plugin} was built without CUDA and runs on "
            "CPUs only: use --device cpu, or build it again where there is an nvcc"
            if algorithm.plugin
            else f"trigger.device = {trigger.device!r} with trigger.algorithm = {algorithm.name!r}: this build "
            f"has GPU kernels for {', '.join(_core.cuda_algorithms())} only: use --device cpu, or build with "
            "-DNANET_CUDA_ALGORITHMS=all"
        )
    fit, _ = host.fit_for_real_time()
    # A simulated card's clock is exact, however slow the host is.
    exact = fit or card.card == "gateware"
    options = {**attrs.asdict(trigger), **attrs.asdict(card)}
    options.update(
        algorithm=algorithm.name,
        plugin=algorithm.plugin,
        device=executor(trigger.device if algorithm.cuda else "cpu", threads=trigger.threads),
        boards=board_mask(card.boards),
        pin=pin,
        busy=fit if card.busy == "auto" else card.busy == "yes",
        real_time=fit,
        timeout_us=card.timeout_us or (host.FIT_TIMEOUT_US if exact else host.ELSE_TIMEOUT_US),
        deadline_us=trigger.deadline_us or (host.FIT_DEADLINE_US if exact else host.ELSE_DEADLINE_US),
        parameters=config.algorithms.get(algorithm.name, {}),
    )
    if trigger.gpu_recovery:
        options["recovery"] = gpu_recovery.command()
    options.update(
        downscale_factors=downscale_factors(trigger.downscale),
        conditions=conditions.load(trigger.conditions).core() if trigger.conditions else None,
        conditions_file=trigger.conditions,
        record_file_bytes=card.record_file_mb * 1_000_000,
        record_limit_bytes=card.record_limit_mb * 1_000_000,
    )
    if card.card == "gateware":
        for name, value in (("keep_bad", card.keep_bad), ("record", card.record)):
            if value:
                text = f"card.{name} = {value!r}: the gateware card hands out no copies of packets"
                raise UsageError(f"{text}: leave it out, or use --card socket")
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
    if options["deadline_us"] <= options["timeout_us"]:
        raise UsageError(
            f"trigger.deadline_us = {options['deadline_us']:g}: must be more than card.timeout_us = "
            f"{options['timeout_us']:g}, or no incomplete frame is ever answered in time"
        )
    return options
