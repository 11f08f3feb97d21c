# SPDX-License-Identifier: SHL-2.1
"""Bench of fifo: order, capacity and no lost words under every pattern of pauses."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from handshake import Sink, Source, reset, start_clock
from simulate import simulate


@cocotb.test()
async def keeps_order_under_pauses(dut):
    start_clock(dut)
    await reset(dut)
    for push, pull in ((1.0, 1.0), (1.0, 0.2), (0.2, 1.0), (0.5, 0.5)):
        rng = random.Random(f"{push} {pull}")
        words = [rng.getrandbits(len(dut.in_data)) for _ in range(500)]
        source = Source(dut, "in", ["data"], rate=push, rng=rng)
        sink = Sink(dut, "out", ["data"], rate=pull, rng=rng)
        await source.send_all([{"data": word} for word in words])
        got = await sink.take(len(words))
        assert [word["data"] for word in got] == words
        source.stop()
        sink.stop()


@cocotb.test()
async def fills_and_says_so(dut):
    start_clock(dut)
    await reset(dut)
    depth = 2 ** (len(dut.level) - 1)
    dut.out_ready.value = 0
    dut.in_valid.value = 1
    dut.in_data.value = 0
    taken = 0
    for _ in range(depth + 8):
        await RisingEdge(dut.clk)
        taken += int(dut.in_ready.value)
        dut.in_data.value = taken + 0
    assert taken == depth + (2 if depth > 32 else 1)  # the output registers hold additional words
    assert int(dut.level.value) == depth
    dut.in_valid.value = 0


@pytest.mark.parametrize(("depth", "choose"), [(2, 0), (16, 0), (16, 1), (64, 0), (64, 1)])
def test_fifo(depth, choose):
    simulate("fifo", "test_fifo", {"WIDTH": 16, "DEPTH": depth, "CHOOSE": choose})
