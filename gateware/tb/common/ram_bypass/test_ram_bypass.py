# SPDX-License-Identifier: SHL-2.1
"""Bench of ram_bypass: read latency of two cycles; writes of the read's cycle, or LATE ones, are visible."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, RisingEdge
from handshake import start_clock
from simulate import simulate

LATE = int(os.environ.get("NANET_LATE", "0"))
DEPTH = 16


@cocotb.test()
async def a_word_is_read_as_it_is_then(dut):
    """Writes and reads in close sequence, over few addresses and over all."""
    start_clock(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    width = len(dut.wr_data)
    memory = [0] * DEPTH
    reads = []  # addresses, and their expected contents at the read
    for cycle in range(4000):
        some = DEPTH if cycle < DEPTH or cycle % 400 < 100 else 2
        write = cycle < DEPTH or rng.random() < 0.6
        at = cycle if cycle < DEPTH else rng.randrange(some)
        data = rng.getrandbits(width)
        read = rng.randrange(some)
        dut.wr_en.value, dut.wr_addr.value, dut.wr_data.value = int(write), at, data
        dut.rd_addr.value = read
        await FallingEdge(dut.clk)
        if cycle >= DEPTH + 2:
            assert int(dut.rd_data.value) == reads[-2][1], f"cycle {cycle}, address {reads[-2][0]}"
        if write:
            memory[at] = data
            if LATE and reads and reads[-1][0] == at:
                reads[-1] = (at, data)
        reads.append((read, memory[read]))
        await RisingEdge(dut.clk)


@pytest.mark.parametrize("late, width", [(0, 33), (1, 33), (1, 1)])
def test_ram_bypass(late, width):
    parameters = {"LATE": f"1'b{late}", "WIDTH": width, "DEPTH": DEPTH}
    simulate("ram_bypass", "test_ram_bypass", parameters, env={"NANET_LATE": str(late)})
