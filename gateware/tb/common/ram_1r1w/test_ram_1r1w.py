# SPDX-License-Identifier: SHL-2.1
"""Bench of ram_1r1w: read latency of one cycle; a write in the same cycle is not visible."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, RisingEdge
from handshake import start_clock
from simulate import simulate


@cocotb.test()
async def a_word_is_read_as_it_was_before(dut):
    start_clock(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    width, depth = len(dut.wr_data), 1 << len(dut.wr_addr)
    memory = [0] * depth
    before = None
    for cycle in range(depth + 3000):
        some = depth if cycle % 400 < 100 else 2
        write = cycle < depth or rng.random() < 0.6
        at = cycle if cycle < depth else rng.randrange(some)
        read, data = rng.randrange(some), rng.getrandbits(width)
        dut.wr_en.value, dut.wr_addr.value, dut.wr_data.value = int(write), at, data
        dut.rd_addr.value = read
        await FallingEdge(dut.clk)
        if cycle > depth:
            assert int(dut.rd_data.value) == before, f"cycle {cycle}"
        before = memory[read]
        if write:
            memory[at] = data
        await RisingEdge(dut.clk)


@pytest.mark.parametrize("width, depth", [(1, 2), (64, 512)])
def test_ram_1r1w(width, depth):
    simulate("ram_1r1w", "test_ram_1r1w", {"WIDTH": width, "DEPTH": depth})
