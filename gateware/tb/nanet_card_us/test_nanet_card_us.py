# SPDX-License-Identifier: SHL-2.1
"""nanet_card_us behind cocotbext-pcie's block and root complex: registers in BAR 0, a frame, its answer."""

import logging
import random

import cocotb
import mgp
import reference_mgp
from card_host import PAGE, RECEIVE_DONE, SEND_DONE, CardHost, Layout, Setup, account
from card_wire import Wire
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice
from frames import Host, udp_frame
from microcontroller import Microcontroller
from simulate import simulate
from transmit_model import IP, MAC, frame_of

WINDOW = 1 << 16


class Bar:
    """The card's registers through the root complex."""

    def __init__(self, window):
        self.window = window

    async def read(self, address: int) -> int:
        return await with_timeout(self.window.read_dword(address), 100, "us")

    async def write(self, address: int, value: int) -> None:
        await self.window.write_dword(address, value)


class Region:
    """Host memory that the root complex gives out."""

    def __init__(self, region):
        self.region, self.base = region, region.get_absolute_address(0)

    def read(self, address: int, length: int) -> bytes:
        return bytes(self.region[address - self.base : address - self.base + length])

    def write(self, address: int, data: bytes) -> None:
        self.region[address - self.base : address - self.base + len(data)] = data


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_frame_there_and_back(dut):
    """SOB, one frame of four boards, EOB: the buffer in the host's memory, its answer on the wire."""
    rng = random.Random(cocotb.RANDOM_SEED)
    dut.pcie_tfc_nph_av.value = 15
    rc = RootComplex()
    device = UltraScalePlusPcieDevice(
        pcie_generation=3,
        pcie_link_width=8,
        user_clk_frequency=250e6,
        alignment="dword",
        max_payload_size=1024,
        enable_client_tag=True,
        user_clk=dut.clk,
        user_reset=dut.rst,
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
    await FallingEdge(dut.rst)
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
    assert await host.read("status") & 0b101 == 0b100  # no bus master yet, stopped
    await function.set_master()
    await host.configure()
    assert await host.read("status") & 1
    await host.start()
    card = Host(mac=MAC, ip=IP)
    data = [mgp.packet(rng, b, 0, 1, events=3, burst=9) for b in range(4)]
    packets = [mgp.marker(b, reference_mgp.SOB, burst=9) for b in range(4)] + data
    packets += [mgp.marker(b, reference_mgp.EOB, 0, 2, 9) for b in range(4)]
    await wire.send([(0, udp_frame(packet, card)) for packet in packets], gap=20)
    await host.consume(lambda: any(event.kind == SEND_DONE for event in host.events))
    event = next(event for event in host.events if event.kind == RECEIVE_DONE)
    assert (event.flags, event.n, event.frame) == (1, 0, 0)
    at = 64
    for packet in data:
        assert host.frames[0].contents[at : at + len(packet)] == packet
        at += -(-len(packet) // 16) * 16
    while not wire.out[0]:
        await RisingEdge(dut.clk)
    assert wire.out[0] == [frame_of(host.posted[0].payload)]
    assert all(left == right for left, right in account(await host.counters()).values())
    await host.stop()


def test_nanet_card_us():
    parameters = {"MAX_BUFFERS": 64, "TLB_SETS": 16, "TAGS": 16, "TIMEOUT": 20000}
    simulate("nanet_card_us", "test_nanet_card_us", parameters, optimise="-O0")
