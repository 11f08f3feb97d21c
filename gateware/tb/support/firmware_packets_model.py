# SPDX-License-Identifier: SHL-2.1
"""Reference model of the receive path in gather mode `packets`, with the real firmware."""

from __future__ import annotations

import reference_mgp as mgp
from firmware_model import RECEIVE_DONE, Burst, Card, Event, Slot
from firmware_port_model import FW


class PacketCard(Card):
    """Gather mode `packets`: payloads fill the buffers in arrival order."""

    def __init__(self, packets: int, **options):
        self.packets = packets
        self.filled: list[bytes] | None = None  # payloads of the open buffer
        self.n = self.first_frame = self.overrun_count = 0
        super().__init__(**options)

    def command(self, word: int) -> None:
        """Execute a firmware command."""
        op, flag = word & 15, word >> 5 & 1
        if op == FW["CLOSE"] and flag:
            self.old.over = True
        elif op == FW["CLOSE"]:
            self.close_buffer()
        else:
            super().command(word)

    def begin(self, number: int, sob: bool) -> None:
        self.missing_before += sum(board.missing() for board in self.old.board)
        self.old, self.current = self.current, Burst(known=True, number=number)
        self.counts["bursts"] += 1

    def judge(self, data: bytes, h: dict[str, int], admitted: bool) -> str | None:
        number, b = h["burst"], 0 if h["board"] == 0xFF else h["board"]
        for burst in (self.current, self.old):
            if burst.known and burst.number & 0xFF == number:
                break
        else:
            self.ask(None, b, OTHER=True)
            return None
        board = burst.board[b]
        look = board.look(0 if h["flags"] & mgp.SOB else h["sequence"])
        why = {"JUMP": look == "jump", "REPLAYED": look == "replayed"}
        if h["flags"] & (mgp.SOB | mgp.EOB):
            self.ask(burst, b, MARKER=True, **why)
            return None
        if board.watch and h["sequence"] == 1 and not admitted:
            self.ask(burst, b, WATCHED=True, **why)
            return None
        if burst.over:
            if look == "is_new":
                board.accept(h["sequence"])
            return "late"
        if not admitted:
            if look == "replayed":
                return "replayed_sequence"
            if look == "jump":
                self.ask(burst, b, **why)
                return None
            board.accept(h["sequence"])
            board.ordinary = True
        return self.put(h, data)

    def ask(self, burst: Burst | None, b: int, **why: bool) -> None:
        super().ask(burst, b, **why)
        self.rare["OLD_ACTIVE"] = False

    def put(self, h: dict[str, int], data: bytes) -> str:
        if self.filled is None:
            slot = self.slots.get(self.n % self.buffers)
            if slot and not slot.back:
                return "overrun"
            self.filled, self.first_frame = [], h["frame"]
            self.slots[self.n % self.buffers] = Slot(self.n, h["frame"], self.stamp)
            self.counts["frames_in"] += 1
            self.n += 1
        if h["length"] > self.segment:
            return "segment_overflow"
        self.filled.append(data[: h["length"]])
        if len(self.filled) == self.packets:
            self.close_buffer()
        return "packets_used"

    def close_buffer(self) -> None:
        if self.filled is None:
            return
        n, full = self.n - 1, len(self.filled) == self.packets
        size = sum(map(len, self.filled))
        contents = b"".join(payload.ljust(self.segment, b"\0") for payload in self.filled)
        event = (int(full), n % self.buffers, size, self.first_frame, n & 0xFFFFFFFF)
        self.events.append(Event(RECEIVE_DONE, *event, contents))
        self.filled = None
