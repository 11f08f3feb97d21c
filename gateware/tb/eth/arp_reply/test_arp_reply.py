# SPDX-License-Identifier: SHL-2.1
"""Bench of arp_reply: replies by RFC 826; a second request waits, a third is dropped."""

import logging
import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamSink
from frames import Host, arp_frame
from handshake import reset, start_clock
from simulate import simulate

HOST = Host()


def answer(mac, ip):
    """Return the expected reply from the reference model, addressed to the requester."""
    frame = bytearray(arp_frame(Host(ip=ip), 2, ip, HOST.mac, HOST.ip, dst_mac=mac))
    frame[32:38] = mac.to_bytes(6, "big")
    return bytes(frame)


@cocotb.test()
async def answers(dut):
    start_clock(dut)
    dut.host.value = HOST.mac << 32 | HOST.ip
    await reset(dut)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_tx"), dut.clk, dut.rst)
    sink.log.setLevel(logging.WARNING)
    rng = random.Random(cocotb.RANDOM_SEED)
    for share in (0, 0.6):
        sink.set_pause_generator(iter(lambda share=share: rng.random() < share, None))
        for burst in (1, 2, 3):
            asked = [(rng.getrandbits(48), rng.getrandbits(32)) for _ in range(burst)]
            for mac, ip in asked:
                dut.arp.value = mac << 32 | ip
                dut.arp_valid.value = 1
                await RisingEdge(dut.clk)
                dut.arp_valid.value = 0
                await ClockCycles(dut.clk, 2)
            for mac, ip in asked[:2]:
                assert bytes((await sink.recv()).tdata) == answer(mac, ip)
            await ClockCycles(dut.clk, 40)
            assert sink.empty()


def test_arp_reply():
    simulate("arp_reply", "test_arp_reply")
