# SPDX-License-Identifier: Apache-2.0
"""Reference trigger, receiver: state of boards, frames and bursts by docs/formats.md. Slow, to be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from reference_packets import FRAMES_JUMP, LAST, SEQUENCE_JUMP, SEQUENCE_WINDOW, Packet


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
