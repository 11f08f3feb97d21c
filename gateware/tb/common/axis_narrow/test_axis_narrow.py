# SPDX-License-Identifier: SHL-2.1
"""Bench of axis_narrow: frames of every length byte by byte, with random pauses; no gap between words."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import Sink, Source, reset
from simulate import simulate


def words(frame: bytes, width: int):
    for at in range(0, len(frame), width):
        part = frame[at : at + width]
        yield {
            "tdata": int.from_bytes(part, "little"),
            "tkeep": (1 << len(part)) - 1,
            "tlast": int(at + width >= len(frame)),
        }


async def begin(dut, rng, rate: float, mac_rate: float):
    cocotb.start_soon(Clock(dut.clk, 8000, "ps").start())
    dut.s_axis_tvalid.value = dut.m_axis_tready.value = 0
    await reset(dut)
    source = Source(dut, "s_axis", ("tdata", "tkeep", "tlast"), rate, rng)
    sink = Sink(dut, "m_axis", ("tdata", "tlast"), mac_rate, rng)
    return source, sink


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5], mac_rate=[1.0, 0.5])
async def every_length(dut, rate, mac_rate):
    rng = random.Random(cocotb.RANDOM_SEED)
    source, sink = await begin(dut, rng, rate, mac_rate)
    width = len(dut.s_axis_tkeep)
    frames = [rng.randbytes(size) for size in range(1, 5 * width)]
    for frame in frames:
        source.put(words(frame, width))
    got = await sink.take(sum(map(len, frames)))
    want = [{"tdata": byte, "tlast": int(i == len(f) - 1)} for f in frames for i, byte in enumerate(f)]
    assert got == want
    await ClockCycles(dut.clk, 10)
    assert not sink.words
    source.stop()
    sink.stop()
    await RisingEdge(dut.clk)


@cocotb.test()
async def a_byte_in_every_cycle(dut):
    """First byte in the cycle of its word, a word is accepted with its last byte; no gap between frames."""
    rng = random.Random(cocotb.RANDOM_SEED)
    width = len(dut.s_axis_tkeep)
    source, sink = await begin(dut, rng, 1.0, 1.0)
    source.put([*words(bytes(3 * width), width), *words(bytes(width + 1), width)])
    first = None
    taken = []
    for cycle in range(6 * width):
        await FallingEdge(dut.clk)
        await ReadOnly()
        if int(dut.s_axis_tvalid.value):
            first = cycle if first is None else first
            assert int(dut.m_axis_tvalid.value)
            if int(dut.s_axis_tready.value):
                taken.append(cycle - first + 1)
    assert taken == [width, 2 * width, 3 * width, 4 * width, 4 * width + 1]
    assert len(sink.words) == 4 * width + 1


@pytest.mark.parametrize("width", [16, 64])
def test_axis_narrow(width):
    simulate("axis_narrow", "test_axis_narrow", {"DATA_W": width})
