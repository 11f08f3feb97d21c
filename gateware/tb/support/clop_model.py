# SPDX-License-Identifier: SHL-2.1
"""Reference model of the receive path, gather mode `frame`: packet counts, frames, events and bursts.

Source of the rules: docs/formats.md.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

import reference_mgp as mgp

WINDOW, FRAME_WINDOW = 4096, 1024


@dataclass
class Part:
    """Segment of one board in a frame."""

    indices: set[int] = field(default_factory=set)
    last: int | None = None
    end: int = 0
    packets: int = 0
    flags: int = 0
    data: bytearray = field(default_factory=bytearray)


@dataclass
class Frame:
    """Frame with an owed answer."""

    n: int
    number: int
    buffer: bool
    open: bool = True
    timed_out: bool = False
    boards: dict[int, Part] = field(default_factory=dict)
    complete: int = 0


class Sequence:
    """Sequence-number state of a board."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.newest: int | None = None
        self.span = self.received = self.frozen = 0

    def look(self, number: int) -> str:
        if self.newest is None:
            return "is_new"
        ahead = number - self.newest
        if ahead > WINDOW:
            return "jump"
        return "replayed" if ahead <= -WINDOW or number in self.seen else "is_new"

    def accept(self, number: int) -> None:
        self.received += 1
        if self.newest is None:
            self.newest, self.span, self.seen = number, 1, set()
        elif number > self.newest:
            self.span += number - self.newest
            self.newest = number
        else:
            self.span = max(self.span, self.newest - number + 1)
        self.seen.add(number)

    def restart(self) -> None:
        self.frozen, self.newest, self.received = self.missing, None, 0

    @property
    def missing(self) -> int:
        return self.frozen + (0 if self.newest is None else self.span - self.received)


class Board:
    """State of a board in a burst."""

    def __init__(self) -> None:
        self.sequence = Sequence()
        self.newest: int | None = None
        # frame and sequence number of a possible jump's first packet
        self.jump: tuple[int, int] | None = None
        self.sob_pending = self.sob = False
        self.eob: int | None = None


class Burst:
    """Current or previous burst."""

    def __init__(self, number: int, base: int) -> None:
        self.number, self.base, self.next, self.open = number, base, 0, 0
        self.ending = self.over = self.started = self.notified = False
        self.board = [Board() for _ in range(4)]

    @property
    def active(self) -> bool:
        return not (self.ending and self.open == 0)

    @property
    def newest(self) -> int:
        return max(self.next - 1, 0)


class ClopModel:
    """Processes packets in the order in which they end. `base`: number of the first burst's frame 0.

    window: frames older than this many numbers are closed, as in a replay (0: none).
    """

    def __init__(self, buffers=2048, segment=8192, expected=0xF, base=0, window=0):
        self.buffers, self.segment, self.expected, self.window = buffers, segment, expected, window
        self.end = base
        self.frames: dict[int, Frame] = {}
        self.slots: dict[int, int] = {}  # buffer index to the number that used it last
        self.returns = True  # buffers return as soon as their frame closes
        self.returned: set[int] = set()
        self.current: Burst | None = None
        self.old: Burst | None = None
        self.candidates: dict[int, int] = {}  # boards with an SOB as a new burst's first packet
        self.counts: Counter[str] = Counter()
        self.closed: list[int] = []  # numbers in event order
        self.owed: list[tuple[int, bool]] = []
        self.bursts: list[tuple[str, int]] = []  # begin and end events
        self.skipped = 0
        self.missing_before = [0] * 4

    def packet(self, data: bytes, **rules) -> str:
        """Process a UDP payload; return the name under which it is counted."""
        name = mgp.refusal(data, **rules)
        if name is None:
            name = self._sound(data, mgp.header(data))
            if self.window:
                self._overtaken()
        self.counts[name] += 1
        return name

    def missing(self, board: int) -> int:
        """Return the number of missing sequence numbers of a board."""
        open_bursts = [burst for burst in (self.old, self.current) if burst]
        return self.missing_before[board] + sum(b.board[board].sequence.missing for b in open_bursts)

    # ------------------------------------------------------------------ bursts

    def _sound(self, data: bytes, h: dict[str, int]) -> str:
        sob, marker = bool(h["flags"] & mgp.SOB), bool(h["flags"] & (mgp.SOB | mgp.EOB))
        current, old = self.current, self.old
        b = 0 if h["board"] == 0xFF else h["board"]
        if current is None:
            self._begin(h["burst"])
        elif h["burst"] == current.number:
            if not current.active:
                return self._too_late(current.board[b], h)
        elif old and h["burst"] == old.number:
            if not old.active and (old.over or not marker):
                return self._too_late(old.board[b], h)
            return self._marker(old, b, h) if marker else self._data(old, b, h, data)
        elif (ahead := h["burst"] - current.number & 255) > 127:
            return "late"
        elif old and old.active and not self.window:
            return "wrong_burst"
        elif h["burst"] not in self.candidates:
            self.candidates[h["burst"]] = sob << b
            return "marker" if sob else "jump"
        else:
            if old and old.active:
                self._close_all(old)
            self._begin(current.number + ahead & 255)
        burst = self.current
        return self._marker(burst, b, h) if marker else self._data(burst, b, h, data)

    def _begin(self, number: int) -> None:
        if self.current:
            self.current.over = self.current.ending
            if not self.current.ending:
                self._fix_last(self.current)
            if self.old:
                for b in range(4):
                    self.missing_before[b] += self.old.board[b].sequence.missing
            self.old = self.current
        self.current = Burst(number, self.end)
        for b in range(4):
            if self.candidates.get(number, 0) >> b & 1:
                board = self.current.board[b]
                self.current.started = board.sob = True
                board.sequence.accept(0)
                board.newest = 0
        self.candidates.clear()
        self.bursts.append(("begins", self.current.base))
        self._close_old_if_done()

    def _done(self, burst: Burst) -> bool:
        newer = self.current.board if burst is self.old else [None] * 4
        return all(
            burst.board[b].eob is not None or (newer[b] and newer[b].sob)
            for b in range(4)
            if self.expected >> b & 1
        )

    def _close_old_if_done(self) -> None:
        if self.old and self._done(self.old):
            self.old.over = True
            self._close_all(self.old)

    def _fix_last(self, burst: Burst) -> None:
        said = sorted(board.eob for board in burst.board if board.eob is not None)
        if said:
            agreed = [frame for frame in said if said.count(frame) > 1]
            last = said[0] if len(said) == 1 else max(agreed) if agreed else said[-2]
            if not burst.started:
                self._pass_over(burst, last + 1)
            if last >= burst.next:
                self._open_up_to(burst, last)
        burst.ending = True
        self._finish(burst)

    def _finish(self, burst: Burst) -> None:
        if not burst.active and not burst.notified:
            burst.notified = True
            self.bursts.append(("ends", burst.base + burst.newest))

    def _close_all(self, burst: Burst) -> None:
        for frame in list(self.frames.values()):
            if frame.open and frame.buffer and burst.base <= frame.n < burst.base + burst.next:
                self.close(frame.n, True)
        self._finish(burst)

    def _marker(self, burst: Burst, b: int, h: dict[str, int]) -> str:
        board = burst.board[b]
        if h["flags"] & mgp.SOB:
            burst.started = board.sob = True
            if board.sequence.look(0) == "is_new":
                board.sequence.accept(0)
            else:
                board.sob_pending = True
            board.newest = board.newest or 0
            if burst is self.current:
                self._close_old_if_done()
            return "marker"
        self._renew(board, h)
        if refused := self._admit(burst, board, h):
            return refused
        board.eob = h["frame"]
        if burst is self.old:
            self._close_old_if_done()
        elif not burst.ending and self._done(burst):
            self._fix_last(burst)
            if self.window:
                self._close_all(burst)
        return "marker"

    # ------------------------------------------------------------------ boards

    def _too_late(self, board: Board, h: dict[str, int]) -> str:
        if not h["flags"] & mgp.SOB:
            self._renew(board, h)
        return self._remember(board, h, "late")

    @staticmethod
    def _renew(board: Board, h: dict[str, int]) -> None:
        if board.sob_pending and h["sequence"] == 1:
            board.sob_pending = False
            board.sequence.restart()
            board.sequence.accept(0)

    @staticmethod
    def _remember(board: Board, h: dict[str, int], name: str) -> str:
        number = 0 if h["flags"] & mgp.SOB else h["sequence"]
        if board.sequence.look(number) == "is_new":
            board.sequence.accept(number)
        return name

    @staticmethod
    def _admit(burst: Burst, board: Board, h: dict[str, int]) -> str | None:
        look, frame, number = board.sequence.look(h["sequence"]), h["frame"], h["sequence"]
        if look == "replayed":
            return "replayed"
        reference = board.newest if board.newest is not None else burst.newest
        far = (board.newest is not None or burst.started) and frame - reference > FRAME_WINDOW
        if far or look == "jump":
            before = board.jump
            if (
                not before
                or abs(frame - before[0]) > FRAME_WINDOW
                or not 0 < abs(number - before[1]) <= WINDOW
            ):
                board.jump = (frame, number)
                return "jump"
            for one in sorted((before[1], number)):
                if board.sequence.look(one) != "replayed":
                    board.sequence.accept(one)
        else:
            board.sequence.accept(number)
        board.jump, board.sob_pending = None, False
        if not h["flags"] & mgp.EOB:
            board.newest = max(board.newest or 0, frame)
        return None

    # ------------------------------------------------------------------ frames

    def _data(self, burst: Burst, b: int, h: dict[str, int], data: bytes) -> str:
        board = burst.board[b]
        self._renew(board, h)
        n = burst.base + h["frame"]
        known, frame = h["frame"] < burst.next or burst.ending, self.frames.get(n)
        if known:
            if h["frame"] >= burst.next or frame is None or (frame.buffer and not frame.open):
                return self._remember(board, h, "late")
            part = frame.boards.get(b, Part())
            if frame.buffer and (
                h["index"] in part.indices
                or (
                    part.last is not None
                    and (h["index"] > part.last or (h["flags"] & mgp.LAST and h["index"] != part.last))
                )
            ):
                return self._remember(board, h, "duplicate")
        if refused := self._admit(burst, board, h):
            return refused
        if not known:
            if not burst.started:
                self._pass_over(burst, h["frame"])
            self._open_up_to(burst, h["frame"])
        return self._place(burst, n, b, h, data)

    def _place(self, burst: Burst, n: int, b: int, h: dict[str, int], data: bytes) -> str:
        frame = self.frames[n]
        if not frame.buffer:
            return "overrun"
        part = frame.boards.setdefault(b, Part())
        size = -(-len(data[: h["length"]]) // 16) * 16
        if part.end + size > self.segment:
            if not part.packets:
                del frame.boards[b]
            return "overflow"
        part.data += data[: h["length"]] + bytes(size - h["length"])
        part.end += size
        part.packets += 1
        part.flags |= h["flags"]
        part.indices.add(h["index"])
        if h["flags"] & mgp.LAST:
            part.last = h["index"]
        if part.last is not None and all(i in part.indices for i in range(part.last + 1)):
            frame.complete |= 1 << b
        if frame.complete == self.expected:
            self.close(n)
        return "used"

    def _pass_over(self, burst: Burst, frame: int) -> None:
        burst.started, burst.next = True, frame
        self.end = burst.base + frame
        if self.window:
            self._overtaken()

    def _open_up_to(self, burst: Burst, frame: int) -> None:
        if frame < burst.next:
            return
        if frame - burst.newest > FRAME_WINDOW:
            self.skipped += frame - burst.next
            self._pass_over(burst, frame)
        while burst.next <= frame:
            n = burst.base + burst.next
            free = self._free(n)
            self.frames[n] = Frame(n, burst.next, free)
            if free:
                self.slots[n % self.buffers] = n
                burst.open += 1
            self.owed.append((n, not free))
            burst.next += 1
            self.end = n + 1

    def _free(self, n: int) -> bool:
        before = self.slots.get(n % self.buffers)
        if before is None or before in self.returned:
            return True
        # Return slots are released in number order, so earlier open frames hold this one back.
        return self.returns and not any(f.open and f.buffer and f.n <= before for f in self.frames.values())

    def _overtaken(self) -> None:
        for frame in list(self.frames.values()):
            if frame.open and frame.buffer and self.end - frame.n > self.window:
                self.close(frame.n, True)

    def close(self, n: int, timed_out: bool = False) -> None:
        """Close a frame: complete, timed out, or at its burst's end."""
        frame = self.frames[n]
        frame.open, frame.timed_out = False, timed_out
        self.closed.append(n)
        burst = self.old if self.old and n < self.current.base else self.current
        burst.open -= 1
        self._finish(burst)

    def header(self, n: int) -> bytes:
        """Return the 64 B header of a closed frame."""
        frame = self.frames[n]
        missing = self.expected & ~frame.complete
        truncated = any(part.flags & mgp.TRUNCATED for part in frame.boards.values())
        flags = (not missing) | frame.timed_out << 1 | truncated << 2 | missing << 8
        out = struct.pack("<IBBH", frame.number, frame.complete, self.expected, flags)
        for b in range(8):
            part = frame.boards.get(b, Part())
            out += struct.pack("<HBB", part.end, part.packets, part.flags)
        return out + bytes(64 - len(out))
