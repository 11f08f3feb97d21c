# SPDX-License-Identifier: Apache-2.0
"""Reference trigger for replays in plain Python, written from docs/formats.md. Slow, to be read.

`Reference(options).run(path)` reads a capture and gives the expected results of `nanet replay`: counts, MTP
packets, events. Rings are those of MATH in double precision; everything else is exact.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

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


# ------------------------------------------------------------------------------------------------ packets


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


# ---------------------------------------------------------------------------------------------- receiver


@dataclass
class Segment:
    """Packets of one board in one frame."""

    packets: dict[int, Packet] = field(default_factory=dict)
    last: int | None = None  # index of the packet with b5
    end: int = 0

    def contradicts(self, p: Packet) -> bool:
        """Whether that index is present, or contradicts an earlier b5."""
        if p.index in self.packets:
            return True
        return self.last is not None and (bool(p.flags & LAST) or p.index > self.last)

    def complete(self) -> bool:
        """Whether the packet with b5 and all before it are present."""
        return self.last is not None and all(index in self.packets for index in range(self.last + 1))


@dataclass
class Board:
    """State of one board in one burst."""

    seen: set[int] = field(default_factory=set)  # sequence numbers received
    frame: int | None = None  # newest
    jump: Packet | None = None
    restarting: bool = False
    sob: bool = False
    eob: int | None = None
    newest: int = -1  # of sequence numbers
    missing_before: int = 0  # before the last restart

    def see(self, sequence: int) -> None:
        """Marks a number as received."""
        self.seen.add(sequence)
        self.newest = max(self.newest, sequence)

    def missing(self) -> int:
        """Numbers missing between the first and the newest."""
        gaps = self.newest - min(self.seen) + 1 - len(self.seen) if self.seen else 0
        return self.missing_before + gaps

    def look(self, sequence: int) -> str:
        """Whether a number is fresh, replayed (or too old), or a jump."""
        if not self.seen:
            return "fresh"
        if sequence > self.newest + SEQUENCE_JUMP:
            return "jump"
        return "replayed" if sequence in self.seen or sequence <= self.newest - SEQUENCE_WINDOW else "fresh"

    def came(self, sequence: int) -> None:
        """Marks the number of an unusable packet as received."""
        if self.look(sequence) == "fresh":
            self.see(sequence)

    def begin_anew(self, sequence: int) -> None:
        """A further SOB is valid once the next number is 1."""
        if self.restarting and sequence == 1:
            self.missing_before = self.missing()
            self.seen, self.newest = {0}, 0
            self.restarting = False


@dataclass(eq=False)
class Burst:
    """An open burst: contents of its frames, and the closed frames."""

    number: int  # including wraps
    base: int = 0  # sequence number of its frame 0
    first: int | None = None  # first frame due
    next: int = 0  # frames below are determined
    last: int | None = None  # once it is determined
    boards: dict[int, Board] = field(default_factory=dict)
    frames: dict[int, dict[int, Segment]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    closed_below: int = 0
    skipped: set[int] = field(default_factory=set)

    def board(self, number: int) -> Board:
        """State of a board."""
        return self.boards.setdefault(number, Board())

    def is_closed(self, frame: int) -> bool:
        """Whether packets of the frame are late."""
        if self.last is not None and frame > self.last:
            return True
        if self.first is not None and frame < self.first:
            return True
        return frame < self.closed_below or frame in self.closed or frame in self.skipped

    def is_jump(self, board: Board, p: Packet) -> bool:
        """Whether the packet is too far ahead of its board (for a first packet: of all boards)."""
        newest = board.frame
        if newest is None and self.first is not None:
            newest = max(self.next - 1, 0)
        return (newest is not None and p.frame > newest + FRAMES_JUMP) or board.look(p.sequence) == "jump"

    def advance(self, frame: int) -> None:
        """Takes note of a frame: those before it become due, except over a confirmed jump."""
        if self.first is None:
            self.first = self.next = frame
        if frame >= self.next:
            if frame - max(self.next - 1, 0) > FRAMES_JUMP:
                self.skipped |= set(range(self.next, frame))
            self.next = frame + 1

    def fix_last(self) -> None:
        """Determines the last frame from the EOBs of the boards, else from the packets."""
        said = sorted((b.eob for b in self.boards.values() if b.eob is not None), reverse=True)
        if said:
            agreed = [frame for frame in said if said.count(frame) > 1] + said[1:2] + said[:1]
            if self.first is None:
                self.first = self.next = agreed[0] + 1  # no packets, no frames due
            elif agreed[0] >= self.next:
                self.advance(agreed[0])
        self.last = self.next - 1


@dataclass
class Event:
    """A merged event and its result."""

    first: int  # time of the first fragment
    boards: set[int]
    fragments: list[Fragment]
    pms: list[int] = field(default_factory=list)
    time: int = 0
    incomplete: bool = False
    burst: int = 0
    fit: Fit = field(default_factory=lambda: Fit())
    either: int = 0  # bits of the primitive ID that depend on rounding
    word: int = 0  # primitive ID before downscaling and limits
    primitive: int = 0  # primitive ID sent


class Reference:
    """The trigger for one capture."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.count: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.not_mgp: Counter[str] = Counter()
        self.bursts: list[Burst] = []  # all bursts, in order
        self.open: list[Burst] = []
        self.candidates: dict[int, Packet] = {}  # first packets of new burst numbers
        self.events: list[Event] = []
        self.mtp: list[bytes] = []
        self.doubtful = 0  # events whose ring depends on single precision

    # Input

    def run(self, path: str) -> Reference:
        """Reads a capture to its end and drains."""
        for frame, original in records(path):
            content = payload(frame, original, self.options.port)
            if isinstance(content, str):
                self.not_mgp[content] += 1
            else:
                self.datagram(content)
        self.drain()
        return self

    def datagram(self, data: bytes) -> None:
        """Processes one datagram to the MGP port."""
        self.count["packets_in"] += 1
        p = parse(data, self.options)
        if isinstance(p, str):
            self.bad[p] += 1
            return
        burst = self.burst_of(p)
        if burst is None:
            return
        if p.flags & SOB:
            self.count["burst_markers"] += 1
            self.start_of_burst(burst, p)
        else:
            self.packet(burst, p)
        self.close_bursts()
        for other in self.open:
            newest = self.bursts[-1].base + self.bursts[-1].next - 1
            other.closed_below = max(other.closed_below, newest - FRAMES_ON + 1 - other.base)

    def burst_of(self, p: Packet) -> Burst | None:
        """Burst of the packet; None if the packet is consumed."""
        for burst in self.open:
            if burst.number % 256 == p.burst:
                return burst
        for burst in self.bursts[-2:]:
            if burst.number % 256 == p.burst:
                if not p.flags & SOB:
                    burst.board(p.board).begin_anew(p.sequence)
                burst.board(p.board).came(0 if p.flags & SOB else p.sequence)
                self.lost["late"] += 1
                return None
        if not self.bursts:
            return self.begin(p.burst, 0)
        ahead = (p.burst - self.bursts[-1].number) % 256
        if ahead > 127:
            self.lost["late"] += 1
            return None
        if p.burst not in self.candidates:
            self.candidates[p.burst] = p
            if p.flags & SOB:
                self.count["burst_markers"] += 1
            else:
                self.lost["unconfirmed_jump"] += 1
            return None
        kept = self.candidates[p.burst]
        self.candidates = {}
        while len(self.open) > 1 or (self.open and self.open[0].last is not None):
            self.close(self.open[0])  # a third burst
        if self.open:
            self.open[0].fix_last()
        last = self.bursts[-1].last
        assert last is not None
        burst = self.begin(self.bursts[-1].number + ahead, self.bursts[-1].base + last + 1)
        if kept.flags & SOB:
            self.start_of_burst(burst, kept)
        return burst

    def begin(self, number: int, base: int) -> Burst:
        """Starts a burst."""
        burst = Burst(number, base)
        self.open.append(burst)
        self.bursts.append(burst)
        return burst

    @staticmethod
    def start_of_burst(burst: Burst, p: Packet) -> None:
        """SOB of a board, the first or a further one."""
        if burst.first is None:
            burst.first = 0
        board = burst.board(p.board)
        board.sob = True
        if board.look(0) == "fresh":
            board.see(0)
        else:
            board.restarting = True
        if board.frame is None:
            board.frame = 0

    def packet(self, burst: Burst, p: Packet) -> None:
        """Processes a packet with events, or an EOB."""
        eob = bool(p.flags & EOB)
        board = burst.board(p.board)
        board.begin_anew(p.sequence)
        segment = burst.frames.get(p.frame, {}).get(p.board)
        if not eob and burst.is_closed(p.frame):
            board.came(p.sequence)
            self.lost["late"] += 1
        elif not eob and segment is not None and segment.contradicts(p):
            board.came(p.sequence)
            self.lost["duplicate"] += 1
        elif board.look(p.sequence) == "replayed":
            self.lost["replayed_sequence"] += 1
        elif burst.is_jump(board, p) and not self.confirms(board, p):
            board.jump = p
            self.lost["unconfirmed_jump"] += 1
        else:
            if burst.is_jump(board, p) and board.jump is not None:
                for number in sorted((board.jump.sequence, p.sequence)):  # both numbers were received
                    if board.look(number) != "replayed":
                        board.see(number)
            board.see(p.sequence)
            board.jump = None
            board.restarting = False
            if eob:
                self.count["burst_markers"] += 1
                board.eob = p.frame
            else:
                board.frame = max(board.frame or 0, p.frame)
                self.place(burst, p)

    @staticmethod
    def confirms(board: Board, p: Packet) -> bool:
        """Whether an earlier jump of the board confirms this one; the same packet again does not."""
        return (
            board.jump is not None
            and abs(p.frame - board.jump.frame) <= FRAMES_JUMP
            and 0 < abs(p.sequence - board.jump.sequence) <= SEQUENCE_JUMP
        )

    def place(self, burst: Burst, p: Packet) -> None:
        """Adds a packet to its frame."""
        burst.advance(p.frame)
        segment = burst.frames.setdefault(p.frame, {}).setdefault(p.board, Segment())
        start = (segment.end + 15) // 16 * 16
        if start + p.length > self.options.segment_bytes:
            self.lost["segment_overflow"] += 1
            return
        segment.end = start + p.length
        segment.packets[p.index] = p
        if p.flags & LAST:
            segment.last = p.index
        self.count["packets_used"] += 1
        self.count["events_in"] += len(p.fragments)
        self.count["hits_in"] += sum(len(f.hits) for f in p.fragments)
        if self.is_complete(burst, p.frame):
            burst.closed.add(p.frame)

    def is_complete(self, burst: Burst, frame: int) -> bool:
        """Whether all boards have sent the whole frame."""
        segments = burst.frames.get(frame, {})
        return all(board in segments and segments[board].complete() for board in self.options.boards)

    def close_bursts(self) -> None:
        """Closes the bursts for which all boards have sent EOB, or SOB of the next burst."""
        for burst, newer in zip(self.bursts, [*self.bursts[1:], None], strict=True):
            if burst in self.open and all(
                (number in burst.boards and burst.boards[number].eob is not None)
                or (newer is not None and number in newer.boards and newer.boards[number].sob)
                for number in self.options.boards
            ):
                self.close(burst)

    def close(self, burst: Burst) -> None:
        """Closes the burst."""
        if burst.last is None:
            burst.fix_last()
        self.open.remove(burst)

    def drain(self) -> None:
        """End of input: closes, builds and sends everything."""
        for burst in list(self.open):
            if burst.last is None:
                burst.last = burst.next - 1
            self.close(burst)
        for burst in self.bursts:
            self.lost["missing"] += sum(board.missing() for board in burst.boards.values())
            self.send(burst)

    # Output

    def send(self, burst: Burst) -> None:
        """Sends all due frames of a burst: events, primitives, packets."""
        self.count["frames_skipped"] += len(burst.skipped)
        if burst.first is None or burst.last is None:
            return
        before: tuple[int, list[Event]] = (-2, [])
        for frame in range(burst.first, burst.last + 1):
            if frame in burst.skipped:
                continue
            complete = self.is_complete(burst, frame)
            segments = burst.frames.get(frame, {})
            cut = any(p.flags & TRUNCATED for s in segments.values() for p in s.packets.values())
            events, as_merged = self.build(segments, frame, cut or not complete)
            self.count["frames_in"] += 1
            self.count["frames_incomplete"] += not complete
            if before[0] == frame - 1:
                self.count["split_at_frame_edge"] += self.split(before[1], as_merged)
            before = (frame, as_merged)
            for event in events:
                event.burst = burst.number
            self.events += events
            self.mtp.append(self.encode(frame, events))

    def build(
        self, segments: dict[int, Segment], frame: int, incomplete: bool
    ) -> tuple[list[Event], list[Event]]:
        """Events of the frame, in order of time and in order of opening."""
        fragments = [
            f for segment in segments.values() for p in segment.packets.values() for f in p.fragments
        ]
        events: list[Event] = []
        for f in sorted(fragments, key=Fragment.order):
            for event in events:
                if f.time - event.first <= self.options.window_lsb and f.board not in event.boards:
                    break
            else:
                event = Event(f.time, set(), [], incomplete=incomplete)
                events.append(event)
            event.boards.add(f.board)
            event.fragments.append(f)
        for event in events:
            self.finish(event, frame)
        return sorted(events, key=lambda event: event.time), events

    def finish(self, event: Event, frame: int) -> None:
        """Hits, time and primitive ID of a merged event."""
        hits: dict[int, int] = {}
        for f in event.fragments:
            own: dict[int, int] = {}
            for pm, time in f.hits:
                if pm in own:
                    self.count["duplicate_hits"] += 1
                else:
                    own[pm] = time
            hits |= own
        event.pms = sorted(hits)
        event.time = event.first
        if hits:
            n = len(hits)
            mean = (2 * sum(hits.values()) + n) // (2 * n)
            event.time = min(max(mean, frame * FRAME_LSB), (frame + 1) * FRAME_LSB - 1)
        event.fit = math_ring(event.pms)
        self.decide(event)
        self.count["events_built"] += 1
        self.count["rings"] += event.fit.found
        self.doubtful += event.fit.doubtful

    def decide(self, event: Event) -> None:
        """Bits of the primitive ID."""
        o = self.options
        word = 1 << 14
        if len(event.pms) >= o.multiplicity:
            word |= 1 << 9
        if event.incomplete or any(f.truncated for f in event.fragments):
            word |= 1 << 7
        fit = event.fit
        if fit.found:
            code = (fit.r - 60) / 2.25 + 0.5
            word |= 1 << 12 | min(max(math.floor(code), 0), 63)
            word |= (fit.r >= o.saturated_mm) << 11 | (fit.r < o.small_mm) << 10
            word |= (fit.chi2_ndf > o.chi2_cut) << 6
            event.either |= 0x3F * (abs(code - round(code)) * 2.25 < fit.slack)
            event.either |= (abs(fit.r - o.saturated_mm) < fit.slack) << 11
            event.either |= (abs(fit.r - o.small_mm) < fit.slack) << 10
            event.either |= (abs(fit.chi2_ndf - o.chi2_cut) < fit.slack * (1 + o.chi2_cut)) << 6
        if fit.doubtful:
            event.either |= 0x3C7F
        event.word = word

    def split(self, before: list[Event], after: list[Event]) -> int:
        """Number of events of a frame that would have merged with one of the frame before."""
        taken = [set(event.boards) for event in before]
        found = 0
        for event in after:
            for at, earlier in enumerate(before):
                if event.first - earlier.first <= self.options.window_lsb and not taken[at] & event.boards:
                    taken[at] |= event.boards
                    found += 1
                    break
        return found

    def encode(self, frame: int, events: list[Event]) -> bytes:
        """MTP packet of the frame."""
        self.count["frames_out"] += 1
        self.count["frames_answered"] += 1
        self.count["below_min_hits"] += sum(len(e.pms) < self.options.min_hits for e in events)
        wanted = [e for e in events if len(e.pms) >= self.options.min_hits]
        sent = wanted[:255]
        self.count["mtp_overflow"] += len(wanted) - len(sent)
        self.count["primitives_out"] += len(sent)
        words = [frame] if sent else []
        for event in sent:
            event.primitive = event.word
            words.append(event.word << 16 | event.time % FRAME_LSB)
        length = 8 + 4 * len(words)
        return struct.pack(f"<{2 + len(words)}I", 0x1C << 24 | frame, len(sent) << 16 | length, *words)

    def counts(self) -> dict[str, object]:
        """Counts of the JSON of `nanet replay`."""
        names = [
            "packets_in",
            "packets_used",
            "burst_markers",
            "events_in",
            "events_built",
            "hits_in",
            "rings",
            "primitives_out",
            "below_min_hits",
            "mtp_overflow",
            "in_late_frames",
            "frames_in",
            "frames_out",
            "frames_answered",
            "frames_late",
            "frames_skipped",
            "frames_incomplete",
            "frames_overrun",
            "duplicate_hits",
            "split_at_frame_edge",
        ]
        return {name: self.count[name] for name in names} | {
            "bad_packets": {name: self.bad[name] for name in REFUSALS},
            "lost": {name: self.lost[name] for name in LOST},
            "not_mgp": {name: self.not_mgp[name] for name in NOT_MGP},
            "account_closes": True,
        }


# -------------------------------------------------------------------------------------------------- rings


def pm_positions() -> np.ndarray:
    """Positions in the common plane (mm), shape (1952, 2): docs/detector.md. Rows are 9 sqrt(3) mm apart."""
    inside = [(-18, -1), (0, -1), (18, -1), (-9, 0), (9, 0), (-18, 1), (0, 1), (18, 1)]
    up = [(-243, 109.12), (-234, 155.88), (-180, 187.06), (-171, 233.83), (-117, 265.00), (-18, 280.59)]
    down = [(-252, 62.35), (-261, 15.59), (-270, -31.18), (-279, -77.94), (-243, -140.30), (-207, -202.65)]
    disk = [
        (x + 45 * cell + dx, (round(y / 15.588) - cell + dy) * 9 * math.sqrt(3))
        for rows in (up, down)
        for (x, y), cells in zip(rows, (12, 12, 11, 11, 9, 6), strict=True)
        for cell in range(cells)
        for dx, dy in inside
    ]
    both = np.array(disk + disk)
    both[:976, 0] -= 127
    both[976:, 0] -= 177
    return both


PLANE = pm_positions()


@dataclass
class Fit:
    """A circle in double precision, with bounds on the error of single precision."""

    x: float = 0.0
    y: float = 0.0
    r: float = 0.0
    chi2_ndf: float = 0.0
    slack: float = 0.0  # mm
    found: bool = False
    doubtful: bool = False  # too close to a limit to decide whether there is a ring


def math_ring(pms: list[int]) -> Fit:
    """Circle that minimises sum((d^2 - r^2)^2), by least squares: the algorithm MATH."""
    if len(pms) < 4:
        return Fit()
    points = PLANE[pms]
    mean = points.mean(axis=0)
    local = points - mean
    moments = local.T @ local
    flatness = np.linalg.det(moments) / np.trace(moments) ** 2  # 0 for a line, at most 1/4
    if flatness < 0.9e-5:
        return Fit(doubtful=flatness > 0.5e-5)
    # x^2 + y^2 = 2 a x + 2 b y + c is linear in a, b, c.
    matrix = np.column_stack([2 * local, np.ones(len(pms))])
    (a, b, c), *_ = np.linalg.lstsq(matrix, (local**2).sum(axis=1), rcond=None)
    r = math.sqrt(c + a * a + b * b)
    off = (local[:, 0] - a) ** 2 + (local[:, 1] - b) ** 2 - r * r
    chi2_ndf = float(off @ off) / (2 * r * 4.85) ** 2 / (len(pms) - 3)
    # Error of single precision in the sums of p (x^2 + y^2 - usual), propagated through the normal equations.
    about = points - [-152.0, 0.0]
    sums = np.abs(about).T @ np.abs((about**2).sum(axis=1) - 32768.0)
    rounding = 4 * 2.0**-24 * sums.max() / np.linalg.eigvalsh(moments)[0]
    slack = max(1e-3 * max(1.0, 0.02 / flatness), rounding)
    doubtful = flatness < 1.1e-5 or min(abs(r - 50), abs(r - 201)) < slack
    return Fit(mean[0] + a, mean[1] + b, r, chi2_ndf, slack, 50 <= r <= 201, doubtful)
