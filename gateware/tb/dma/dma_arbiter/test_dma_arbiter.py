# SPDX-License-Identifier: SHL-2.1
"""Bench of dma_arbiter: whole requests, in order for each master; responses return to their master."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from dma_masters import Masters
from dma_model import Command, Memory, MemorySlave
from handshake import reset, start_clock
from simulate import simulate


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
async def no_master_starves(dut):
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
