# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_card_us with cocotbext-pcie's block and root complex: registers in BAR 0, bursts, answers.

Card and block have separate clocks.
"""

import logging
import random

import cocotb
import mgp
import reference_mgp
from card_host import BURST_ENDS, ERROR, PAGE, SEND_DONE, CardHost, Layout, Setup, account
from card_wire import Wire
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice
from frames import Host, udp_frame
from microcontroller import Microcontroller
from simulate import simulate
from transmit_model import IP, MAC, frame_of

WINDOW = 1 << 16
CARD_PS = 6400


class Bar:
    """The card's registers through the root complex."""

    def __init__(self, window):
        self.window = window

    async def read(self, address: int) -> int:
        return await with_timeout(self.window.read_dword(address), 100, "us")

    async def write(self, address: int, value: int) -> None:
        await self.window.write_dword(address, value)


class Region:
    """Host memory from the root complex."""

    def __init__(self, region):
        self.region, self.base = region, region.get_absolute_address(0)

    def read(self, address: int, length: int) -> bytes:
        return bytes(self.region[address - self.base : address - self.base + length])

    def write(self, address: int, data: bytes) -> None:
        self.region[address - self.base : address - self.base + len(data)] = data


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def two_bursts_and_a_consumer_that_stalls(dut):
    """SOB, frames of four boards, EOB, twice: buffers in host memory, answers on the wire by n."""
    rng = random.Random(cocotb.RANDOM_SEED)
    dut.pcie_tfc_nph_av.value = 15
    cocotb.start_soon(Clock(dut.clk, CARD_PS, "ps").start())
    dut.rst.value = 1
    rc = RootComplex()
    device = UltraScalePlusPcieDevice(
        pcie_generation=3,
        pcie_link_width=8,
        user_clk_frequency=250e6,
        alignment="dword",
        max_payload_size=1024,
        enable_client_tag=True,
        user_clk=dut.pcie_clk,
        user_reset=dut.pcie_rst,
        rq_bus=AxiStreamBus.from_prefix(dut, "rq"),
        rc_bus=AxiStreamBus.from_prefix(dut, "rc"),
        cq_bus=AxiStreamBus.from_prefix(dut, "cq"),
        cc_bus=AxiStreamBus.from_prefix(dut, "cc"),
        cfg_max_payload=dut.cfg_max_payload,
        cfg_max_read_req=dut.cfg_max_read_req,
        cfg_function_status=dut.cfg_function_status,
    )
    device.functions[0].configure_bar(0, WINDOW)
    rc.make_port().connect(device)
    for model in (rc, device):
        model.log.setLevel(logging.ERROR)
    wire = Wire(dut, rng)
    Microcontroller(dut)
    await Timer(20 * CARD_PS, "ps")
    dut.rst.value = 0
    await FallingEdge(dut.dut.card_rst)
    await with_timeout(rc.enumerate(), 1000, "us")
    function = rc.find_device(device.functions[0].pcie_id)
    await function.enable_device()
    bus = Bar(function.bar_window[0])
    memory = Region(rc.mem_pool.alloc_region(1 << 20))
    base = memory.base
    layout = Layout(
        pages=base + 0x1000,
        queue=base + 0x2000,
        finished=base + 0x6040,
        ring=base + 0x8000,
        send=base + 0x10000,
        pool=range(base + 0x20000, base + 0x60000, PAGE),
    )
    setup = Setup(buffers=16, segment=512)
    host = CardHost(bus, memory, lambda n: ClockCycles(dut.clk, n), rng, setup, layout)
    assert await host.read("id") == int.from_bytes(b"NNET", "little")
    assert await host.read("status") & 0b101 == 0b100  # not yet bus master; stopped
    await function.set_master()
    await host.configure()
    assert await host.read("status") & 1
    await host.start()
    card = [Host(mac=MAC + channel, ip=IP + channel) for channel in range(2)]
    sent: list[list[bytes]] = []  # packets by number and board
    sequence = 0
    for burst, frames in ((9, 20), (10, 6)):
        packets = [mgp.marker(b, reference_mgp.SOB, sequence, burst=burst) for b in range(4)]
        for frame in range(frames):
            sequence += 1
            sent.append([mgp.packet(rng, b, frame, sequence, events=3, burst=burst) for b in range(4)])
            packets += sent[-1]
        sequence += 1
        packets += [mgp.marker(b, reference_mgp.EOB, frames - 1, sequence, burst) for b in range(4)]
        sequence += 1
        # 16 buffers: the last frames of the first burst arrive while the consumer is stalled.
        host.stalled = burst == 9
        await wire.send([(b % 2, udp_frame(packet, card[b % 2])) for b, packet in enumerate(packets)], gap=3)
        await ClockCycles(dut.clk, 2000)
        host.stalled = False
        await host.consume(lambda n=burst: sum(e.kind == BURST_ENDS for e in host.events) == n - 8)
        # A buffer is free only after its number is sent.
        await host.consume(lambda: sum(e.kind == SEND_DONE for e in host.events) == len(host.frames))
    lost = sum(event.bytes for event in host.events if event.kind == ERROR)
    assert lost == 4 and len(host.frames) == len(sent) - lost
    for n, frame in host.frames.items():
        assert frame.event.flags == 1
        at = 64
        for packet in sent[n]:
            assert frame.contents[at : at + len(packet)] == packet, n
            at += -(-len(packet) // 16) * 16
    while len(wire.out[0]) < len(sent):
        await RisingEdge(dut.clk)
    answers = [frame_of(host.posted[n].payload) for n in sorted(host.posted)]
    assert [frame for frame in wire.out[0] if frame in answers] == answers
    assert all(left == right for left, right in account(await host.counters()).values())
    await host.stop()


def test_nanet_card_us():
    parameters = {"MAX_BUFFERS": 64, "TLB_SETS": 16, "TAGS": 16, "TIMEOUT": 20000, "PCIE_CLOCK": 1}
    simulate("nanet_card_us", "test_nanet_card_us", parameters)
