# SPDX-License-Identifier: SHL-2.1
"""Model of the UltraScale+ block for PCI Express (AMD PG213): its requester streams."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from dma_model import Memory


class Block:
    """Requester streams by PG213: completions split at 64 B boundaries, tags in any order."""

    def __init__(self, dut, memory: Memory, rng: random.Random, rate: float = 1.0):
        self.dut, self.memory, self.rng, self.rate = dut, memory, rng, rate
        self.lanes = len(self.beat()) // 32
        self.order: list[tuple[str, int, int]] = []
        self.waiting: list[dict] = []
        self.tags: set[int] = set()  # tags used by reads
        self.held = False  # set: no completions
        self.lost: set[int] = set()  # reads of these addresses never complete
        self.late: set[int] = set()  # reads of these addresses complete only after removal from this set
        self.bad: dict[int, int] = {}  # address of a read -> error code of its completion
        self.short: set[int] = set()  # completions of these addresses end one dword early without an error
        self.credit = None  # None: unlimited; else number of read TLPs that may follow
        self.tasks = [cocotb.start_soon(run()) for run in (self._take, self._answer)]

    def beat(self) -> object:
        """Return the signals of one beat of a TLP."""
        return self.dut.rq_tdata

    async def _take(self) -> None:
        dut, words, first = self.dut, [], None
        while True:
            willing = self.rng.random() < self.rate
            dut.rq_tready.value = int(willing)
            dut.pcie_tfc_nph_av.value = 15 if self.credit is None else min(15, self.credit)
            await FallingEdge(dut.clk)
            await ReadOnly()
            valid = int(dut.rq_tvalid.value)
            assert valid or not words, "a pause inside a TLP"
            if valid and willing:
                keep, data = int(dut.rq_tkeep.value), int(dut.rq_tdata.value)
                count = keep.bit_count()
                assert keep == (1 << count) - 1
                words += [(data >> 32 * i) & 0xFFFFFFFF for i in range(count)]
                first = int(dut.rq_tuser.value) if first is None else first
                if int(dut.rq_tlast.value):
                    self.tlp(words, first & 0xF, first >> 4 & 0xF)
                    words, first = [], None
            await RisingEdge(dut.clk)

    def tlp(self, words: list[int], first_be: int, last_be: int) -> None:
        """Process a TLP: check it, store written data, queue a read's completion."""
        address, length, kind = words[0] & ~3 | words[1] << 32, words[2] & 0x7FF, words[2] >> 11 & 0xF
        enables = [first_be] + [15] * (length - 2) + [last_be] if length > 1 else [first_be]
        assert length > 1 or last_be == 0
        used = [4 * i + b for i, e in enumerate(enables) for b in range(4) if e >> b & 1]
        assert used == list(range(used[0], used[-1] + 1)), "byte enables with a hole"
        assert address % 4096 + 4 * length <= 4096
        if kind == 1:
            assert len(words) == 4 + length
            data = b"".join(word.to_bytes(4, "little") for word in words[4:])
            self.memory.write(address + used[0], data[used[0] : used[-1] + 1])
            self.order.append(("write", address, length))
            return
        assert kind == 0 and len(words) == 4
        tag = words[3] & 0xFF
        assert tag not in [w["tag"] for w in self.waiting], "tag already in use"
        if self.credit is not None:
            assert self.credit > 0, "read TLP without credit"
            self.credit -= 1
        self.order.append(("read", address, length))
        self.tags.add(tag)
        if address not in self.lost:
            self.waiting.append({"tag": tag, "at": address, "end": address + 4 * length, "start": address})

    async def _answer(self) -> None:
        dut = self.dut
        dut.rc_tvalid.value = 0
        while True:
            await RisingEdge(dut.clk)
            now = [request for request in self.waiting if request["start"] not in self.late]
            if not now or self.held or self.rng.random() > 0.3:
                continue
            request = self.rng.choice(now)
            code = self.bad.get(request["start"], 0)
            edge = request["at"] // 64 * 64 + 64 * self.rng.randint(1, 4)
            stop = request["end"] if self.rng.random() < 0.4 else min(edge, request["end"])
            data = self.memory.read(request["at"], stop - request["at"])
            ends = stop == request["end"]
            if code in (2, 9):  # bad status or timeout in the block: no data
                data, ends = b"", True
            if ends and request["start"] in self.short:
                data = data[:-4]
            words = [data[i : i + 4] for i in range(0, len(data), 4)]
            head = (
                (request["at"] & 0xFFF)
                | code << 12
                | (request["end"] - request["at"]) << 16
                | int(ends) << 30
            )
            second = len(words) | (1 << 11 if code == 2 else 0) | (1 << 14 if code == 1 else 0)
            cells = [head, second, request["tag"], *(int.from_bytes(w, "little") for w in words)]
            request["at"] = stop
            if ends:
                self.waiting.remove(request)
            for i in range(0, len(cells), self.lanes):
                while self.rng.random() > 0.8:
                    await RisingEdge(dut.clk)
                part = cells[i : i + self.lanes]
                dut.rc_tdata.value = sum(cell << 32 * k for k, cell in enumerate(part))
                if hasattr(dut, "rc_tkeep"):  # pcie_us_read alone has no tkeep
                    dut.rc_tkeep.value = (1 << len(part)) - 1
                dut.rc_tlast.value = int(i + self.lanes >= len(cells))
                dut.rc_tvalid.value = 1
                await RisingEdge(dut.clk)
                dut.rc_tvalid.value = 0
