# SPDX-License-Identifier: SHL-2.1
"""Firmware model of the receive path, gather mode `frame`: slow-path decisions of docs/formats.md."""

from __future__ import annotations

from dataclasses import dataclass, field

import reference_mgp as mgp

BURST, LAST, SEEN, RESTART, BOARD, WATCH, CLOSE, ANSWER = range(8)
AGAIN, LATE, REPLAYED, MARKER, JUMP, WRONG_BURST, ADMIT = 0, 1, 3, 7, 8, 9, 10
IS_MARKER, IS_OTHER, IS_JUMP, IS_FAR, IS_WATCHED, IS_REPLAYED = (1 << bit for bit in range(6))
WINDOW, FRAME_WINDOW = 4096, 1024


def command(op, old=0, flag=0, board=0, channel=0, answer=0, frame=0, sequence=0) -> int:
    """Return a packed command_t."""
    head = op << 11 | old << 10 | flag << 9 | board << 7 | channel << 4 | answer
    return head << 56 | frame << 32 | sequence


@dataclass
class Rare:
    """Unpacked slowpath_t."""

    header: dict[str, int]
    channel: int
    reason: int
    old: int
    ordinary: int
    active: int
    old_active: int

    @classmethod
    def unpack(cls, value: int) -> Rare:
        low = value & 0x7FFF
        return cls(
            header=mgp.header((value >> 47).to_bytes(16, "little")),
            channel=low >> 12,
            reason=low >> 4 & 255,
            old=low >> 3 & 1,
            ordinary=low >> 2 & 1,
            active=low >> 1 & 1,
            old_active=low & 1,
        )


@dataclass
class Board:
    """Firmware state of a board in a burst."""

    jump: tuple[int, int] | None = None
    sob_pending: bool = False
    sob: bool = False
    eob: int | None = None


@dataclass
class Burst:
    """Firmware state of a burst."""

    number: int
    ending: bool = False
    over: bool = False
    board: list[Board] = field(default_factory=lambda: [Board() for _ in range(4)])


class Firmware:
    """Answers each request with commands; the last command is always the reply to the packet."""

    def __init__(self, expected=0xF, replay=False):
        self.expected, self.replay = expected, replay
        self.current: Burst | None = None
        self.old: Burst | None = None
        self.candidates: dict[int, int] = {}

    def decide(self, rare: Rare) -> list[int]:
        """Return the commands for a request."""
        self.out: list[int] = []
        h = rare.header
        self.b = 0 if h["board"] == 0xFF else h["board"]
        answer = self._other(rare, h) if rare.reason & IS_OTHER else self._known(rare, h)
        self._say(ANSWER, channel=rare.channel, answer=answer)
        return self.out

    def _say(self, op, **fields) -> None:
        self.out.append(command(op, **fields))

    def _other(self, rare: Rare, h: dict[str, int]) -> int:
        sob, extended = bool(h["flags"] & mgp.SOB), h["burst"]
        if self.current:
            ahead = h["burst"] - self.current.number & 255
            extended = self.current.number + ahead
            if ahead > 127:
                return LATE
            if rare.old_active and not self.replay:
                return WRONG_BURST
            if h["burst"] not in self.candidates:
                self.candidates[h["burst"]] = sob << self.b
                return MARKER if sob else JUMP
            if rare.old_active:
                self._say(CLOSE, old=1)
            self.current.over = self.current.ending
            if not self.current.ending:
                self._fix_last()
        kept = self.candidates.get(h["burst"], 0)
        self._say(BURST, frame=extended, flag=bool(kept))
        self.old, self.current = self.current, Burst(extended)
        for b in range(4):
            if kept >> b & 1:
                self.current.board[b].sob = True
                self._say(SEEN, board=b)
                self._say(BOARD, board=b)
        self.candidates.clear()
        self._close_old_if_done()
        return AGAIN

    def _known(self, rare: Rare, h: dict[str, int]) -> int:
        burst = self.old if rare.old else self.current
        board, sequence = burst.board[self.b], h["sequence"]
        sob, marker = bool(h["flags"] & mgp.SOB), bool(h["flags"] & (mgp.SOB | mgp.EOB))
        fresh = not rare.reason & (IS_JUMP | IS_REPLAYED)
        where = {"old": rare.old, "board": self.b}
        if rare.ordinary:
            board.jump, board.sob_pending = None, False
        if not sob and board.sob_pending and sequence == 1:
            board.sob_pending, fresh = False, True
            rare.reason &= ~(IS_JUMP | IS_REPLAYED)
            self._say(WATCH, flag=0, **where)
            self._say(RESTART, **where)
            self._say(SEEN, **where)
        if not marker and rare.reason & IS_WATCHED:
            return AGAIN
        if not rare.active and not (rare.old and marker and not burst.over):
            if fresh:
                self._say(SEEN, sequence=0 if sob else sequence, **where)
            return LATE
        if sob:
            board.sob = True
            if fresh:
                self._say(SEEN, **where)
            else:
                board.sob_pending = True
                self._say(WATCH, flag=1, **where)
            self._say(BOARD, **where)
            if not rare.old:
                self._close_old_if_done()
            return MARKER
        if rare.reason & IS_REPLAYED:
            return REPLAYED
        if rare.reason & (IS_JUMP | IS_FAR):
            before = board.jump
            if (
                not before
                or abs(h["frame"] - before[0]) > FRAME_WINDOW
                or not 0 < abs(sequence - before[1]) <= WINDOW
            ):
                board.jump = (h["frame"], sequence)
                return JUMP
            for one in sorted((before[1], sequence)):
                self._say(SEEN, sequence=one, **where)
        elif marker:
            self._say(SEEN, sequence=sequence, **where)
        board.jump = None
        if board.sob_pending:
            board.sob_pending = False
            self._say(WATCH, flag=0, **where)
        if not marker:
            return ADMIT
        board.eob = h["frame"]
        if rare.old:
            self._close_old_if_done()
        elif not burst.ending and self._done(burst):
            self._fix_last()
            if self.replay:
                self._say(CLOSE)
        return MARKER

    def _done(self, burst: Burst) -> bool:
        newer = self.current.board if burst is self.old else [Board()] * 4
        return all(burst.board[b].eob is not None or newer[b].sob for b in range(4) if self.expected >> b & 1)

    def _close_old_if_done(self) -> None:
        if self.old and self._done(self.old):
            self.old.over = True
            self._say(CLOSE, old=1)

    def _fix_last(self) -> None:
        said = sorted(board.eob for board in self.current.board if board.eob is not None)
        self.current.ending = True
        if not said:
            self._say(LAST)
            return
        agreed = [frame for frame in said if said.count(frame) > 1]
        last = said[0] if len(said) == 1 else max(agreed) if agreed else said[-2]
        self._say(LAST, flag=1, frame=last)
