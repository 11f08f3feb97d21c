# SPDX-License-Identifier: SHL-2.1
"""Bench of torus_arbiter: one grant per cycle, turns of TURN packets."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

TURN = 8


@cocotb.test()
async def grants_one_request_in_turn(dut):
    start_clock(dut)
    dut.request.value = dut.last.value = dut.enable.value = 0
    await reset(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    width = len(dut.request)
    first, current, packets = 0, -1, 0  # request of highest priority; complete packets of this turn
    for _ in range(2000):
        request = rng.getrandbits(width) & rng.getrandbits(width)
        last = rng.getrandbits(width)
        enable = rng.random() < 0.8
        dut.request.value, dut.last.value, dut.enable.value = request, last, int(enable)
        await FallingEdge(dut.clk)
        order = [(first + i) % width for i in range(width)]
        want = next((i for i in order if request >> i & 1), None)
        assert int(dut.grant.value) == (0 if want is None else 1 << want)
        if want is not None and enable:
            packets = packets if want == current else 0
            current = want
            ended = last >> want & 1
            over = ended and packets == TURN - 1
            first = want + over
            packets = 0 if over else packets + ended
        await RisingEdge(dut.clk)


def test_torus_arbiter():
    simulate("torus_arbiter", "test_torus_arbiter", {"REQUESTS": 14, "TURN": TURN})
