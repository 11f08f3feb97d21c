# SPDX-License-Identifier: SHL-2.1
"""Bench of clock_crossing: every word once and in order; latency with two clocks and with one."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from simulate import simulate
from two_clocks import begin, read, write


def of(dut, clocks):
    """Return the periods of both sides; with a single clock, its period twice."""
    return clocks if int(dut.CLOCKS.value) else (clocks[0], clocks[0])


@cocotb.test()
@cocotb.parametrize(
    clocks=((6400, 8000), (8000, 6400), (4000, 19_998)), rates=((1.0, 1.0), (0.3, 1.0), (1.0, 0.3))
)
async def every_word_once_and_in_order(dut, clocks, rates):
    rng = random.Random(cocotb.RANDOM_SEED)
    periods = of(dut, clocks)
    await begin(dut, *periods)
    words = [rng.getrandbits(16) for _ in range(100)]
    reading = cocotb.start_soon(read(dut, len(words), rates[1], rng))
    began = get_sim_time("ps")
    await write(dut, words, rates[0], rng)
    assert await reading == words
    if rates == (1.0, 1.0):
        # One word per cycle of the slower clock, plus the latency of the last one.
        assert get_sim_time("ps") - began <= 112 * max(periods)


@cocotb.test()
@cocotb.parametrize(clocks=((6400, 8000), (8000, 6400), (4000, 19_998)))
async def takes_the_documented_cycles(dut, clocks):
    """Latency: one source cycle and 3 to 4 destination cycles; zero with a single clock."""
    await begin(dut, *of(dut, clocks))
    if not int(dut.CLOCKS.value):
        for valid, ready, word in ((1, 0, 0x1234), (0, 1, 0xFFFF), (1, 1, 0xABCD)):
            dut.in_valid.value, dut.in_data.value, dut.out_ready.value = valid, word, ready
            await FallingEdge(dut.wr_clk)
            await ReadOnly()
            assert (int(dut.out_valid.value), int(dut.in_ready.value)) == (valid, ready)
            assert int(dut.out_data.value) == word
            await RisingEdge(dut.wr_clk)
        return
    dut.out_ready.value = 1
    for word in range(12):
        for _ in range(5 + word % 3):
            await RisingEdge(dut.wr_clk)
            await RisingEdge(dut.rd_clk)
        await RisingEdge(dut.wr_clk)
        dut.in_valid.value, dut.in_data.value = 1, word
        await RisingEdge(dut.wr_clk)
        taken = get_sim_time("ps")
        dut.in_valid.value = 0
        while True:
            await RisingEdge(dut.rd_clk)
            if int(dut.out_valid.value):
                break
        assert int(dut.out_data.value) == word
        # Measured to the edge at which the word can be accepted.
        assert 3 * clocks[1] <= get_sim_time("ps") - taken <= 4 * clocks[1]


@pytest.mark.parametrize("clocks", [0, 1])
def test_clock_crossing(clocks):
    simulate("clock_crossing", "test_clock_crossing", {"CLOCKS": clocks, "WIDTH": 16, "DEPTH": 16})
