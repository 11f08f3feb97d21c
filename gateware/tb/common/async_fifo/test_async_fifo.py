# SPDX-License-Identifier: SHL-2.1
"""Bench of async_fifo: every word once and in order, for any ratio of the two clocks."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from simulate import simulate
from two_clocks import begin, read, write


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(
    ("clocks", ((8000, 6400), (6400, 8000), (6400, 6400), (4000, 19_998), (20_000, 3998), (6400, 6402))),
    ("rates", ((1.0, 1.0), (0.3, 1.0), (1.0, 0.3))),
)
async def every_word_once_and_in_order(dut, clocks, rates):
    rng = random.Random(cocotb.RANDOM_SEED)
    await begin(dut, *clocks)
    words = [rng.getrandbits(16) for _ in range(150)]
    reading = cocotb.start_soon(read(dut, len(words), rates[1], rng))
    await write(dut, words, rates[0], rng)
    assert await reading == words
    # No further words.
    dut.out_ready.value = 1
    for _ in range(20):
        await RisingEdge(dut.rd_clk)
        assert not int(dut.out_valid.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def takes_as_many_as_it_holds(dut):
    """When full, it accepts no word, and the output word is stable."""
    await begin(dut, 6400, 8000)
    depth = int(dut.DEPTH.value)
    taken = 0
    for word in range(3 * depth):
        dut.in_valid.value, dut.in_data.value = 1, word
        await RisingEdge(dut.wr_clk)
        taken += int(dut.in_ready.value)
        if taken <= word - depth:
            break
    dut.in_valid.value = 0
    for _ in range(10):
        await RisingEdge(dut.rd_clk)
        assert int(dut.out_valid.value) and int(dut.out_data.value) == 0
    assert depth <= taken <= depth + 1
    assert len(await read(dut, taken, 1.0, random.Random(1))) == taken


@pytest.mark.parametrize("depth", [4, 16])
def test_async_fifo(depth):
    simulate("async_fifo", "test_async_fifo", {"WIDTH": 16, "DEPTH": depth})
