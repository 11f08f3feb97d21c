# SPDX-License-Identifier: Apache-2.0
"""Reference trigger for replays in plain Python, written from docs/formats.md. Slow, to be read.

`Reference(options).run(path)` reads a capture and gives the expected results of `nanet replay`: counts, MTP
packets, events. Rings are those of MATH in double precision; everything else is exact.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass, field

from reference_packets import (
    EOB,
    FRAME_LSB,
    FRAMES_JUMP,
    FRAMES_ON,
    LAST,
    LOST,
    NOT_MGP,
    REFUSALS,
    SEQUENCE_JUMP,
    SOB,
    TRUNCATED,
    Fragment,
    Options,
    Packet,
    parse,
    payload,
    records,
)
from reference_receiver import Board, Burst, Segment
from reference_rings import Fit, math_ring


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
