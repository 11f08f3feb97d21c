# SPDX-License-Identifier: SHL-2.1
"""Reference model of the transmit path: UDP frames by the RFCs, and a MAC that checks their timing."""

import random
import struct

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

MAC, IP, PORT = 0x02_00_00_00_00_01, 0xC0A80102, 58913
TO_MAC, TO_IP, TO_PORT = 0x02_AA_BB_CC_DD_EE, 0x0A0000FE, 4711


def ones_sum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def frame_of(
    payload: bytes, to_ip: int = TO_IP, to_port: int = TO_PORT, ip: int = IP, port: int = PORT
) -> bytes:
    """Return an Ethernet frame with IPv4 and UDP by the RFCs, padded to 60 B, independent of the RTL."""
    addresses = struct.pack("!II", ip, to_ip)
    udp = struct.pack("!HHHH", port, to_port, 8 + len(payload), 0)
    check = 0xFFFF & ~ones_sum(addresses + struct.pack("!HH", 17, 8 + len(payload)) + udp + payload)
    udp = udp[:6] + struct.pack("!H", check or 0xFFFF)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0) + addresses
    header = header[:10] + struct.pack("!H", 0xFFFF & ~ones_sum(header)) + header[12:]
    ether = TO_MAC.to_bytes(6, "big") + MAC.to_bytes(6, "big") + b"\x08\x00"
    frame = ether + header + udp + payload
    return frame + bytes(max(0, 60 - len(frame)))


def endpoint(ip: int = TO_IP, port: int = TO_PORT) -> int:
    return (TO_MAC << 49) | (ip << 17) | (port << 1) | 1


class MacSink:
    """MAC side of an AXI stream: accepts words at `rate`; a gap within a frame is an error."""

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
