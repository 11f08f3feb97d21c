# SPDX-License-Identifier: SHL-2.1
"""Reference model of the receive path in gather mode `frame`, with the real firmware for slow-path packets.

Fast-path decisions follow clop; the firmware takes the others (doc/firmware.md). Times have any unit, as long
as it is the same everywhere.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import reference_mgp as mgp
from firmware_port_model import FW, Port

FRAME_WINDOW, SEQUENCE_WINDOW = 1024, 4096
RECEIVE_DONE, ERROR, BURST_BEGINS, BURST_ENDS = 1, 3, 4, 5
PLACED = {1: "late", 3: "replayed_sequence", 7: "burst_markers", 8: "unconfirmed_jump", 9: "wrong_burst"}
AGAIN, ADMIT = 0, 10
Counts = (
    "packets_used",
    "burst_markers",
    "late",
    "duplicate",
    "replayed_sequence",
    "unconfirmed_jump",
    "overrun",
    "segment_overflow",
    "wrong_burst",
    "bursts",
    "frames_in",
    "frames_skipped",
    "frames_overrun",
)


@dataclass
class Progress:
    """State of a board in a burst, as clop stores it."""

    started: bool = False
    newest: int = 0
    seen: set[int] = field(default_factory=set)
    span: int = 0
    received: int = 0
    frozen: int = 0
    has_frame: bool = False
    frame: int = 0
    ordinary: bool = False
    watch: bool = False

    def look(self, sequence: int) -> str:
        if not self.started:
            return "is_new"
        ahead = sequence - self.newest
        if ahead > SEQUENCE_WINDOW:
            return "jump"
        return "replayed" if ahead <= -SEQUENCE_WINDOW or sequence in self.seen else "is_new"

    def accept(self, sequence: int) -> None:
        if self.look(sequence) == "replayed":
            return
        self.received += 1
        if not self.started:
            self.started, self.newest, self.span = True, sequence, 1
        elif sequence > self.newest:
            self.span += sequence - self.newest
            self.newest = sequence
        elif self.newest - sequence >= self.span:
            self.span = self.newest - sequence + 1
        self.seen.add(sequence)

    def restart(self) -> None:
        self.frozen = self.missing()
        self.started, self.span, self.received = False, 0, 0
        self.seen.clear()

    def missing(self) -> int:
        return self.frozen + self.span - self.received


@dataclass
class Burst:
    """One of clop's two burst contexts."""

    known: bool = False
    number: int = 0
    base: int = 0
    next: int = 0
    started: bool = False
    ending: bool = False
    over: bool = False
    open: int = 0
    board: list[Progress] = field(default_factory=lambda: [Progress() for _ in range(4)])


@dataclass
class Segment:
    """Segment of one board in a frame."""

    indices: int = 0
    last: int | None = None
    data: bytes = b""
    packets: int = 0
    flags: int = 0


@dataclass
class Slot:
    """Receive buffer and the frame in it."""

    n: int
    frame: int
    first: int
    seen: bool = False
    open: bool = True
    back: bool = False  # returned by the consumer
    complete: int = 0
    board: list[Segment] = field(default_factory=lambda: [Segment() for _ in range(4)])


@dataclass(frozen=True)
class Event:
    """Event with the contents of its buffer."""

    kind: int
    flags: int
    buffer: int
    bytes: int
    frame: int
    n: int
    contents: bytes = b""


class Card(Port):
    """Processes packets in order, each with its time; the consumer calls take() at any time."""

    waits = False  # replay: wait for a buffer's return

    def __init__(
        self,
        boards: int = 0xF,
        buffers: int = 2048,
        segment: int = 8192,
        timeout: int = 1000,
        silence: int = 100_000,
        replay: bool = False,
        pages: Mapping[int, int] | None = None,
        clop: int = 0,
        page_shift: int = 12,
    ):
        self.expected, self.buffers, self.segment = boards or 1, buffers, segment
        self.current, self.old = Burst(), Burst()
        self.slots: dict[int, Slot] = {}
        self.overruns: set[int] = set()
        self.timers: deque[tuple[int, int]] = deque()
        self.missing_before = 0
        self.counts: dict[str, int] = dict.fromkeys(Counts, 0)
        self.events: list[Event] = []
        super().__init__(boards, timeout, silence, replay, pages, clop, page_shift)

    # ------------------------------------------------------------ commands

    def command(self, word: int) -> None:
        op, flag, board = word & 15, word >> 5 & 1, word >> 6 & 3
        burst = self.old if word >> 4 & 1 else self.current
        frame = self.written.get(FW["FRAME"], 0)
        if op == FW["BURST"]:
            self.begin(frame, bool(flag))
        elif op == FW["LAST"]:
            assert burst is self.current and not burst.ending
            if flag and not burst.started:
                self.join(burst, frame + 1)
            elif flag:
                self.open_up_to(burst, frame)
            burst.ending = True
            self.finish_if_done(burst)
        elif op == FW["SEEN"]:
            burst.board[board].accept(self.written[FW["NUMBER"]])
        elif op == FW["RESTART"]:
            burst.board[board].restart()
        elif op == FW["BOARD"]:
            burst.board[board].has_frame = burst.started = True
        elif op == FW["WATCH"]:
            burst.board[board].watch = bool(flag)
        elif op == FW["CLOSE"]:
            for n, _ in list(self.timers):
                slot = self.slots.get(n % self.buffers)
                if slot and slot.n == n and slot.open and burst.base <= n < burst.base + burst.next:
                    self.close(slot, True)
            self.finish_if_done(burst)
        else:
            assert op == FW["ANSWER"] and self.rare is not None
            assert word >> 8 & 7 == self.rare["CHANNEL"]
            self.rare, self.answer = None, word >> 12 & 15

    def begin(self, number: int, sob: bool) -> None:
        assert not self.current.known or self.current.ending
        assert not self.old.known or (self.old.ending and self.old.over)
        self.missing_before += sum(board.missing() for board in self.old.board)
        base = self.current.base + self.current.next
        self.old, self.current = self.current, Burst(known=True, number=number, base=base, started=sob)
        self.last_packet = self.stamp
        self.counts["bursts"] += 1
        self.events.append(Event(BURST_BEGINS, 0, base & 0xFFFFFFFF, base >> 32, number, base & 0xFFFFFFFF))

    # ------------------------------------------------------------ packets

    def packet(self, data: bytes, stamp: int, channel: int = 0) -> None:
        """Process a sound packet; slow-path packets go to the firmware."""
        h = mgp.header(data)
        self.now = self.stamp = stamp
        admitted = False
        for _ in range(8):
            name = self.judge(data, h, admitted)
            if name is not None:
                break
            assert self.rare is not None
            self.rare["CHANNEL"] = channel
            self.rare_header, self.rare_stamp = data[:16], stamp
            while self.answer is None:
                assert self.firmware.step(), "the firmware did not decide a packet"
                self.requests += 1
            answered, self.answer = self.answer, None
            if answered not in (AGAIN, ADMIT):
                name = PLACED[answered]
                break
            admitted = answered == ADMIT
        else:
            raise AssertionError("the firmware does not stop sending requests")
        self.counts[name] += 1
        if self.replay:
            self.close_overtaken()

    def judge(self, data: bytes, h: dict[str, int], admitted: bool) -> str | None:
        """Return the outcome of a packet, or None for the slow path."""
        number, b = h["burst"], 0 if h["board"] == 0xFF else h["board"]
        for burst in (self.current, self.old):
            if burst.known and burst.number & 0xFF == number:
                break
        else:
            self.ask(None, b, OTHER=True)
            return None
        board, frame = burst.board[b], h["frame"]
        marker = bool(h["flags"] & (mgp.SOB | mgp.EOB))
        if burst is self.current and not burst.over:
            self.last_packet = max(self.last_packet, self.stamp)
        look = board.look(0 if h["flags"] & mgp.SOB else h["sequence"])
        reference = board.frame if board.has_frame else max(0, burst.next - 1)
        far = (board.has_frame or burst.started) and frame - reference > FRAME_WINDOW
        why = {"JUMP": look == "jump", "FAR": far, "REPLAYED": look == "replayed"}
        if marker:
            self.ask(burst, b, MARKER=True, **why)
            return None
        if board.watch and h["sequence"] == 1 and not admitted:
            self.ask(burst, b, WATCHED=True, **why)
            return None
        n = burst.base + frame
        slot = self.slots.get(n % self.buffers)
        known = frame < burst.next or burst.ending
        is_open = bool(slot and slot.n == n and slot.open and frame < burst.next)
        overrun = n in self.overruns and frame < burst.next

        def remember() -> None:
            if look == "is_new" and not admitted:
                board.accept(h["sequence"])

        if burst.over or (known and not is_open and not overrun):
            remember()
            return "late"
        if known and is_open:
            part = slot.board[b]
            if part.indices >> h["index"] & 1 or (
                part.last is not None
                and (h["index"] > part.last or (h["flags"] & mgp.LAST and h["index"] != part.last))
            ):
                remember()
                return "duplicate"
        if not admitted:
            if look == "replayed":
                return "replayed_sequence"
            if look == "jump" or far:
                self.ask(burst, b, **why)
                return None
            board.accept(h["sequence"])
            board.ordinary = True
        board.frame = max(board.frame, frame) if board.has_frame else frame
        board.has_frame = True
        if not known:
            if not burst.started:
                self.join(burst, frame)
            self.open_up_to(burst, frame)
        if n in self.overruns:
            return "overrun"
        return self.place(burst, n, b, h, data)

    def ask(self, burst: Burst | None, b: int, **why: bool) -> None:
        assert self.rare is None
        active = bool(burst and burst.known and not burst.over)
        self.rare = {**why, "ACTIVE": active, "OLD": burst is self.old}
        self.rare["OLD_ACTIVE"] = self.old.known and not self.old.over
        if burst:
            self.rare["ORDINARY"] = burst.board[b].ordinary
            burst.board[b].ordinary = False

    def join(self, burst: Burst, frame: int) -> None:
        burst.started, burst.next = True, frame
        if self.replay:
            self.close_overtaken()

    def open_up_to(self, burst: Burst, frame: int) -> None:
        if frame >= burst.next and frame - max(0, burst.next - 1) > FRAME_WINDOW:
            self.counts["frames_skipped"] += frame - burst.next
            burst.next = frame
            if self.replay:
                self.close_overtaken()
        while burst.next <= frame:
            n = burst.base + burst.next
            slot = self.slots.get(n % self.buffers)
            self.counts["frames_in"] += 1
            # A replay waits for a closed buffer that is not yet returned, if the card supports it.
            if slot and (slot.open or not (slot.back or self.waits)):
                self.overruns.add(n)
                self.counts["frames_overrun"] += 1
                self.events.append(Event(ERROR, 8, 0, 1, burst.next, n & 0xFFFFFFFF))
            else:
                self.slots[n % self.buffers] = Slot(n, burst.next, self.stamp)
                self.timers.append((n, self.stamp))
                burst.open += 1
            burst.next += 1

    def place(self, burst: Burst, n: int, b: int, h: dict[str, int], data: bytes) -> str:
        slot = self.slots[n % self.buffers]
        if not slot.seen:
            slot.seen = True
            if slot.first != self.stamp and not self.replay:
                slot.first = self.stamp
                self.timers.append((n, self.stamp))
        part = slot.board[b]
        size = -(-h["length"] // 16) * 16
        if len(part.data) + size > self.segment:
            return "segment_overflow"
        part.data += data[: h["length"]] + bytes(size - h["length"])
        part.packets += 1
        part.flags |= h["flags"]
        part.indices |= 1 << h["index"]
        if h["flags"] & mgp.LAST:
            part.last = h["index"]
        if part.last is not None:
            lower = (2 << part.last) - 1
            if part.indices & lower == lower:
                slot.complete |= 1 << b
                if slot.complete == self.expected:
                    self.close(slot, False)
                    self.finish_if_done(burst)
        return "packets_used"

    # ------------------------------------------------------------ closing

    def close(self, slot: Slot, timed_out: bool) -> None:
        slot.open = False
        missing = self.expected & ~slot.complete
        truncated = any(part.flags & mgp.TRUNCATED for part in slot.board)
        flags = (not missing) | timed_out << 1 | truncated << 2 | missing << 8
        head = struct.pack("<IBBH", slot.frame, slot.complete, self.expected, flags)
        for part in slot.board:
            head += struct.pack("<HBB", len(part.data), part.packets, part.flags)
        body = b"".join(part.data for part in slot.board)
        old = self.old.known and slot.n < self.current.base
        (self.old if old else self.current).open -= 1
        self.events.append(
            Event(
                RECEIVE_DONE,
                flags,
                slot.n % self.buffers,
                len(body),
                slot.frame,
                slot.n & 0xFFFFFFFF,
                head.ljust(64, b"\0") + body,
            )
        )

    def finish_if_done(self, burst: Burst) -> None:
        if not burst.known or burst.over or not burst.ending or burst.open:
            return
        burst.over = True
        last = max(0, burst.next - 1)
        self.events.append(Event(BURST_ENDS, 0, 0, 0, last, burst.base + last & 0xFFFFFFFF))

    def live(self, n: int, first: int) -> Slot | None:
        slot = self.slots.get(n % self.buffers)
        return slot if slot and slot.n == n and slot.first == first and slot.open else None

    def close_overtaken(self) -> None:
        while self.timers:
            slot = self.live(*self.timers[0])
            if slot:
                if self.current.base + self.current.next - slot.n <= FRAME_WINDOW:
                    break
                self.close(slot, True)
                self.finish_if_done(self.old)
                self.finish_if_done(self.current)
            self.timers.popleft()

    def expire(self, now: int) -> None:
        """Advance the time and close expired frames."""
        self.now = self.stamp = now
        while not self.replay and self.timers:
            n, first = self.timers[0]
            slot = self.live(n, first)
            if slot:
                if first + self.timeout > now:
                    break
                self.close(slot, True)
                self.finish_if_done(self.old)
                self.finish_if_done(self.current)
            self.timers.popleft()
        while self.firmware.step():
            self.requests += 1

    def drain(self, now: int) -> None:
        """Announce the end of the input to the firmware."""
        self.now, self.drain_due = now, True
        while self.firmware.step():
            pass

    def take(self) -> list[Event]:
        """Return the new events and release their buffers."""
        events, self.events = self.events, []
        for event in events:
            if event.kind == RECEIVE_DONE:
                self.slots[event.buffer].back = True
        return events

    def missing(self) -> int:
        """Return the expected value of lost.missing."""
        both = self.current.board + self.old.board
        return self.missing_before + sum(board.missing() for board in both)
