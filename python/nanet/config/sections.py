# SPDX-License-Identifier: Apache-2.0
"""Everything that can be set: one class per section of the TOML file (docs/configuration.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs

from nanet.config.options import Section, option

try:
    from nanet._core import algorithm_names
except ImportError:  # `nanet doctor` reports the missing core
    ALGORITHMS: tuple[str, ...] = ()
else:
    ALGORITHMS = tuple(algorithm_names())

MAX_FRAMES = 751_500  # 4.8 s of detector time


def _endpoint(text: str) -> str | None:
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        return f"{text!r} is not HOST:PORT, such as 127.0.0.1:58913"
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        return f"port {port!r} must be 1 to 65535"
    return None


def _endpoints(text: str) -> str | None:
    return next((wrong for part in text.split(",") if (wrong := _endpoint(part.strip()))), None)


def _optional(check: Callable[[str], str | None]) -> Callable[[str], str | None]:
    return lambda text: check(text) if text else None


def _page(text: str) -> str | None:
    from nanet.monitor.link import endpoint

    try:
        endpoint(text)
    except ValueError as error:
        return str(error)
    return None


def _boards(text: str) -> str | None:
    try:
        board_mask(text)
    except ValueError as error:
        return str(error)
    return None


def board_mask(text: str) -> int:
    """Bit b: board b; 0 for "merged", one stream of whole events. ValueError says what is right."""
    right = "must be 4 (all boards), a list of boards such as 0,1, or merged"
    if text == "merged":
        return 0
    if text == "4":
        return 0xF
    parts = [part.strip() for part in text.split(",")]
    if not all(part in ("0", "1", "2", "3") for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(right)
    return sum(1 << int(part) for part in parts)


def cpu_list(text: str) -> list[int]:
    """ "0,2-3" -> [0, 2, 3]. ValueError says what is right."""
    cpus: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError("must be CPU numbers such as 2,3 or 2-5")
        cpus += range(int(first), int(last if dash else first) + 1)
    return cpus


def _cpus(text: str) -> str | None:
    try:
        cpu_list(text)
    except ValueError as error:
        return str(error)
    return None


def _device(text: str) -> str | None:
    name, colon, number = text.partition(":")
    if text in ("auto", "cpu", "cuda") or (name == "cuda" and colon and number.isdecimal()):
        return None
    return "must be auto, cpu, cuda or cuda:N"


def names_a_plugin(algorithm: str) -> bool:
    """Whether an algorithm is given by the file of its plug-in: as the core sees it."""
    return "/" in algorithm or algorithm.endswith(".so")


def _algorithm(text: str) -> str | None:
    if text in ALGORITHMS or names_a_plugin(text):
        return None
    return f"must be one of {', '.join(ALGORITHMS)}, or the file of a plug-in, such as ./mine.so"


def downscale_factors(text: str) -> list[int]:
    """ "0=10,1=2" -> [10, 2, 1, 1]: of primitives without a ring one in ten is sent. ValueError says what is
    right."""
    factors = [1, 1, 1, 1]
    given: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, equals, value = (word.strip() for word in part.partition("="))
        if not equals or kind not in ("0", "1", "2", "3") or int(kind) in given:
            raise ValueError(f"{part!r} is not RINGS=FACTOR with RINGS 0, 1, 2 or 3 (or more), each once")
        if not value.isdecimal() or int(value) > 1_000_000:
            raise ValueError(f"the factor in {part!r} must be 0 (none is sent) to 1000000")
        given.add(int(kind))
        factors[int(kind)] = int(value)
    return factors


def _downscale(text: str) -> str | None:
    try:
        downscale_factors(text)
    except ValueError as error:
        return str(error)
    return None


def _per_cent(text: str) -> str | None:
    """Faults: name=probability, by commas."""
    known = ("drop", "dup", "reorder", "corrupt", "delay")
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in known:
            return f"{part!r} is not NAME=PROBABILITY with NAME one of {', '.join(known)}"
        try:
            good = 0.0 <= float(value) <= 1.0
        except ValueError:
            good = False
        if not good:
            return f"the probability in {part!r} must be 0 to 1"
    return None


@attrs.frozen(kw_only=True)
class Trigger(Section):
    """The trigger: what it reconstructs with, where answers go, when they are due."""

    name: ClassVar[str] = "trigger"

    send: str = option(
        "127.0.0.1:58914", "Where the primitives go, HOST:PORT, several by commas.", check=_endpoints
    )
    device: str = option(
        "auto",
        "Where events are reconstructed: auto, cpu, cuda or cuda:N.",
        check=_device,
        offer=("auto", "cpu", "cuda"),
    )
    algorithm: str = option(
        "multiring",
        f"Ring algorithm, one of {', '.join(ALGORITHMS)}, or the file of a plug-in, such as ./mine.so; its "
        "parameters are [algorithm.NAME].",
        check=_algorithm,
        offer=ALGORITHMS,
    )
    threads: int = option(
        1,
        "1: one thread does all, run to completion; more: workers beside the card's thread.",
        low=1,
        high=64,
    )
    executor: str = option(
        "persistent",
        "GPU executor: one resident kernel, or one kernel launch per buffer.",
        choices=("persistent", "launch"),
    )
    blocks: int = option(
        0, "Thread blocks of the resident kernel that take frames; 0: its own choice.", low=0, high=1024
    )
    devices: int = option(
        1,
        "Queues that frames are dealt to in turn, each with a GPU from --device on: 1, 2, 4, ...",
        low=1,
        high=64,
    )
    cpu_fallback: bool = option(True, "The CPU replaces a lost GPU; else answers are header-only.")
    gpu_recovery: bool = option(
        True,
        "A separate process restores a lost GPU; needs --cpu-fallback and the executor persistent.",
    )
    duration: float = option(0.0, "Stop after so long; 0: when told to.", low=0.0, high=1e9, unit="s")
    strict: bool = option(False, "Exit 1 if a frame was late or a packet lost.")
    deadline_us: float = option(
        0.0,
        "Answer due so long after a frame's first packet; 0: 1 ms on a real-time host or the gateware card, "
        "else 50 ms.",
        low=0.0,
        high=10e6,
        unit="µs",
    )
    window_lsb: int = option(
        41, "Fragments this close belong to one event.", low=0, high=65535, unit="× 0.0975 ns"
    )
    min_hits: int = option(1, "Events with fewer hits give no primitive.", low=0, high=128)
    multiplicity: int = option(
        24, "Hits from which the primitive's multiplicity bit is set.", low=1, high=128
    )
    saturated_mm: float = option(
        185.0, "A leading ring from this radius on counts as saturated.", low=0.0, high=1000.0, unit="mm"
    )
    small_mm: float = option(
        180.0, "A ring below this radius counts as small.", low=0.0, high=1000.0, unit="mm"
    )
    chi2_cut: float = option(
        3.0, "Leading ring's χ²/ndf above which the primitive says so.", low=0.0, high=1e6
    )
    downscale: str = option(
        "",
        "Of primitives with so many rings one in so many is sent: RINGS=FACTOR,…",
        check=_downscale,
        words=True,
    )
    conditions: str = option("", "File of masked photomultipliers and time offsets, reloaded between bursts.")
    burst_report: str = option("", "Write a line of JSON there for every burst.")
    choke_high: float = option(0.75, "Share of the buffers at which choke is raised.", low=0.0, high=1.0)
    choke_low: float = option(0.5, "Share of the buffers below which it is withdrawn.", low=0.0, high=1.0)


@attrs.frozen(kw_only=True)
class Card(Section):
    """The card: how packets come in and where they are put."""

    name: ClassVar[str] = "card"

    card: str = option(
        "socket",
        "Implementation of the card: on sockets, or the gateware, simulated.",
        choices=("socket", "gateware"),
        key="type",
    )
    listen: str = option(
        "127.0.0.1:58913", "Where packets arrive, HOST:PORT, several by commas.", check=_endpoints, words=True
    )
    boards: str = option(
        "4",
        "Boards that send: 4, a list such as 0,1, or merged (one stream, board 0xFF).",
        check=_boards,
        words=True,
    )
    gather: str = option(
        "frame",
        "One buffer per frame, or a number of packets per buffer, whose boards are not merged.",
        choices=("frame", "packets"),
    )
    packets: int = option(16, "Packets per buffer with --gather packets.", low=1, high=4096)
    buffers: int = option(
        0, "Buffers; 0: twice the deadline's frames as a power of two, at least 2048.", low=0, high=1 << 24
    )
    segment_bytes: int = option(
        8192, "Bytes of a frame's buffer for each board.", low=1024, high=65472, unit="B"
    )
    timeout_us: float = option(
        0.0,
        "A frame closes so long after its first packet; 0: 200 µs on a real-time host or the gateware card, "
        "else 20 ms.",
        low=0.0,
        high=10e6,
        unit="µs",
    )
    max_frames: int = option(MAX_FRAMES, "Frames of the longest burst.", low=1, high=1 << 24)
    max_payload: int = option(
        1472,
        "Largest payload that is accepted; more than 1472 needs jumbo frames.",
        low=64,
        high=8972,
        unit="B",
    )
    source: int = option(0x1C, "Source ID of the packets.", low=0, high=255)
    buffer_bytes: int = option(
        0, "Socket receive buffer; 0: as much as the host allows up to 64 MiB.", low=0, high=1 << 31, unit="B"
    )
    card_threads: int = option(
        1,
        "1: the card's thread does all; 2: another one sends; 3 to 10: the others read, at most one for each"
        " address of --listen. Those never sleep.",
        low=1,
        high=10,
    )
    busy: str = option(
        "auto",
        "Poll busily, or block when idle; auto: poll on a real-time host.",
        choices=("auto", "yes", "no"),
    )
    pin: str = option(
        "",
        "CPUs to pin the threads to, such as 2,3 or 2-5: the card's, those beside it, workers.",
        check=_cpus,
        words=True,
    )
    keep_bad: str = option("", "Keep the last refused packets in this pcap.", flag="keep-bad")
    record: str = option("", "Record the raw packets in this folder, as a ring of captures.")
    record_limit_mb: int = option(
        4096, "All recorded files together: the oldest go.", low=16, high=1 << 30, unit="MB"
    )
    record_file_mb: int = option(
        256, "Size at which a recorded file is closed.", low=1, high=1 << 20, unit="MB"
    )


@attrs.frozen(kw_only=True)
class Monitor(Section):
    """What a running trigger shows: a page with metrics, and a log."""

    name: ClassVar[str] = "monitor"

    monitor: str = option(
        "",
        "Serve the monitor's page there, HOST:PORT, or PORT for this machine alone; empty: no page.",
        check=_optional(_page),
        key="listen",
        words=True,
    )


@attrs.frozen(kw_only=True)
class Readout(Section):
    """The emulated boards."""

    name: ClassVar[str] = "readout"

    to: str = option(
        "127.0.0.1:58913", "Where to send, HOST:PORT, several by commas.", check=_endpoints, words=True
    )
    rate: float = option(10e6, "Events per second of detector time.", low=0.0, high=100e6, unit="Hz")
    speed: float = option(
        1.0, "Detector seconds per wall-clock second; 0: as fast as it goes.", low=0.0, high=1e6
    )
    duration: float = option(
        0.0, "Wall-clock seconds; 0: one burst, or as many events as asked.", low=0.0, high=1e9, unit="s"
    )
    events: int = option(0, "Events to send; 0: by duration.", low=0, high=1 << 62)
    boards: str = option(
        "4", "4, or merged (one stream of whole events).", choices=("4", "merged"), words=True
    )
    slots: str = option(
        "packed", "Events as long as they are, or of 32 hit slots each.", choices=("packed", "fixed")
    )
    pad: bool = option(
        False, "Make every datagram the same size, so that senders can use segmentation offload."
    )
    noise: float = option(1.0, "Mean noise hits per event.", low=0.0, high=64.0)
    rings: str = option(
        "mix", "Rings per event: mix, or a number.", choices=("mix", "0", "1", "2", "3", "4"), words=True
    )
    seed: int = option(1, "Seed of events and faults.", low=0, high=(1 << 63) - 1)
    burst_gap: float = option(0.0, "Pause between bursts.", low=0.0, high=3600.0, unit="s")
    max_frames: int = option(MAX_FRAMES, "Frames of a burst.", low=1, high=1 << 24)
    fault: str = option(
        "", "Faults: drop=P,dup=P,reorder=P,corrupt=P,delay=P.", check=_optional(_per_cent), words=True
    )
    threads: int = option(
        1, "Threads that send, each with boards of its own; a capture and a merged stream take 1.",
        low=1, high=4,
    )  # fmt: skip
    pin: str = option(
        "", "CPUs to pin those threads to, such as 2,3 or 2-5; what is missing is not pinned.",
        check=_cpus, words=True,
    )  # fmt: skip


@attrs.frozen(kw_only=True)
class L0tp(Section):
    """The emulated L0 trigger processor."""

    name: ClassVar[str] = "l0tp"

    listen: str = option("127.0.0.1:58914", "Where primitives arrive, HOST:PORT.", check=_endpoint)
    duration: float = option(0.0, "Stop after so long; 0: when told to.", low=0.0, high=1e9, unit="s")


@attrs.frozen(kw_only=True)
class Generate(Section):
    """The toy Monte Carlo into files."""

    name: ClassVar[str] = "generate"

    events: int = option(100_000, "Events to generate.", low=1, high=1 << 62)
    seed: int = option(1, "Seed.", low=0, high=(1 << 63) - 1)
    rate: float = option(10e6, "Events per second of detector time.", low=1.0, high=100e6, unit="Hz")
    noise: float = option(1.0, "Mean noise hits per event.", low=0.0, high=64.0)
    rings: str = option(
        "mix", "Rings per event: mix, or a number.", choices=("mix", "0", "1", "2", "3", "4"), words=True
    )
    boards: str = option(
        "4", "4, or merged (one stream of whole events).", choices=("4", "merged"), words=True
    )
    slots: str = option(
        "packed", "Events as long as they are, or of 32 hit slots each.", choices=("packed", "fixed")
    )
    pad: bool = option(False, "Pad every datagram to max_payload (flag b6).")
    max_payload: int = option(1472, "Largest datagram.", low=100, high=65507, unit="B")
    max_frames: int = option(MAX_FRAMES, "Frames of a burst.", low=1, high=1 << 24)


@attrs.frozen(kw_only=True)
class Demo(Section):
    """The whole chain on one machine."""

    name: ClassVar[str] = "demo"

    rate: float = option(10e6, "Events per second of detector time.", low=1.0, high=100e6, unit="Hz")
    speed: float = option(
        0.0, "Detector seconds per wall-clock second; 0: what the host carries.", low=0.0, high=1e3
    )
    duration: float = option(10.0, "Wall-clock seconds of the run.", low=0.5, high=86_400.0, unit="s")
    seed: int = option(1, "Seed of the events.", low=0, high=(1 << 63) - 1)
    noise: float = option(1.0, "Mean noise hits per event.", low=0.0, high=64.0)
    fault: str = option(
        "", "Faults: drop=P,dup=P,reorder=P,corrupt=P,delay=P.", check=_optional(_per_cent), words=True
    )
    report: str = option("nanet-report", "Folder for the report; empty: no report.")
    monitor: str = option(
        "127.0.0.1:0",
        "Serve the monitor's page there, HOST:PORT; port 0: a free one; empty: no page.",
        check=_optional(_page),
        words=True,
    )


ALL: tuple[type[Section], ...] = (Trigger, Card, Monitor, Readout, L0tp, Generate, Demo)
