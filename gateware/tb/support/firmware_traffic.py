# SPDX-License-Identifier: SHL-2.1
"""Random traffic generator for firmware tests: several boards, with every disorder the firmware accepts."""

from __future__ import annotations

import random

import reference_mgp as mgp
from mgp import marker, packet

LAST_NUMBER = 0xFFFF_FFFF  # numbers never wrap


class Traffic:
    """Boards that send frames, lose packets, jump and restart, in overlapping or incomplete bursts."""

    def __init__(self, rng: random.Random, boards: list[int], odd_sob: bool = True):
        self.rng, self.boards = rng, boards
        self.odd_sob = odd_sob  # an SOB may have a number other than 0, which must be ignored
        self.number = rng.randrange(256)
        self.frame, self.sequence = 0, dict.fromkeys(boards, 0)
        self.past: list[bytes] = []
        self.held: list[bytes] = []
        self.next_burst()

    def next_burst(self) -> None:
        """Start a burst, with or without markers of all boards."""
        rng = self.rng
        self.number = (self.number + rng.choice([1, 1, 1, 1, 2, 127, 128, 255])) % 256
        self.frame = rng.choice([0, 0, 0, 1, 70_000])
        self.sequence = dict.fromkeys(self.boards, rng.choice([1, 1, 1, 4000, 100_000]))
        self.queue: list[bytes] = []
        for board in self.boards:
            if rng.random() < 0.7:
                self.queue.append(marker(board, mgp.SOB, burst=self.number))

    def data(self, board: int, frame: int, sequence: int, burst: int | None = None) -> bytes:
        """Return a packet, in most cases a whole frame of the board."""
        rng = self.rng
        index = rng.choice([0, 0, 0, 0, 0, 0, 1, 2])
        flags = rng.choice([0, 0, 0, 0, mgp.TRUNCATED, mgp.FIXED])
        last = rng.random() < 0.95
        number = self.number if burst is None else burst
        hits = rng.choice([3, 3, 32])
        sequence = min(sequence, LAST_NUMBER)
        return packet(rng, board, min(frame, 751_499), sequence, index, last, None, flags, number, hits)

    def step(self) -> list[bytes]:
        """Return the next packets."""
        rng = self.rng
        if self.queue:
            return [self.queue.pop(0)]
        out = []
        what = rng.random()
        board = rng.choice(self.boards)
        if what < 0.72:  # a frame
            for b in self.boards:
                if rng.random() < 0.9:
                    out.append(self.data(b, self.frame, self.sequence[b]))
                    self.sequence[b] += 1
                elif rng.random() < 0.5:
                    self.sequence[b] += rng.choice([1, 1, 3])
            rng.shuffle(out)
            self.frame += rng.choice([1, 1, 1, 1, 2, 5])
        elif what < 0.76:  # a jump of the board: a single packet, or permanent
            by = rng.choice([1023, 1024, 1025, 2000, 100_000])
            now = self.sequence[board]  # a distance of more than half the range, or close to the last number
            far = 0x9000_0000 if now % 2 else max(50_000, LAST_NUMBER - 100 - now)
            on = rng.choice([0, 0, 4095, 4096, 4097, 8192, far])
            frame = self.frame + by
            sequence = self.sequence[board] + on
            out.append(self.data(board, frame, sequence))
            for _ in range(rng.choice([0, 0, 1, 1, 2])):
                frame += rng.choice([0, 1, 1, -1, 1024, -1024, 1025])
                sequence += rng.choice([0, 1, 1, -1, 4096, -4096, 4097])
                out.append(self.data(board, max(0, frame), max(0, sequence)))
            if rng.random() < 0.3:
                self.frame, self.sequence[board] = max(0, frame), max(0, sequence) + 1
        elif what < 0.82:  # board restart
            number = rng.choice([0, 0, 0, 7]) if self.odd_sob else 0
            out.append(marker(board, mgp.SOB, burst=self.number, sequence=number))
            if rng.random() < 0.8:
                self.sequence[board] = 1
        elif what < 0.86 and self.past:  # old or duplicate packet
            out.append(rng.choice(self.past[-rng.choice([5, 100, 1000]) :]))
        elif what < 0.92:  # EOBs of some, all or no boards
            last = max(0, self.frame - rng.choice([1, 1, 1, 0, 3, -3, -2000]))
            for b in self.boards:
                if rng.random() < 0.8:
                    said = last if rng.random() < 0.9 else max(0, last + rng.randrange(-3, 4))
                    number = min(self.sequence[b], LAST_NUMBER)
                    out.append(marker(b, mgp.EOB, min(said, 751_499), number, self.number))
                    self.sequence[b] += 1
            rng.shuffle(out)
            if rng.random() < 0.9:
                self.next_burst()
        elif what < 0.925:
            self.next_burst()
        elif what < 0.955:  # stray packet of any burst
            burst = (self.number + rng.choice([1, 2, 3, 127, 128, 254, 255])) % 256
            if rng.random() < 0.3:
                what, number = rng.choice([mgp.SOB, mgp.EOB]), rng.randrange(3)
                out.append(marker(board, what, 0, number if what == mgp.EOB or self.odd_sob else 0, burst))
            else:
                out.append(self.data(board, rng.randrange(20), rng.randrange(40), burst))
        else:
            self.sequence[board] = max(0, self.sequence[board] + rng.choice([-4096, -5, 4096, 5000]))
        self.past = (self.past + out)[-2000:]
        if out and rng.random() < 0.1:  # out of order
            self.held.append(out.pop(rng.randrange(len(out))))
        if self.held and rng.random() < 0.1:
            out.append(self.held.pop(rng.randrange(len(self.held))))
        return out
