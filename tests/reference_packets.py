# SPDX-License-Identifier: Apache-2.0
"""Reference trigger, input: options, captures and packets by docs/formats.md. Slow, to be read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

SOB, EOB, TRUNCATED, ERROR, FIXED, LAST, PADDED = (1 << bit for bit in range(7))
REFUSALS = [
    "short_header",
    "bad_version",
    "bad_source",
    "bad_board",
    "bad_encoding",
    "length_mismatch",
    "oversized",
    "sob_eob_with_events",
    "event_past_end",
    "trailing_bytes",
    "timestamp_outside_frame",
    "hits_above_32",
    "seen_below_stored",
    "pm_out_of_range",
    "pm_of_other_board",
    "frame_beyond_spill",
    "wrong_burst",
]
LOST = [
    "late",
    "duplicate",
    "replayed_sequence",
    "unconfirmed_jump",
    "overrun",
    "segment_overflow",
    "missing",
    "socket_overflow",
]
NOT_MGP = [
    "not_udp",
    "other_port",
    "ip_fragment",
    "bad_checksum",
    "not_ipv4",
    "cut_short",
    "udp_length",
]
FRAMES_JUMP, SEQUENCE_JUMP, SEQUENCE_WINDOW = 1024, 4096, 4096
FRAMES_ON = 1024  # a replay closes a frame at the first packet this much later
FRAME_LSB = 65536


@dataclass
class Options:
    """Configuration, with the defaults of docs/formats.md."""

    boards: tuple[int, ...] = (0, 1, 2, 3)  # (0xFF,) is one merged stream
    port: int = 58913
    window_lsb: int = 41
    min_hits: int = 1
    multiplicity: int = 24
    saturated_mm: float = 185.0
    small_mm: float = 180.0
    chi2_cut: float = 3.0
    segment_bytes: int = 8192
    max_payload: int = 1472
    max_frames: int = 751_500

    def core(self) -> dict[str, object]:
        """Options of nanet._core.Replay."""
        mask = 0 if self.boards == (0xFF,) else sum(1 << board for board in self.boards)
        names = (
            "port window_lsb min_hits multiplicity saturated_mm small_mm chi2_cut segment_bytes max_payload"
        )
        return {"boards": mask, "max_frames": self.max_frames} | {
            name: getattr(self, name) for name in names.split()
        }


@dataclass
class Fragment:
    """Part of an event from one board. hits: (PM ID, time in LSB since SOB), in order of arrival."""

    time: int
    board: int
    sequence: int
    position: int
    truncated: bool
    hits: list[tuple[int, int]]

    def order(self) -> tuple[int, int, int, int]:
        """Order of merging of fragments."""
        return self.time, self.board, self.sequence, self.position


@dataclass
class Packet:
    """Header fields and fragments of a packet."""

    source: int
    board: int
    version: int
    flags: int
    length: int
    count: int
    index: int
    encoding: int
    sequence: int
    frame: int
    burst: int
    fragments: list[Fragment] = field(default_factory=list)


def parse(data: bytes, options: Options) -> Packet | str:
    """The packet, or the name of its refusal."""
    if len(data) < 16:
        return "short_header"
    source, board, version, flags, length, count, index, sequence = struct.unpack("<BBBBHBBI", data[:12])
    frame, burst = int.from_bytes(data[12:15], "little"), data[15]
    p = Packet(source, board, version, flags, length, count, index & 15, index >> 4, sequence, frame, burst)
    sob, eob = bool(flags & SOB), bool(flags & EOB)
    if version != 1:
        return "bad_version"
    if source != 0x1C:
        return "bad_source"
    if board not in options.boards:
        return "bad_board"
    if p.encoding:
        return "bad_encoding"
    if length < 16 or len(data) < length or (len(data) > length and not flags & PADDED):
        return "length_mismatch"
    if sob != eob and length != (16 if sob else 40):
        return "length_mismatch"
    if len(data) > options.max_payload:
        return "oversized"
    if sob or eob:
        if (sob and eob) or count or flags & LAST:
            return "sob_eob_with_events"
    else:
        name = parse_events(data[:length], p)
        if name:
            return name
    if frame >= options.max_frames:
        return "frame_beyond_spill"
    return p


def parse_events(data: bytes, p: Packet) -> str | None:
    """Adds the fragments; returns the name of the first broken rule."""
    found: set[str] = set()
    at = 16
    for position in range(p.count):
        if at + 8 > len(data):
            return "event_past_end"
        timestamp, fine, stored, seen, flags = struct.unpack("<IBBBB", data[at : at + 8])
        size = 72 if p.flags & FIXED else 8 + 2 * stored
        if at + size > len(data):
            return "event_past_end"
        if timestamp // 256 != p.frame:
            found.add("timestamp_outside_frame")
        if stored > 32:
            found.add("hits_above_32")
        if seen < stored:
            found.add("seen_below_stored")
        time = timestamp * 256 + fine
        hits = []
        for (word,) in struct.iter_unpack("<H", data[at + 8 : at + 8 + 2 * min(stored, 32)]):
            pm, steps = word & 2047, word >> 11
            hits.append((pm, time + 4 * (steps - 32 if steps & 16 else steps)))
            if pm > 1951:
                found.add("pm_out_of_range")
            elif p.board != 0xFF and pm // 512 != p.board:
                found.add("pm_of_other_board")
        p.fragments.append(Fragment(time, p.board, p.sequence, position, flags & 1 or seen > stored, hits))
        at += size
    if at != len(data):
        return "trailing_bytes"
    return next((name for name in REFUSALS if name in found), None)


def records(path: str) -> Iterator[tuple[bytes, int]]:
    """(captured bytes, length on the wire) of each record of a classic pcap."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<"}.get(data[:4], ">")
    at = 24
    while at + 16 <= len(data):
        _, _, captured, original = struct.unpack_from(order + "4I", data, at)
        if at + 16 + captured > len(data):
            return
        yield data[at + 16 : at + 16 + captured], original
        at += 16 + captured


def internet_sum(data: bytes) -> int:
    """Ones' complement sum of 16-bit words."""
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def payload(frame: bytes, original: int, port: int) -> bytes | str:
    """UDP payload to the MGP port, or the name of the other kind of frame."""
    if len(frame) < 14:
        return "cut_short"
    if frame[12:14] != b"\x08\x00":
        return "not_ipv4"
    ip = frame[14:]
    if len(ip) < 20:
        return "cut_short"
    head, total = 4 * (ip[0] & 15), int.from_bytes(ip[2:4], "big")
    if ip[0] >> 4 != 4 or head < 20 or total < head:
        return "not_ipv4"
    if len(ip) < head:
        return "cut_short"
    if internet_sum(ip[:head]) != 0xFFFF:
        return "bad_checksum"
    if ip[9] != 17:
        return "not_udp"
    if int.from_bytes(ip[6:8], "big") & 0x3FFF:
        return "ip_fragment"
    if total < head + 8:
        return "udp_length"
    udp = ip[head:total]
    if len(udp) < 8:
        return "cut_short"
    _, to, length, check = struct.unpack(">4H", udp[:8])
    if to != port:
        return "other_port"
    if len(frame) < original or len(udp) < total - head:
        return "cut_short"
    if length < 8 or length > len(udp):
        return "udp_length"
    pseudo = ip[12:20] + struct.pack(">HH", 17, length)
    if check and internet_sum(pseudo + udp[:length]) != 0xFFFF and check != internet_sum(pseudo):
        return "bad_checksum"
    return udp[8:length]
