# SPDX-License-Identifier: SHL-2.1
"""Bench of torus_vc_fifo: order and count under pauses; latency of a word into an empty buffer."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

EDGES = 0b11 << 128


@cocotb.test()
async def keeps_order_and_counts_words(dut):
    start_clock(dut)
    await reset(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    for push, pull in ((1.0, 1.0), (1.0, 0.3), (0.3, 1.0), (0.5, 0.5)):
        held, sent = [], 0
        while sent < 400 or held:
            valid = sent < 400 and len(held) < 16 and rng.random() < push
            word = rng.getrandbits(134)
            ready = rng.random() < pull
            dut.in_valid.value, dut.in_data.value, dut.out_ready.value = int(valid), word, int(ready)
            await FallingEdge(dut.clk)
            await ReadOnly()
            edges = sum(bool(w & EDGES) for w in held)
            assert int(dut.used.value) == (len(held) - edges) << 8 | edges
            assert int(dut.overflow.value) == 0
            if int(dut.out_valid.value):
                assert int(dut.out_data.value) == held[0]
                if ready:
                    held.pop(0)
            await RisingEdge(dut.clk)
            if valid:
                held.append(word)
                sent += 1


@cocotb.test()
async def a_word_into_an_empty_buffer_takes_one_cycle(dut):
    start_clock(dut)
    await reset(dut)
    dut.out_ready.value = 1
    dut.in_valid.value = 1
    dut.in_data.value = 7
    await RisingEdge(dut.clk)
    dut.in_valid.value = 0
    await FallingEdge(dut.clk)
    assert int(dut.out_valid.value) == 1
    assert int(dut.out_data.value) == 7


@cocotb.test()
async def a_word_beyond_the_depth_is_reported(dut):
    start_clock(dut)
    await reset(dut)
    dut.out_ready.value = 0
    dut.in_valid.value = 1
    lost = 0
    for _ in range(24):
        await FallingEdge(dut.clk)
        lost += int(dut.overflow.value)
        await RisingEdge(dut.clk)
    assert lost == 24 - 18  # the output registers hold two more words


def test_torus_vc_fifo():
    simulate("torus_vc_fifo", "test_torus_vc_fifo", {"DEPTH": 16})
