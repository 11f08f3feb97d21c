# SPDX-License-Identifier: SHL-2.1
"""Bench of gray_crossing: the copy never runs ahead, never goes back, and is at most a few cycles old."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from simulate import simulate

WIDTH = 9


def clocks():
    """Return pairs of periods in ps: slower, faster, and nearly equal sides."""
    return ((6400, 11468), (11468, 6400), (5000, 5002), (3000, 40000))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(("periods", clocks()))
async def the_copy_follows(dut, periods):
    rng = random.Random(cocotb.RANDOM_SEED)
    a_ps, b_ps = periods
    dut.a_count.value = count = 0
    cocotb.start_soon(Clock(dut.a_clk, a_ps, "ps").start())
    await Timer(rng.randrange(1, a_ps), "ps")
    cocotb.start_soon(Clock(dut.b_clk, b_ps, "ps").start())
    await Timer(8 * max(periods), "ps")
    total = 0

    async def run():
        nonlocal count, total
        while True:
            await RisingEdge(dut.a_clk)
            count += rng.random() < 0.8
            dut.a_count.value = count % (1 << WIDTH)

    cocotb.start_soon(run())
    seen = 0
    oldest = 2 + 5 * b_ps // a_ps  # counts during the copy's latency
    while seen < 3 << WIDTH:
        await RisingEdge(dut.b_clk)
        await ReadOnly()
        step = (int(dut.b_count.value) - seen) % (1 << WIDTH)
        seen += step
        assert count - oldest <= seen <= count


def test_gray_crossing():
    simulate("gray_crossing", "test_gray_crossing", {"WIDTH": WIDTH})
