# SPDX-License-Identifier: SHL-2.1
"""dma_arbiter: requests arrive whole, each master's in order, and answers find the way home."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from dma_model import Command, Memory, MemorySlave
from handshake import reset, start_clock
from simulate import simulate


class Masters:
    """All masters at once: packed ports cannot be driven one field at a time by independent drivers."""

    def __init__(self, dut, rate: float, rng: random.Random):
        self.dut, self.rate, self.rng = dut, rate, rng
        self.ports = len(dut.m_wr_valid)
        self.width = len(dut.m_wr_data) // self.ports // 8
        self.writes = [[] for _ in range(self.ports)]  # (Command, bytes)
        self.asks = [[] for _ in range(self.ports)]
        self.done = [[] for _ in range(self.ports)]
        self.answers = [[] for _ in range(self.ports)]  # (tag, bytes, error)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, ports, width = self.dut, self.ports, self.width
        showing = [None] * ports
        word_at = [0] * ports
        asking = [None] * ports
        parts = [bytearray() for _ in range(ports)]
        while True:
            taking = 0
            for p in range(ports):
                if showing[p] is None and self.writes[p] and self.rng.random() < self.rate:
                    command, data = self.writes[p][0]
                    at = word_at[p] * width
                    last = at + width >= len(data)
                    showing[p] = (command.pack(), int.from_bytes(data[at : at + width], "little"), int(last))
                if asking[p] is None and self.asks[p] and self.rng.random() < self.rate:
                    asking[p] = self.asks[p][0].pack()
                taking |= int(self.rng.random() < self.rate) << p
            dut.m_wr_valid.value = sum(int(s is not None) << p for p, s in enumerate(showing))
            dut.m_wr_cmd.value = sum((s[0] if s else 0) << (88 * p) for p, s in enumerate(showing))
            dut.m_wr_data.value = sum((s[1] if s else 0) << (8 * width * p) for p, s in enumerate(showing))
            dut.m_wr_last.value = sum((s[2] if s else 0) << p for p, s in enumerate(showing))
            dut.m_rd_valid.value = sum(int(a is not None) << p for p, a in enumerate(asking))
            dut.m_rd_cmd.value = sum((a or 0) << (88 * p) for p, a in enumerate(asking))
            dut.m_rd_data_ready.value = taking
            await FallingEdge(dut.clk)
            await ReadOnly()
            taken = int(dut.m_wr_valid.value) & int(dut.m_wr_ready.value)
            asked = int(dut.m_rd_valid.value) & int(dut.m_rd_ready.value)
            done, answer = int(dut.m_wr_done_valid.value), int(dut.m_rd_data_valid.value) & taking
            for p in range(ports):
                field = lambda signal, bits, p=p: (int(signal.value) >> (bits * p)) & ((1 << bits) - 1)  # noqa: E731
                if taken >> p & 1:
                    word_at[p] += 1
                    if showing[p][2]:
                        self.writes[p].pop(0)
                        word_at[p] = 0
                    showing[p] = None
                if asked >> p & 1:
                    self.asks[p].pop(0)
                    asking[p] = None
                if done >> p & 1:
                    self.done[p].append(field(dut.m_wr_done_tag, 8))
                if answer >> p & 1:
                    parts[p] += field(dut.m_rd_data, 8 * width).to_bytes(width, "little")
                    if field(dut.m_rd_data_last, 1):
                        self.answers[p].append(
                            (field(dut.m_rd_data_tag, 8), bytes(parts[p]), field(dut.m_rd_data_error, 1))
                        )
                        parts[p].clear()
            await RisingEdge(dut.clk)


@cocotb.test()
async def everything_arrives(dut):
    start_clock(dut)
    await reset(dut)
    for rate, slave_rate in ((1.0, 1.0), (0.3, 1.0), (1.0, 0.3)):
        rng = random.Random(f"{rate} {slave_rate}")
        memory = Memory()
        slave = MemorySlave(dut, memory, rate=slave_rate, latency=(1, 12), rng=rng)
        slave.error = lambda command: command.addr % 64 == 4
        masters = Masters(dut, rate, rng)
        sent, asked = [], []
        for p in range(masters.ports):
            mine = []
            for i in range(30):
                length = rng.choice([1, 4, 32, 33, rng.randint(1, 300)])
                mine.append((Command(p << 20 | i << 10, length, i % 16), rng.randbytes(length)))
            sent.append(list(mine))
            masters.writes[p] += mine
        for _ in range(20_000):
            await RisingEdge(dut.clk)
            if all(len(d) == 30 for d in masters.done):
                break
        for p in range(masters.ports):
            assert masters.done[p] == [command.tag for command, _ in sent[p]]
            arrived = [(addr, data) for addr, data in slave.writes if addr >> 20 == p]
            assert arrived == [(command.addr, data) for command, data in sent[p]]
            mine = [Command(c.addr + 4 * (i % 2), len(d), c.tag) for i, (c, d) in enumerate(sent[p])]
            asked.append(list(mine))
            masters.asks[p] += mine
        for _ in range(20_000):
            await RisingEdge(dut.clk)
            if all(len(a) == 30 for a in masters.answers):
                break
        for p in range(masters.ports):
            assert [tag for tag, _, _ in masters.answers[p]] == [c.tag for c in asked[p]]
            for command, (_, data, error) in zip(asked[p], masters.answers[p], strict=True):
                assert data[: command.length] == memory.read(command.addr, command.length)
                assert error == (command.addr % 64 == 4)
        masters.task.cancel()
        slave.stop()
        await RisingEdge(dut.clk)


@cocotb.test()
async def nobody_starves(dut):
    start_clock(dut)
    await reset(dut)
    rng = random.Random(3)
    MemorySlave(dut, rng=rng)
    masters = Masters(dut, 1.0, rng)
    for p in range(masters.ports):
        masters.writes[p] += [(Command(p << 16, 32, 0), bytes(32))] * 100
    for _ in range(40 * masters.ports):
        await RisingEdge(dut.clk)
    counts = [len(d) for d in masters.done]
    assert min(counts) > 0 and max(counts) - min(counts) <= 2, counts


@pytest.mark.parametrize(("ports", "width"), [(2, 128), (3, 256)])
def test_dma_arbiter(ports, width):
    simulate("dma_arbiter", "test_dma_arbiter", {"PORTS": ports, "DATA_W": width})
