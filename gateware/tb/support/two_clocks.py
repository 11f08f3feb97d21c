# SPDX-License-Identifier: SHL-2.1
"""Bench helpers for FIFOs with two clocks: wr_clk with in_*, rd_clk with out_*."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer


async def begin(dut, wr_ps, rd_ps):
    """Start both clocks at random phases and assert both resets."""
    dut.in_valid.value = dut.out_ready.value = 0
    dut.wr_rst.value = dut.rd_rst.value = 1
    for clock, period in ((dut.wr_clk, wr_ps), (dut.rd_clk, rd_ps)):
        cocotb.start_soon(Clock(clock, period, "ps").start())
    await Timer(8 * max(wr_ps, rd_ps), "ps")
    dut.wr_rst.value = dut.rd_rst.value = 0
    await Timer(4 * max(wr_ps, rd_ps), "ps")


async def write(dut, words, rate, rng):
    """Write words with random pauses."""
    for word in words:
        while rng.random() >= rate:
            await RisingEdge(dut.wr_clk)
        dut.in_valid.value, dut.in_data.value = 1, word
        await RisingEdge(dut.wr_clk)
        while not int(dut.in_ready.value):
            await RisingEdge(dut.wr_clk)
        dut.in_valid.value = 0


async def read(dut, count, rate, rng):
    """Read `count` words with random pauses and return them."""
    got = []
    while len(got) < count:
        dut.out_ready.value = ready = int(rng.random() < rate)
        await RisingEdge(dut.rd_clk)
        if ready and int(dut.out_valid.value):
            got.append(int(dut.out_data.value))
    dut.out_ready.value = 0
    return got
