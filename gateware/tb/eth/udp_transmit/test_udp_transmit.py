# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_transmit: frames of every size by the RFCs, with input pauses, without gaps within a frame."""

import random
import struct

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from handshake import reset, start_clock
from simulate import simulate
from transmit_model import IP, MAC, PORT, TO_IP, TO_PORT, MacSink, endpoint, frame_of, ones_sum


async def give(dut, payload: bytes, send: bool, rate: float, rng: random.Random, to: int) -> None:
    """Write payload words, then the command."""
    width = len(dut.data) // 8
    for at in range(0, len(payload), width):
        while rng.random() >= rate:
            await RisingEdge(dut.clk)
        part = payload[at : at + width]
        # Bytes after the payload must be ignored.
        dut.data.value = int.from_bytes(part + rng.randbytes(width - len(part)), "little")
        dut.data_bytes.value = len(part)
        dut.data_valid.value = 1
        while True:
            await RisingEdge(dut.clk)
            if int(dut.data_ready.value):
                break
        dut.data_valid.value = 0
    dut.cmd_send.value = int(send)
    dut.cmd_bytes.value = len(payload)
    dut.cmd_to.value = to
    dut.cmd_valid.value = 1
    while True:
        await RisingEdge(dut.clk)
        if int(dut.cmd_ready.value):
            break
    dut.cmd_valid.value = 0


async def begin(dut) -> None:
    start_clock(dut)
    dut.source_mac.value = MAC
    dut.source_ip.value = IP
    dut.source_port.value = PORT
    await reset(dut)


@cocotb.test()
async def frames_are_right(dut):
    await begin(dut)
    for rate, mac_rate in ((1.0, 1.0), (0.4, 1.0), (1.0, 0.4)):
        rng = random.Random(f"{rate} {mac_rate}")
        sink = MacSink(dut, mac_rate, rng)
        sizes = [*range(0, 36), 63, 64, 65, 127, 128, 129, 1471, 1472]
        if len(dut.mac_tdata) == 64:
            sizes += [rng.randint(0, 1472) for _ in range(20)]
        wanted = []
        for size in sizes:
            payload = rng.choice([rng.randbytes(size), bytes([255]) * size, bytes(size)])
            ip, port = rng.choice([(TO_IP, TO_PORT), (0xFFFFFFFF, 0xFFFF)])
            keep = rng.random() < 0.8
            await give(dut, payload, keep, rate, rng, endpoint(ip, port))
            if keep:
                wanted.append(frame_of(payload, ip, port))
        for _ in range(20_000):
            if len(sink.frames) >= len(wanted):
                break
            await RisingEdge(dut.clk)
        assert sink.frames == wanted
        sink.task.cancel()


@cocotb.test()
async def checksum_that_comes_to_zero(dut):
    """A UDP checksum of 0 means none; it is sent as 0xFFFF."""
    await begin(dut)
    rng = random.Random(5)
    sink = MacSink(dut, 1.0, rng)
    rest = ones_sum(struct.pack("!IIHHHHHH", IP, TO_IP, 17, 10, PORT, TO_PORT, 10, 0))
    payload = struct.pack("!H", 0xFFFF - rest)
    await give(dut, payload, True, 1.0, rng, endpoint())
    for _ in range(300):
        await RisingEdge(dut.clk)
    assert sink.frames == [frame_of(payload)]
    assert sink.frames[0][40:42] == b"\xff\xff"
    sink.task.cancel()


@cocotb.test()
async def smallest_frames_back_to_back(dut):
    """Header-only packets keep at least the line rate: 60 B and 24 B of preamble, FCS and gap."""
    await begin(dut)
    rng = random.Random(6)
    sink = MacSink(dut, 1.0, rng)
    for _ in range(60):
        await give(dut, bytes(8), True, 1.0, rng, endpoint())
    for _ in range(800):
        await RisingEdge(dut.clk)
    lanes = len(dut.mac_tdata) // 8
    assert len(sink.frames) == 60
    assert (sink.cycles[-1] - sink.cycles[0]) / 59 <= 84 / lanes + 4
    sink.task.cancel()


@pytest.mark.parametrize(("width", "mac"), [(128, 8), (128, 64), (256, 64)])
def test_udp_transmit(width, mac):
    simulate("udp_transmit", "test_udp_transmit", {"DATA_W": width, "MAC_W": mac})
