# SPDX-License-Identifier: Apache-2.0
"""Sections of the emulated boards and L0TP, of generated files and of the demo."""

from __future__ import annotations

from typing import ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.sections import shared
from nanet.config.values import check_of


def _without_spaces(text: str) -> str:
    return text.replace(" ", "")


@attrs.frozen(kw_only=True)
class Readout(Section):
    """Emulated boards."""

    name: ClassVar[str] = "readout"

    to: str = option(
        "127.0.0.1:58913",
        "Destination, HOST:PORT, several by commas, which the boards take in turn. Repeated, or by "
        "semicolons: trigger nodes, which the frames are dealt to.",
        check=check_of(values.nodes),
        words=True,
        repeat=";",
        to_core=_without_spaces,
    )
    rate: float = shared.event_rate(0.0)
    speed: float = option(
        1.0, "Detector seconds per wall-clock second; 0: as fast as possible.", low=0.0, high=1e6
    )
    duration: float = option(
        0.0, "Wall-clock seconds; 0: one burst, or the given number of events.", low=0.0, high=1e9, unit="s"
    )
    events: int = option(0, "Events to send; 0: by duration.", low=0, high=1 << 62)
    bursts: int = option(0, "Bursts to send; 0: by duration or events, else one.", low=0, high=1 << 30)
    boards: str = shared.sent_boards()
    slots: str = shared.slots()
    pad: bool = option(False, "Make all datagrams the same size, as segmentation offload requires.")
    noise: float = shared.noise()
    rings: str = shared.ring_mix()
    seed: int = shared.seed("Seed of events and faults.")
    burst_gap: float = option(0.0, "Pause between bursts.", low=0.0, high=3600.0, unit="s")
    max_frames: int = shared.burst_frames()
    max_payload: int = option(
        1472, "Largest datagram; more than 1472 needs jumbo frames.", low=88, high=65507, unit="B"
    )
    pool_frames: int = option(4096, "Generated frames, sent repeatedly.", low=1, high=1 << 20)
    pcap_port: int = option(58913, "Destination port of the packets in the capture.", low=1, high=65535)
    fault: str = option(
        "",
        "Faults, by commas: drop=P, dup=P, reorder=P, corrupt=P, delay=P.",
        check=check_of(values.faults),
        words=True,
        to_core=_without_spaces,
    )
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
        check=check_of(values.cpu_list),
        words=True,
        to_core=values.cpu_list,
    )


@attrs.frozen(kw_only=True)
class L0tp(Section):
    """Emulated L0 trigger processor."""

    name: ClassVar[str] = "l0tp"

    listen: str = option(
        "127.0.0.1:58914", "Address that receives primitives, HOST:PORT.", check=check_of(values.endpoint)
    )
    duration: float = shared.stop_after()
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
    seed: int = shared.seed("Seed.")
    rate: float = shared.event_rate(1.0)
    noise: float = shared.noise()
    rings: str = shared.ring_mix()
    boards: str = shared.sent_boards()
    slots: str = shared.slots()
    pad: bool = option(False, "Pad all datagrams to max_payload (flag b6).")
    max_payload: int = option(1472, "Largest datagram.", low=100, high=65507, unit="B")
    max_frames: int = shared.burst_frames()


@attrs.frozen(kw_only=True)
class Demo(Section):
    """The whole chain on one machine."""

    name: ClassVar[str] = "demo"

    rate: float = shared.event_rate(1.0)
    speed: float = option(
        0.0, "Detector seconds per wall-clock second; 0: measured on this host.", low=0.0, high=1e3
    )
    duration: float = option(10.0, "Wall-clock seconds of the run.", low=0.5, high=86_400.0, unit="s")
    seed: int = shared.seed("Seed of the events.")
    noise: float = shared.noise()
    fault: str = option(
        "",
        "Faults of the boards as in `nanet readout`; with --network also of the link to the trigger: "
        "link_loss=0.1%, link_delay=100us, link_reorder=1%.",
        check=check_of(values.link_faults),
        words=True,
    )
    network: bool = option(
        False,
        "Run boards, trigger and L0TP in separate network namespaces, as on three machines; in a user "
        "namespace without root.",
    )
    nodes: int = option(1, "Trigger nodes that the boards deal frames to.", low=1, high=16)
    final: bool = option(
        False, "Close the loop: boards keep their data, and send the events of the final trigger to a farm."
    )
    cores: str = option(
        "shared",
        "own: the card's and the boards' threads on separate cores, polling, as in `nanet bench trigger`; "
        "shared: wherever the system runs them.",
        choices=("shared", "own"),
    )
    report: str = option("nanet-report", "Folder for the report; empty: no report.")
    monitor: str = option(
        "127.0.0.1:0",
        "Serve the monitor page here: HOST:PORT; port 0: a free one; empty: no page.",
        check=shared.PAGE,
        words=True,
    )
