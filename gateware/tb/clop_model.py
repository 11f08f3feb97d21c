# SPDX-License-Identifier: SHL-2.1
"""What the receive path must do with packets of one burst, by docs/formats.md: names, places, events."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

import reference_mgp as mgp

WINDOW, FRAME_WINDOW = 4096, 1024


@dataclass
class Board:
    """A board's part of a frame."""

    indices: set[int] = field(default_factory=set)
    last: int | None = None
    end: int = 0
    packets: int = 0
    flags: int = 0
    data: bytearray = field(default_factory=bytearray)


@dataclass
class Frame:
    """An owed frame."""

    n: int
    buffer: bool
    open: bool = True
    boards: dict[int, Board] = field(default_factory=dict)
    complete: int = 0


class ClopModel:
    """Takes packets in the order in which they end; one burst whose frame 0 has number `base`."""

    def __init__(self, buffers=2048, segment=8192, expected=0xF, base=0, burst=0):
        self.buffers, self.segment, self.expected = buffers, segment, expected
        self.base, self.burst = base, burst
        self.frames: dict[int, Frame] = {}
        self.next = 0
        self.returned: set[int] = set()  # numbers whose buffer is back
        self.seen: dict[int, set[int]] = {}
        self.newest: dict[int, int] = {}
        self.newest_frame: dict[int, int] = {}
        self.counts: Counter[str] = Counter()
        self.closed: list[int] = []  # frames, in the order of their events
        self.owed: list[tuple[int, bool]] = []

    def packet(self, data: bytes, **rules) -> str:
        """Take a UDP payload and return what became of it."""
        name = mgp.refusal(data, **rules) or self._sound(data, mgp.header(data))
        self.counts[name] += 1
        return name

    def _sound(self, data: bytes, h: dict[str, int]) -> str:
        if h["flags"] & (mgp.SOB | mgp.EOB) or h["burst"] != self.burst:
            return "firmware"
        board, number, sequence = h["board"], h["frame"], h["sequence"]
        known, frame = number < self.next, self.frames.get(number)
        replayed, jump = self._look(board, sequence)
        if known and frame.buffer:
            part = frame.boards.get(board, Board())
            if not frame.open:
                self._accept(board, sequence)
                return "late"
            last = part.last
            if h["index"] in part.indices or (
                last is not None and (h["index"] > last or (h["flags"] & mgp.LAST and h["index"] != last))
            ):
                self._accept(board, sequence)
                return "duplicate"
        if replayed:
            return "replayed"
        if jump or number - self.newest_frame.get(board, max(0, self.next - 1)) > FRAME_WINDOW:
            return "firmware"
        self._accept(board, sequence)
        self.newest_frame[board] = max(self.newest_frame.get(board, 0), number)
        while self.next <= number:
            n = self.base + self.next
            before = n - self.buffers
            free = before < self.base or before in self.returned or not self._had_buffer(before)
            self.frames[self.next] = Frame(n, free)
            self.owed.append((n, not free))
            self.next += 1
        frame = self.frames[number]
        if not frame.buffer:
            return "overrun"
        part = frame.boards.setdefault(board, Board())
        size = -(-len(data[: h["length"]]) // 16) * 16
        if part.end + size > self.segment:
            if not part.packets:
                del frame.boards[board]
            return "overflow"
        part.data += data[: h["length"]] + bytes(size - h["length"])
        part.end += size
        part.packets += 1
        part.flags |= h["flags"]
        part.indices.add(h["index"])
        if h["flags"] & mgp.LAST:
            part.last = h["index"]
        if part.last is not None and all(i in part.indices for i in range(part.last + 1)):
            frame.complete |= 1 << board
        if frame.complete == self.expected:
            self.close(number)
        return "used"

    def close(self, number: int) -> None:
        """Close a frame: complete, or timed out."""
        self.frames[number].open = False
        self.closed.append(number)

    def header(self, number: int, timed_out: bool = False) -> bytes:
        """Return the 64 B header of a closed frame."""
        frame = self.frames[number]
        missing = self.expected & ~frame.complete
        truncated = any(board.flags & mgp.TRUNCATED for board in frame.boards.values())
        flags = (not missing) | timed_out << 1 | truncated << 2 | missing << 8
        out = struct.pack("<IBBH", number, frame.complete, self.expected, flags)
        for board in range(8):
            part = frame.boards.get(board, Board())
            out += struct.pack("<HBB", part.end, part.packets, part.flags)
        return out + bytes(64 - len(out))

    def _had_buffer(self, n: int) -> bool:
        frame = self.frames.get(n - self.base)
        return frame is not None and frame.buffer

    def _look(self, board: int, sequence: int) -> tuple[bool, bool]:
        if board not in self.newest:
            return False, False
        ahead = sequence - self.newest[board]
        return ahead <= -WINDOW or sequence in self.seen[board], ahead > WINDOW

    def _accept(self, board: int, sequence: int) -> None:
        replayed, jump = self._look(board, sequence)
        if not replayed and not jump:
            self.seen.setdefault(board, set()).add(sequence)
            self.newest[board] = max(self.newest.get(board, sequence), sequence)
