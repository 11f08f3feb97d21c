# SPDX-License-Identifier: SHL-2.1
"""udp_transmit: frames by the RFCs, of every size, with pauses, without a gap inside a frame."""

import random
import struct

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

MAC, IP, PORT = 0x02_00_00_00_00_01, 0xC0A80102, 58913
TO_MAC, TO_IP, TO_PORT = 0x02_AA_BB_CC_DD_EE, 0x0A0000FE, 4711


def ones_sum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def frame_of(payload: bytes, to_ip: int = TO_IP, to_port: int = TO_PORT) -> bytes:
    """Ethernet, IPv4 and UDP by the RFCs, padded to 60 B; independent of the module."""
    addresses = struct.pack("!II", IP, to_ip)
    udp = struct.pack("!HHHH", PORT, to_port, 8 + len(payload), 0)
    check = 0xFFFF & ~ones_sum(addresses + struct.pack("!HH", 17, 8 + len(payload)) + udp + payload)
    udp = udp[:6] + struct.pack("!H", check or 0xFFFF)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0) + addresses
    ip = ip[:10] + struct.pack("!H", 0xFFFF & ~ones_sum(ip)) + ip[12:]
    ether = TO_MAC.to_bytes(6, "big") + MAC.to_bytes(6, "big") + b"\x08\x00"
    frame = ether + ip + udp + payload
    return frame + bytes(max(0, 60 - len(frame)))


def endpoint(ip: int = TO_IP, port: int = TO_PORT) -> int:
    return (TO_MAC << 49) | (ip << 17) | (port << 1) | 1


class MacSink:
    """A MAC's stream: pauses where `rate` says, no pause of the sender inside a frame is forgiven."""

    def __init__(self, dut, rate: float, rng: random.Random):
        self.dut, self.rate, self.rng = dut, rate, rng
        self.frames: list[bytes] = []
        self.cycles: list[int] = []
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, collected, cycle = self.dut, bytearray(), 0
        lanes = len(dut.mac_tdata) // 8
        while True:
            willing = self.rng.random() < self.rate
            dut.mac_tready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            valid = int(dut.mac_tvalid.value)
            assert valid or not collected, "a gap inside a frame"
            if valid and willing:
                keep, last = int(dut.mac_tkeep.value), int(dut.mac_tlast.value)
                count = keep.bit_count()
                assert keep == (1 << count) - 1 and count and (last or count == lanes)
                collected += int(dut.mac_tdata.value).to_bytes(lanes, "little")[:count]
                if last:
                    self.frames.append(bytes(collected))
                    self.cycles.append(cycle)
                    collected.clear()
            cycle += 1
            await RisingEdge(dut.clk)


async def give(dut, payload: bytes, send: bool, rate: float, rng: random.Random, to: int) -> None:
    """Payload words, then the command."""
    width = len(dut.data) // 8
    for at in range(0, len(payload), width):
        while rng.random() >= rate:
            await RisingEdge(dut.clk)
        part = payload[at : at + width]
        # What lies behind the payload must not matter.
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
    """A UDP checksum of 0 means none: it goes out as 0xFFFF."""
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
    """Header-only packets keep at least the rate of the wire: 60 B and 24 B of preamble, FCS and gap."""
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
