# SPDX-License-Identifier: Apache-2.0
"""Sections of the card and of the detector."""

from __future__ import annotations

from typing import ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.sections import shared
from nanet.config.values import check_of
from nanet.detector import SHIPPED


def _megabytes(number: int) -> int:
    return number * 1_000_000


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
        check=check_of(values.endpoints),
        words=True,
        live=True,
    )
    node: str = option(
        "",
        "Share of this node where boards deal frames to several: k/K receives frames f with f mod K = k.",
        check=check_of(values.node_share),
        to_core=values.node_share,
    )
    boards: str = option(
        "4",
        "Boards that send: 4, a list such as 0,1, or merged (one stream, board 0xFF).",
        check=check_of(values.board_mask),
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
        f"Time from a frame's first packet to its close; 0: {shared.REAL_TIME_TIMEOUT_US:g} µs on a "
        f"real-time host or the gateware card, else {shared.DEFAULT_TIMEOUT_US / 1000:g} ms.",
        low=0.0,
        high=10e6,
        unit="µs",
        live=True,
    )
    max_frames: int = option(shared.MAX_FRAMES, "Frames of the longest burst.", low=1, high=1 << 24)
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
        check=check_of(values.cpu_list),
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
