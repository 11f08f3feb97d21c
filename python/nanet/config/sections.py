# SPDX-License-Identifier: Apache-2.0
"""Options of all programs: one class per section of the TOML file, one declaration per option.

A declaration gives TOML key, command-line flag, default, check, help text, and the key and conversion for the
C++ core. Meanings: docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.values import check_of, optional
from nanet.detector import SHIPPED

try:
    from nanet._core import algorithm_names
    from nanet._core import default_algorithm as DEFAULT_ALGORITHM
except ImportError:  # `nanet doctor` reports the missing core
    ALGORITHMS: tuple[str, ...] = ()
    DEFAULT_ALGORITHM = ""
else:
    ALGORITHMS = tuple(algorithm_names())

MAX_FRAMES = 751_500  # 4.8 s of detector time
MEGABYTE = 1_000_000
# Frame timeout and answer deadline (µs) where the option is 0: docs/formats.md, Clocks.
REAL_TIME_TIMEOUT_US, REAL_TIME_DEADLINE_US = 200.0, 1_000.0  # also with the simulated card's exact clock
DEFAULT_TIMEOUT_US, DEFAULT_DEADLINE_US = 20_000.0, 50_000.0

ENDPOINT, ENDPOINTS = check_of(values.endpoint), check_of(values.endpoints)
NODES, NODE_SHARE = check_of(values.nodes), check_of(values.node_share)
BOARDS, CPUS, DEVICE = check_of(values.board_mask), check_of(values.cpu_list), check_of(values.device)
DOWNSCALE, FAULTS = check_of(values.downscale_factors), check_of(values.faults)
PAGE = optional(check_of(values.page_endpoint))


def names_a_plugin(algorithm: str) -> bool:
    """Whether an algorithm is the file of a plug-in; the same rule as in the core."""
    return "/" in algorithm or algorithm.endswith(".so")


def _algorithm(text: str) -> str | None:
    if text in ALGORITHMS or names_a_plugin(text):
        return None
    return f"must be one of {', '.join(ALGORITHMS)}, or the file of a plug-in, such as ./mine.so"


def _ring_count(text: str) -> int:
    return -1 if text == "mix" else int(text)


def _without_spaces(text: str) -> str:
    return text.replace(" ", "")


def _megabytes(number: int) -> int:
    return number * MEGABYTE


def _is(value: str) -> Callable[[str], bool]:
    return lambda text: text == value


# Options of several sections, declared once.
def _event_rate(low: float) -> Any:
    return option(10e6, "Events per second of detector time.", low=low, high=100e6, unit="Hz")


def _noise() -> Any:
    return option(1.0, "Mean noise hits per event.", low=0.0, high=64.0)


def _ring_mix() -> Any:
    return option(
        "mix",
        "Rings per event: mix, or a number.",
        choices=("mix", "0", "1", "2", "3", "4"),
        words=True,
        to_core=_ring_count,
    )


def _seed(help: str) -> Any:
    return option(1, help, low=0, high=(1 << 63) - 1)


def _sent_boards() -> Any:
    return option(
        "4",
        "4, or merged (one stream of whole events).",
        choices=("4", "merged"),
        words=True,
        core="merged",
        to_core=_is("merged"),
    )


def _slots() -> Any:
    return option(
        "packed",
        "Event size: packed (variable length), or fixed (32 hit slots).",
        choices=("packed", "fixed"),
        core="fixed",
        to_core=_is("fixed"),
    )


def _burst_frames() -> Any:
    return option(MAX_FRAMES, "Frames of a burst.", low=1, high=1 << 24, core="burst_frames")


def _fault() -> Any:
    return option(
        "",
        "Faults: drop=P,dup=P,reorder=P,corrupt=P,delay=P.",
        check=FAULTS,
        words=True,
        to_core=_without_spaces,
    )


def _stop_after(**more: Any) -> Any:
    text = "Stop after this time; 0: run until SIGINT or SIGTERM."
    return option(0.0, text, low=0.0, high=1e9, unit="s", **more)


@attrs.frozen(kw_only=True)
class Trigger(Section):
    """Trigger: reconstruction, destination and deadline of the answers."""

    name: ClassVar[str] = "trigger"

    send: str = option(
        "127.0.0.1:58914",
        "Destination of the primitives, HOST:PORT, several by commas.",
        check=ENDPOINTS,
        live=True,
    )
    device: str = option(
        "auto",
        "Device that reconstructs events: auto, cpu, cuda or cuda:N.",
        check=DEVICE,
        offer=("auto", "cpu", "cuda"),
    )
    algorithm: str = option(
        DEFAULT_ALGORITHM,
        f"Ring algorithm, one of {', '.join(ALGORITHMS)}, or the file of a plug-in, such as ./mine.so; its "
        "parameters are [algorithm.NAME].",
        check=_algorithm,
        offer=ALGORITHMS,
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
    duration: float = _stop_after(live=True, core=None)
    strict: bool = option(False, "Exit 1 if a frame was late or a packet lost.", live=True, core=None)
    deadline_us: float = option(
        0.0,
        f"Time from a frame's first packet to its answer; 0: {REAL_TIME_DEADLINE_US / 1000:g} ms on a "
        f"real-time host or the gateware card, else {DEFAULT_DEADLINE_US / 1000:g} ms.",
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
        check=DOWNSCALE,
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
class Card(Section):
    """Card: reception of packets and their buffers."""

    name: ClassVar[str] = "card"

    card: str = option(
        "socket",
        "Card implementation: UDP sockets, AF_XDP queues of an interface, or the simulated gateware.",
        choices=("socket", "xdp", "gateware"),
        key="type",
    )
    listen: str = option(
        "127.0.0.1:58913",
        "Address that receives packets, HOST:PORT, several by commas.",
        check=ENDPOINTS,
        words=True,
        live=True,
    )
    node: str = option(
        "",
        "Share of this node where boards deal frames to several: k/K receives frames f with f mod K = k.",
        check=NODE_SHARE,
        to_core=values.node_share,
    )
    boards: str = option(
        "4",
        "Boards that send: 4, a list such as 0,1, or merged (one stream, board 0xFF).",
        check=BOARDS,
        words=True,
        to_core=values.board_mask,
    )
    gather: str = option(
        "frame",
        "One buffer per frame, or a fixed number of packets per buffer; these are not merged.",
        choices=("frame", "packets"),
    )
    packets: int = option(16, "Packets per buffer with --gather packets.", low=1, high=4096)
    buffers: int = option(
        0,
        "Number of buffers; 0: the frames of two deadlines, as a power of two, at least 2048.",
        low=0,
        high=1 << 24,
    )
    segment_bytes: int = option(
        8192, "Bytes per board in the buffer of a frame.", low=1024, high=65472, unit="B"
    )
    merge: bool = option(False, "The card merges fragments to events before a frame reaches the trigger.")
    timeout_us: float = option(
        0.0,
        f"Time from a frame's first packet to its close; 0: {REAL_TIME_TIMEOUT_US:g} µs on a real-time host "
        f"or the gateware card, else {DEFAULT_TIMEOUT_US / 1000:g} ms.",
        low=0.0,
        high=10e6,
        unit="µs",
        live=True,
    )
    max_frames: int = option(MAX_FRAMES, "Frames of the longest burst.", low=1, high=1 << 24)
    max_payload: int = option(
        1472, "Largest accepted payload; more than 1472 needs jumbo frames.", low=64, high=8972, unit="B"
    )
    source: int = option(0x1C, "Source ID of the packets.", low=0, high=255)
    buffer_bytes: int = option(
        0,
        "Socket receive buffer; 0: the host's limit, at most 64 MiB.",
        low=0,
        high=1 << 31,
        unit="B",
        live=True,
    )
    card_threads: int = option(
        1,
        "1: one thread; 2: another one sends; 3 to 10: the others receive, at most one per address of "
        "--listen, or per queue of an xdp card. Two and more threads never sleep.",
        low=1,
        high=10,
    )
    busy: str = option(
        "auto",
        "Poll busily, or block when idle; auto: poll on a real-time host.",
        choices=("auto", "yes", "no"),
        live=True,
    )
    busy_poll_us: int = option(
        0,
        "Time that the kernel polls the NIC in each call of the card (SO_BUSY_POLL); 0: off.",
        low=0,
        high=10_000,
        unit="µs",
        live=True,
    )
    pin: str = option(
        "",
        "CPUs of the threads, such as 2,3 or 2-5, in order: card, further card threads, workers.",
        check=CPUS,
        words=True,
        live=True,
    )
    keep_bad: str = option("", "Keep the last refused packets in this pcap.")
    record: str = option("", "Record the raw packets in this folder, as a ring of captures.", live=True)
    record_limit_mb: int = option(
        4096,
        "Size of all recorded files; the oldest are deleted.",
        low=16,
        high=1 << 30,
        unit="MB",
        live=True,
        core="record_limit_bytes",
        to_core=_megabytes,
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
class DetectorFile(Section):
    """Detector: geometry and parameters from a file."""

    name: ClassVar[str] = "detector"

    detector: str = option(
        "",
        f"Detector file, or one of {', '.join(SHIPPED)}; default: NA62's RICH.",
        key="file",
        offer=SHIPPED,
        core=None,
    )


@attrs.frozen(kw_only=True)
class Monitor(Section):
    """Monitor of a running trigger: page and metrics."""

    name: ClassVar[str] = "monitor"

    monitor: str = option(
        "",
        "Serve the monitor page here: HOST:PORT, or PORT on loopback; empty: no page.",
        check=PAGE,
        key="listen",
        words=True,
    )


@attrs.frozen(kw_only=True)
class Readout(Section):
    """Emulated boards."""

    name: ClassVar[str] = "readout"

    to: str = option(
        "127.0.0.1:58913",
        "Destination, HOST:PORT, several by commas, which the boards take in turn. Repeated, or by "
        "semicolons: trigger nodes, which the frames are dealt to.",
        check=NODES,
        words=True,
        repeat=";",
        to_core=_without_spaces,
    )
    rate: float = _event_rate(0.0)
    speed: float = option(
        1.0, "Detector seconds per wall-clock second; 0: as fast as possible.", low=0.0, high=1e6
    )
    duration: float = option(
        0.0, "Wall-clock seconds; 0: one burst, or the given number of events.", low=0.0, high=1e9, unit="s"
    )
    events: int = option(0, "Events to send; 0: by duration.", low=0, high=1 << 62)
    bursts: int = option(0, "Bursts to send; 0: by duration or events, else one.", low=0, high=1 << 30)
    boards: str = _sent_boards()
    slots: str = _slots()
    pad: bool = option(False, "Make all datagrams the same size, as segmentation offload requires.")
    noise: float = _noise()
    rings: str = _ring_mix()
    seed: int = _seed("Seed of events and faults.")
    burst_gap: float = option(0.0, "Pause between bursts.", low=0.0, high=3600.0, unit="s")
    max_frames: int = _burst_frames()
    max_payload: int = option(
        1472, "Largest datagram; more than 1472 needs jumbo frames.", low=88, high=65507, unit="B"
    )
    pool_frames: int = option(4096, "Generated frames, sent repeatedly.", low=1, high=1 << 20)
    pcap_port: int = option(58913, "Destination port of the packets in the capture.", low=1, high=65535)
    fault: str = _fault()
    fault_seed: int = option(-1, "Separate seed of the faults; -1: --seed.", low=-1, high=(1 << 63) - 1)
    fault_markers: bool = option(False, "Apply faults to SOB and EOB too.")
    delay_frames: int = option(50, "Delay of delayed packets.", low=1, high=1 << 20, unit="frames")
    batch_us: float = option(
        100.0, "Wall-clock time whose frames are sent together.", low=0.0, high=1e9, unit="µs"
    )
    batch_frames: int = option(44, "Largest number of frames sent together, even when late.", low=1, high=44)
    segmentation: bool = option(True, "Send trains of datagrams with UDP segmentation offload.")
    spin: bool = option(False, "Poll between frames instead of sleeping; occupies a core.")
    threads: int = option(
        1, "Sending threads, each with its boards; a capture and a merged stream take 1.", low=1, high=4
    )
    pin: str = option(
        "",
        "CPUs of those threads, such as 2,3 or 2-5; threads beyond the list are not pinned.",
        check=CPUS,
        words=True,
        to_core=values.cpu_list,
    )


@attrs.frozen(kw_only=True)
class L0tp(Section):
    """Emulated L0 trigger processor."""

    name: ClassVar[str] = "l0tp"

    listen: str = option("127.0.0.1:58914", "Address that receives primitives, HOST:PORT.", check=ENDPOINT)
    duration: float = _stop_after()
    idle: float = option(0.0, "Stop this long after the last packet; 0: do not.", low=0.0, high=1e9, unit="s")
    burst_frames: int = option(
        0, "Frames of each burst but the last; 0: by the last frame received.", low=0, high=1 << 24
    )
    nodes: int = option(
        1,
        "Trigger nodes that the boards deal frames to; their answers are merged.",
        low=1,
        high=values.MAX_NODES,
    )
    node_silence: float = option(
        1.0,
        "Time that an answer waits for earlier frames of other nodes; then these nodes are silent.",
        low=0.001,
        high=3600.0,
        unit="s",
    )
    buffer_bytes: int = option(32 << 20, "Socket receive buffer.", low=0, high=1 << 31, unit="B")
    busy: bool = option(False, "Poll instead of sleeping; occupies a core.")
    kernel_stamps: bool = option(
        True, "Arrival times from kernel timestamps, else from the clock after each batch.", off="user-clock"
    )


@attrs.frozen(kw_only=True)
class Generate(Section):
    """Toy Monte Carlo into files."""

    name: ClassVar[str] = "generate"

    events: int = option(100_000, "Events to generate.", low=1, high=1 << 62)
    seed: int = _seed("Seed.")
    rate: float = _event_rate(1.0)
    noise: float = _noise()
    rings: str = _ring_mix()
    boards: str = _sent_boards()
    slots: str = _slots()
    pad: bool = option(False, "Pad all datagrams to max_payload (flag b6).")
    max_payload: int = option(1472, "Largest datagram.", low=100, high=65507, unit="B")
    max_frames: int = _burst_frames()


@attrs.frozen(kw_only=True)
class Demo(Section):
    """The whole chain on one machine."""

    name: ClassVar[str] = "demo"

    rate: float = _event_rate(1.0)
    speed: float = option(
        0.0, "Detector seconds per wall-clock second; 0: measured on this host.", low=0.0, high=1e3
    )
    duration: float = option(10.0, "Wall-clock seconds of the run.", low=0.5, high=86_400.0, unit="s")
    seed: int = _seed("Seed of the events.")
    noise: float = _noise()
    fault: str = option(
        "",
        "Faults of the boards as in `nanet readout`; with --network also of the link to the trigger: "
        "link_loss=0.1%,link_delay=100us,link_reorder=1%.",
        check=check_of(values.link_faults),
        words=True,
    )
    network: bool = option(
        False,
        "Run boards, trigger and L0TP in separate network namespaces, as on three machines; in a user "
        "namespace without root.",
    )
    nodes: int = option(1, "Trigger nodes that the boards deal frames to.", low=1, high=16)
    report: str = option("nanet-report", "Folder for the report; empty: no report.")
    monitor: str = option(
        "127.0.0.1:0",
        "Serve the monitor page here: HOST:PORT; port 0: a free one; empty: no page.",
        check=PAGE,
        words=True,
    )


@attrs.frozen(kw_only=True)
class Torus(Section):
    """Event-driven torus model."""

    name: ClassVar[str] = "torus"

    engine: str = option(
        "model",
        "Event-driven model, or simulated routers (source tree with Verilator).",
        choices=("model", "rtl"),
    )
    size: str = option("4x4x4", "Nodes per dimension.", check=check_of(values.torus_size))
    traffic: str = option(
        "uniform",
        "Traffic pattern.",
        choices=("uniform", "transpose", "neighbour", "hotspot", "halo"),
    )
    load: str = option(
        "0.05,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
        "Offered loads, words per node and cycle, by commas.",
        check=check_of(values.torus_loads),
    )
    payload: int = option(256, "Payload of a packet.", low=0, high=4096, unit="B")
    link: str = option(
        "router",
        "Link between routers: direct wires, or a protocol.",
        choices=("router", "reliable", "apelink"),
    )
    vc_rule: str = option(
        "infn", "Virtual channel of packets that do not wrap.", choices=("infn", "balanced")
    )
    buffer: int = option(0, "Words of an input buffer per VC; 0: 512.", low=0, high=1 << 20, unit="words")
    cycles: int = option(8000, "Measured cycles per load.", low=1, high=10**9)
    warm: int = option(2000, "Cycles before.", low=0, high=10**9)
    seed: int = _seed("Seed of the traffic.")
    gflops: float = option(135.0, "Sustained speed of one GPU (lqcd).", low=1.0, high=1e6, unit="Gflop/s")


ALL: tuple[type[Section], ...] = (
    Trigger,
    Card,
    DetectorFile,
    RealTime,
    Monitor,
    Readout,
    L0tp,
    Generate,
    Demo,
    Torus,
)
