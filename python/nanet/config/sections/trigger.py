# SPDX-License-Identifier: Apache-2.0
"""Sections of the trigger's process except its card: reconstruction, real-time settings, monitor page."""

from __future__ import annotations

from typing import ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.sections import algorithms, shared
from nanet.config.values import check_of


@attrs.frozen(kw_only=True)
class Trigger(Section):
    """Trigger: reconstruction, destination and deadline of the answers."""

    name: ClassVar[str] = "trigger"

    send: str = option(
        "127.0.0.1:58914",
        "Destination of the primitives, HOST:PORT, several by commas.",
        check=check_of(values.endpoints),
        live=True,
    )
    input: str = option(
        "mgp",
        "mgp: packets of the boards; mep: level 1, events that the boards send to a farm.",
        choices=("mgp", "mep"),
        live=True,
        core=None,
    )
    device: str = option(
        "auto",
        "Device that reconstructs events: auto, cpu, cuda or cuda:N.",
        check=check_of(values.device),
        offer=("auto", "cpu", "cuda"),
    )
    algorithm: str = option(
        algorithms.DEFAULT_ALGORITHM,
        f"Ring algorithm, one of {', '.join(algorithms.ALGORITHMS)}, or the file of a plug-in, such as "
        "./mine.so; its parameters are [algorithm.NAME].",
        check=algorithms.check,
        offer=algorithms.ALGORITHMS,
    )
    threads: int = option(
        1, "1: one thread, run to completion; more: worker threads beside the card's thread.", low=1, high=64
    )
    executor: str = option(
        "persistent",
        "GPU executor: one resident kernel, or one kernel launch per buffer.",
        choices=("persistent", "launch"),
        live=True,
    )
    mailbox: str = option(
        "auto",
        "Memory of the low-latency lines between card and resident kernel: GPU memory through the PCIe BAR, "
        "mapped by vulkan or by gdrdrv (GDRCopy; not run with the driver), gpu for the first of these that "
        "the host offers, pinned host memory, or off; auto: gpu, else pinned.",
        choices=("auto", "gpu", "vulkan", "gdrdrv", "pinned", "off"),
        live=True,
    )
    devices: int = option(
        1,
        "Queues that receive the frames in turn, each on a GPU, counted from --device: 1, 2, 4, ...",
        low=1,
        high=64,
    )
    cpu_fallback: bool = option(True, "The CPU replaces a lost GPU; else answers are header-only.", live=True)
    gpu_recovery: bool = option(
        True,
        "A separate process restores a lost GPU; needs --cpu-fallback and the executor persistent.",
        live=True,
        core=None,
    )
    duration: float = shared.stop_after(live=True, core=None)
    strict: bool = option(False, "Exit 1 if a frame was late or a packet lost.", live=True, core=None)
    deadline_us: float = option(
        0.0,
        f"Time from a frame's first packet to its answer; 0: {shared.REAL_TIME_DEADLINE_US / 1000:g} ms on a "
        f"real-time host or the gateware card, else {shared.DEFAULT_DEADLINE_US / 1000:g} ms.",
        low=0.0,
        high=10e6,
        unit="µs",
        live=True,
    )
    window_lsb: int = option(
        41, "Coincidence window: fragments this close are one event.", low=0, high=65535, unit="× 0.0975 ns"
    )
    min_hits: int = option(1, "Events with fewer hits give no primitive.", low=0, high=128)
    multiplicity: int = option(
        24, "Number of hits from which the primitive's multiplicity bit is set.", low=1, high=128
    )
    saturated_mm: float = option(
        185.0, "Radius from which a leading ring counts as saturated.", low=0.0, high=1000.0, unit="mm"
    )
    small_mm: float = option(
        180.0, "Radius below which a ring counts as small.", low=0.0, high=1000.0, unit="mm"
    )
    chi2_cut: float = option(
        3.0, "χ²/ndf of the leading ring above which the primitive is flagged.", low=0.0, high=1e6
    )
    downscale: str = option(
        "",
        "Downscaling by number of rings: RINGS=FACTOR,…; one in FACTOR primitives is sent.",
        check=check_of(values.downscale_factors),
        words=True,
        core="downscale_factors",
        to_core=values.downscale_factors,
    )
    conditions: str = option(
        "", "File of masked photomultipliers and time offsets, reloaded between bursts.", core=None
    )
    burst_report: str = option("", "Write one line of JSON per burst to this file.", live=True, core=None)
    choke_high: float = option(
        0.75, "Share of the buffers at which choke is raised.", low=0.0, high=1.0, live=True
    )
    choke_low: float = option(
        0.5, "Share of the buffers below which choke is withdrawn.", low=0.0, high=1.0, live=True
    )


@attrs.frozen(kw_only=True)
class RealTime(Section):
    """Real-time settings of the trigger's process."""

    name: ClassVar[str] = "realtime"

    scheduler: str = option(
        "normal",
        "Scheduler of the trigger's threads; fifo needs isolated CPUs in --pin, or other programs starve.",
        choices=("normal", "fifo"),
        live=True,
        core=None,
    )
    priority: int = option(50, "Priority of the scheduler fifo.", low=1, high=99, live=True, core=None)
    lock_memory: str = option(
        "auto",
        "Lock present and future memory (mlockall); auto: on a real-time host.",
        choices=("auto", "yes", "no"),
        live=True,
        core=None,
    )
    hold_cpu_latency: str = option(
        "auto",
        "Keep the CPUs out of deep idle states (/dev/cpu_dma_latency) while running; auto: on a real-time "
        "host.",
        choices=("auto", "yes", "no"),
        live=True,
        core=None,
    )
    timer_slack_ns: int = option(
        1,
        "Timer slack of the threads; 0: the kernel's default.",
        low=0,
        high=10**9,
        unit="ns",
        live=True,
        core=None,
    )


@attrs.frozen(kw_only=True)
class Monitor(Section):
    """Monitor of a running trigger: page and metrics."""

    name: ClassVar[str] = "monitor"

    monitor: str = option(
        "",
        "Serve the monitor page here: HOST:PORT, or PORT on loopback; empty: no page.",
        check=shared.PAGE,
        key="listen",
        words=True,
    )
