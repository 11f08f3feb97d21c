# SPDX-License-Identifier: SHL-2.1
"""INFN partner of a compatible link: transmitter and receiver by the rules of the published firmware.

Written from its description, separately from reference_torus and from the RTL. A word is an integer of
128 bits. Receive FIFOs hold 128 header and 512 data words per VC.
"""

from __future__ import annotations

import random
from collections import deque

MAGIC = 0xFFFFAAAA5555AAAA_FFFFAAAA5555AAAA
START = 0xFFFFBBBB6666BBBB_FFFFBBBB6666BBBB

# Masks of the check bits p[7], p[6] ... p[1] over data bits 119:0, as printed in the firmware's package.
MASKS = (
    0xFFFFFFFFFFFFFFFE00000000000000,
    0xFFFFFFFF00000001FFFFFFFC000000,
    0xFFFF0000FFFF0001FFFE0003FFF800,
    0xFF00FF00FF00FF01FE01FE03FC07F0,
    0xF0F0F0F0F0F0F0F1E1E1E1E3C3C78E,
    0xCCCCCCCCCCCCCCCD9999999B33366D,
    0xAAAAAAAAAAAAAAAB55555556AAAD5B,
)
DATA = (1 << 120) - 1


def edac(word: int) -> int:
    """The word's data with its check byte in bits 127:120."""
    data = word & DATA
    byte = 0
    for mask in MASKS:
        byte = byte << 1 | (data & mask).bit_count() & 1
    byte <<= 1
    return data | (byte | (data.bit_count() + byte.bit_count()) & 1) << 120


def errors(word: int) -> int:
    """0, 1 or 2 errors; double errors with a syndrome of one bit pass as 0, as in the firmware."""
    syndrome = (edac(word) ^ word) >> 121
    if word.bit_count() & 1:
        return 1
    return 2 if syndrome & syndrome - 1 else 0


class Partner:
    """Far end of the link. `next_word` and `take` are called once per word."""

    def __init__(self, seed: int, edac_on: bool = True, waiting: int = 0x40, thresholds=(96, 384)):
        self.rng = random.Random(seed)
        self.edac_on, self.waiting, self.thresholds = edac_on, waiting, thresholds
        self.outgoing: deque[list[int]] = deque()  # packets
        self.sending: deque[int] = deque()
        self.starve = 0.0  # probability of MAGIC, CREDIT inside a packet
        self.used = [[0, 0], [0, 0]]  # header, data words of the own FIFOs, per VC
        self.space = [[0, 0], [0, 0]]
        self.state, self.back = "idle", "idle"
        self.left = self.vc = 0
        self.packet: list[int] = []
        self.received: list[list[int]] = []
        self.credits = self.bad = 0
        self.hold = False  # keeps received packets in the FIFOs
        self.held: deque[list[int]] = deque()
        self.order: list[str] = []

    # ------------------------------------------------------------------------------------------ transmitter

    def credit(self) -> int:
        """Report of the own FIFOs."""
        word = 0
        for vc, (headers, data) in enumerate(self.used):
            word |= (data + self.waiting << 8 | headers + self.waiting) << 18 * vc
        return edac(word) if self.edac_on else word

    def next_word(self) -> int:
        """Word sent in this cycle."""
        if not self.sending:
            packet = self.outgoing[0] if self.outgoing else None
            if packet:
                headers, data = self.space[packet[0] & 1]
                if data >= len(packet) - 2 and headers >= 2:
                    self.outgoing.popleft()
                    head = edac(packet[0]) if self.edac_on else packet[0] & DATA
                    words = [head, *packet[1:]]
                    self.sending.extend([MAGIC, START])
                    for word in words:
                        while self.rng.random() < self.starve:
                            self.sending.extend([MAGIC, None])
                        self.sending.append(word)
                    self.sending.append(None)
        if self.sending:
            word = self.sending.popleft()
            return self.credit() if word is None else word
        return self.credit()

    # --------------------------------------------------------------------------------------------- receiver

    def take(self, word: int) -> None:
        """Word received in this cycle; framing by the uncorrected word."""
        match self.state:
            case "credit":
                if word != MAGIC:
                    self._report(word)
                    self.state = self.back
            case "idle":
                if word == MAGIC:
                    self.state = "start"
                else:
                    self._report(word)
            case "start":
                if word == START:
                    self.state = "header"
                elif word != MAGIC:
                    self._report(word)
                    self.state = "idle"
            case _ if word == MAGIC:
                self.back, self.state = self.state, "credit"
            case "header":
                if self.edac_on and errors(word):
                    self.bad += 1
                self.packet = [word]
                self.vc = word & 1
                self.left = ((word >> 48 & 0x3FFF) + 15) // 16
                self.used[self.vc][0] += 1
                self.state = "data" if self.left else "footer"
            case "data":
                self.packet.append(word)
                self.used[self.vc][1] += 1
                self.left -= 1
                self.state = "data" if self.left else "footer"
            case "footer":
                self.packet.append(word)
                self.used[self.vc][0] += 1
                self.state = "idle"
                self.held.append(self.packet)
        for headers, data in self.used:
            assert headers <= 128, "header FIFO overflow"
            assert data <= 512, "data FIFO overflow"
        if not self.hold:
            self.drain()

    def drain(self) -> None:
        """Empty the FIFOs."""
        while self.held:
            packet = self.held.popleft()
            vc = packet[0] & 1
            self.used[vc][0] -= 2
            self.used[vc][1] -= len(packet) - 2
            self.received.append(packet)

    def _report(self, word: int) -> None:
        if self.edac_on and errors(word):
            self.bad += 1
            return
        self.credits += 1
        for vc in range(2):
            headers, data = word >> 18 * vc & 0xFF, word >> 18 * vc + 8 & 0x3FF
            self.space[vc] = [max(self.thresholds[0] - headers, 0), max(self.thresholds[1] - data, 0)]
