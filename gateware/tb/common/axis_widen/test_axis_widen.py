# SPDX-License-Identifier: SHL-2.1
"""Bench of axis_widen: frames of every length pass unchanged under random pauses."""

import logging
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSource
from handshake import reset, start_clock
from simulate import simulate


@cocotb.test()
async def every_length(dut):
    start_clock(dut, 8000)
    await reset(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    got = []

    async def monitor():
        data = b""
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.m_axis_rx_tvalid.value):
                keep = int(dut.m_axis_rx_tkeep.value)
                count = keep.bit_length()
                assert keep == (1 << count) - 1
                data += int(dut.m_axis_rx_tdata.value).to_bytes(len(dut.m_axis_rx_tkeep), "little")[:count]
                if int(dut.m_axis_rx_tlast.value):
                    got.append((data, int(dut.m_axis_rx_tuser.value)))
                    data = b""
                else:
                    assert count == len(dut.m_axis_rx_tkeep)

    cocotb.start_soon(monitor())
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_rx"), dut.clk, dut.rst)
    source.log.setLevel(logging.WARNING)
    for share in (0, 0.5):
        source.set_pause_generator(iter(lambda share=share: rng.random() < share, None))
        frames = [(rng.randbytes(size), rng.random() < 0.1) for size in range(1, 80)]
        for data, bad in frames:
            await source.send(AxiStreamFrame(data, tuser=int(bad)))
        await source.wait()
        await ClockCycles(dut.clk, 4)
        assert got == [(data, int(bad)) for data, bad in frames]
        got.clear()


@pytest.mark.parametrize("width", [64])
def test_axis_widen(width):
    simulate("axis_widen", "test_axis_widen", {"DATA_W": width})
