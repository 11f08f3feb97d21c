# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_shim with cocotbext-pcie's block and root complex: DMA, registers, one or two clocks."""

import logging
import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice
from dma_model import Command, Master
from simulate import simulate

WINDOW = 1 << 16
# Clock periods in ps: the block's, and the card's if separate.
BLOCK_PS = int(os.environ.get("BLOCK_PS", "4000"))
CARD_PS = int(os.environ.get("CARD_PS", "0"))


class Registers:
    """Register file behind the register bus, with a configurable delay."""

    def __init__(self, dut, rng: random.Random):
        self.words: dict[int, int] = {}
        self.accesses: list[tuple] = []
        self.dut, self.rng = dut, rng
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self.dut
        dut.reg_acknowledge.value = 0
        while True:
            await RisingEdge(dut.clk)
            dut.reg_acknowledge.value = 0
            if not int(dut.reg_request.value):
                continue
            for _ in range(self.rng.randint(0, 3)):
                await RisingEdge(dut.clk)
            address, enable = int(dut.reg_addr.value), int(dut.reg_enable.value)
            if int(dut.reg_write.value):
                mask = sum(0xFF << 8 * i for i in range(4) if enable >> i & 1)
                old = self.words.get(address, 0)
                self.words[address] = (old & ~mask) | (int(dut.reg_wdata.value) & mask)
                self.accesses.append(("write", address, enable))
            else:
                dut.reg_rdata.value = self.words.get(address, 0)
                self.accesses.append(("read", address, enable))
            dut.reg_acknowledge.value = 1
            await RisingEdge(dut.clk)
            dut.reg_acknowledge.value = 0


class Bench:
    """Shim, block and root complex."""

    def __init__(self, dut, rate: float = 1.0, seed: int = 1):
        self.dut, self.rng = dut, random.Random(seed)
        for name in ("wr_valid", "rd_valid", "rd_data_ready", "reg_acknowledge"):
            getattr(dut, name).value = 0
        dut.pcie_tfc_nph_av.value = 15
        if CARD_PS:
            cocotb.start_soon(Clock(dut.clk, CARD_PS, "ps").start())
            cocotb.start_soon(self.reset_card())
        self.rc = RootComplex()
        self.device = UltraScalePlusPcieDevice(
            pcie_generation=3,
            pcie_link_width=8 if len(dut.wr_data) == 256 and BLOCK_PS == 4000 else 4,
            user_clk_frequency=1e12 / BLOCK_PS,
            alignment="dword",
            max_payload_size=1024,
            enable_client_tag=True,
            user_clk=dut.pcie_clk if CARD_PS else dut.clk,
            user_reset=dut.pcie_rst if CARD_PS else dut.rst,
            rq_bus=AxiStreamBus.from_prefix(dut, "rq"),
            rc_bus=AxiStreamBus.from_prefix(dut, "rc"),
            cq_bus=AxiStreamBus.from_prefix(dut, "cq"),
            cc_bus=AxiStreamBus.from_prefix(dut, "cc"),
            cfg_max_payload=dut.cfg_max_payload,
            cfg_max_read_req=dut.cfg_max_read_req,
            cfg_function_status=dut.cfg_function_status,
        )
        self.device.functions[0].configure_bar(0, WINDOW)
        self.rc.make_port().connect(self.device)
        for model in (self.rc, self.device):
            model.log.setLevel(logging.ERROR)
        self.registers = Registers(dut, self.rng)
        self.master = Master(dut, rate, self.rng)

    async def reset_card(self) -> None:
        self.dut.rst.value = 1
        await Timer(20 * CARD_PS, "ps")
        self.dut.rst.value = 0

    async def start(self, payload: int = 0) -> None:
        """Enumerate the device with the host's payload limit (128 B << value)."""
        await FallingEdge(self.dut.card_rst)
        self.rc.max_payload_size = payload
        await with_timeout(self.rc.enumerate(), 1000, "us")
        self.function = self.rc.find_device(self.device.functions[0].pcie_id)
        await self.function.enable_device()
        await self.function.set_master()
        self.region = self.rc.mem_pool.alloc_region(64 * 1024)
        self.base = self.region.get_absolute_address(0)
        for _ in range(20):
            await RisingEdge(self.dut.clk)

    async def wait(self, what, cycles: int = 40_000) -> None:
        for _ in range(cycles):
            if what():
                break
            await RisingEdge(self.dut.clk)
        assert what()


@cocotb.test()
async def dma_both_ways(dut):
    """Any address and length, across payload, request and 4 KB boundaries; reads return the written data."""
    bench = Bench(dut, rate=0.9, seed=11)
    await bench.start(payload=1)
    rng, master = bench.rng, bench.master
    shadow = bytearray(bench.region[0 : 64 * 1024])
    sizes = [1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1472, 4096, 5000]
    tags = []
    for i, size in enumerate(sizes * 3):
        at = rng.choice([rng.randrange(0, 0xC000, 4), 0x1000 * rng.randint(1, 8) - 4 * rng.randint(1, 20)])
        data = rng.randbytes(size)
        shadow[at : at + size] = data
        master.writes.append((Command(bench.base + at, size, i & 0xFF), data))
        tags.append((i & 0xFF, 0))
    await bench.wait(lambda: len(master.done) == len(tags))
    assert master.done == tags
    # A completion guarantees order: a later read returns the written bytes.
    asks = []
    for i in range(40):
        size = rng.choice([*sizes, rng.randint(1, 3000)])
        at = rng.choice([rng.randrange(0, 0xC000, 4), 0x1000 * rng.randint(1, 8) - 4 * rng.randint(1, 20)])
        asks.append((at, Command(bench.base + at, size, i)))
    master.asks += [command for _, command in asks]
    await bench.wait(lambda: len(master.answers) == len(asks))
    for (at, command), (tag, data, error) in zip(asks, master.answers, strict=True):
        assert (tag, error) == (command.tag, 0)
        assert data[: command.length] == shadow[at : at + command.length]
    assert bytes(bench.region[0 : 64 * 1024]) == bytes(shadow)


@cocotb.test()
async def limits_of_the_host(dut):
    """No TLP exceeds the host's limits or crosses 4 KB; checked on the TLPs."""
    bench = Bench(dut, seed=12)
    await bench.start()
    for payload, read in ((0, 0), (1, 2), (3, 5)):
        capability = bench.device.functions[0].pcie_cap
        capability.max_payload_size, capability.max_read_request_size = payload, read
        for _ in range(10):
            await RisingEdge(dut.clk)
        seen = []
        original = bench.device.send

        async def spy(tlp, seen=seen, original=original):
            seen.append((tlp.fmt_type, tlp.address, tlp.length * 4))
            await original(tlp)

        bench.device.send = spy
        master, rng = bench.master, bench.rng
        master.done.clear()
        master.answers.clear()
        for i in range(6):
            at = 4 * rng.randrange(0, 0x800)
            master.writes.append((Command(bench.base + at, 6000, i), bytes(6000)))
            master.asks.append(Command(bench.base + at, 6000, i))
        await bench.wait(lambda m=master: len(m.done) == 6 and len(m.answers) == 6)
        bench.device.send = original
        for kind, address, length in seen:
            assert address % 4096 + length <= 4096
            if kind in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64):
                assert length <= 128 << payload
            elif kind in (TlpType.MEM_READ, TlpType.MEM_READ_64):
                assert length <= min(512, 128 << read)
        longest = max(length for kind, _, length in seen if kind in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64))
        assert longest == 128 << payload


@cocotb.test()
async def register_accesses(dut):
    """Bytes, words, dwords, 8 and 64 bytes; invalid accesses get an error status and have no effect."""
    bench = Bench(dut, seed=13)
    await bench.start()
    bar = bench.function.bar_window[0]
    rng, model = bench.rng, bytearray(WINDOW)
    for _ in range(60):
        size = rng.choice([1, 2, 4, 8, 16, 64, rng.randint(1, 64)])
        at = rng.randrange(0, 0x800)
        size = min(size, 64 - at % 4)  # 16 dwords
        if rng.random() < 0.5:
            data = rng.randbytes(size)
            model[at : at + size] = data
            await bar.write(at, data)
        else:
            got = await with_timeout(bar.read(at, size), 100, "us")
            assert bytes(got) == bytes(model[at : at + size]), (at, size)
    await bar.write_dword(WINDOW - 4, 0xC0FFEE)
    assert await bar.read_dword(WINDOW - 4) == 0xC0FFEE
    # Longer than supported: aborted, no hang.
    before = len(bench.registers.accesses)
    for length, status in ((17, CplStatus.CA), (64, CplStatus.CA)):
        request = Tlp()
        request.fmt_type = TlpType.MEM_READ
        request.requester_id = PcieId(0, 0, 0)
        request.set_addr_be(bench.function.bar_addr[0], length * 4)
        answers = await with_timeout(bench.rc.perform_nonposted_operation(request), 100, "us")
        assert [answer.status for answer in answers] == [status]
    assert len(bench.registers.accesses) == before
    assert bytes(await bar.read(0, 16)) == bytes(model[:16])


@cocotb.test()
async def bus_master_disabled(dut):
    """Without bus mastering no TLP leaves; writes are dropped, reads answered, both as failed."""
    bench = Bench(dut, seed=14)
    await bench.start()
    master = bench.master
    bench.region[0:64] = bytes(range(64))
    await bench.function.clear_master()
    for _ in range(20):
        await RisingEdge(dut.clk)
    for i in range(3):
        master.writes.append((Command(bench.base, 700, i), bytes([0xEE]) * 700))
        master.asks.append(Command(bench.base + 0xF80, 700, 8 + i))
    await bench.wait(lambda: len(master.done) == 3 and len(master.answers) == 3)
    assert master.done == [(0, 1), (1, 1), (2, 1)]
    words = -(-700 // master.width)
    assert [(tag, len(data), error) for tag, data, error in master.answers] == [
        (8 + i, words * master.width, 1) for i in range(3)
    ]
    assert bytes(bench.region[0:64]) == bytes(range(64))
    await bench.function.set_master()
    for _ in range(20):
        await RisingEdge(dut.clk)
    master.asks.append(Command(bench.base, 64, 3))
    await bench.wait(lambda: len(master.answers) == 4)
    assert master.answers[3][:2] == (3, bytes(range(64)))


@cocotb.test()
async def faster_than_two_10_gbe_channels(dut):
    """Back-to-back writes of 256 B, and latencies in cycles of the card."""
    bench = Bench(dut, seed=15)
    await bench.start(payload=1)
    master = bench.master
    cycle, began, ended = 0, [], []

    async def watch():
        nonlocal cycle
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.wr_valid.value) and int(dut.wr_ready.value) and int(dut.wr_last.value):
                began.append(cycle)
            if int(dut.wr_done_valid.value):
                ended.append(cycle)
            cycle += 1

    cocotb.start_soon(watch())
    for i in range(4):  # one at a time
        master.writes.append((Command(bench.base, 32, i), bytes(32)))
        await bench.wait(lambda i=i: len(master.done) == i + 1)
    alone = [end - begin for begin, end in zip(began, ended, strict=True)]
    asked = cycle
    master.asks.append(Command(bench.base, 32, 0))
    await bench.wait(lambda: master.answers)
    read = cycle - asked
    count = 100
    began.clear()
    ended.clear()
    for i in range(count):
        master.writes.append((Command(bench.base + 256 * i, 256, i), bytes(256)))
    await bench.wait(lambda: len(ended) == count)
    await Timer(1, "us")  # completed, but not yet sent
    card_ns = (CARD_PS or BLOCK_PS) / 1000
    rate = (count - 1) * 256 * 8 / ((ended[-1] - ended[0]) * card_ns)
    cocotb.log.info("last word to done: %s cycles; read of 32 B: %d; writes: %.1f Gb/s", alone, read, rate)
    assert max(alone) <= (28 if CARD_PS else 9)
    assert rate > 20


@cocotb.test(skip=not CARD_PS)
async def a_reset_of_the_card_is_one_of_both(dut):
    """A reset of one cycle within a write: the module is as after the first reset."""
    bench = Bench(dut, seed=16)
    await bench.start()
    bar, data = bench.function.bar_window[0], bench.rng.randbytes(500)
    for _ in range(2):
        # No part of an incomplete write has been sent.
        dut.wr_cmd.value = Command(bench.base, 500, 1).pack()
        dut.wr_last.value, dut.wr_valid.value = 0, 1
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.wr_valid.value, dut.rst.value = 0, 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        await FallingEdge(dut.card_rst)
        for task in bench.master.tasks:  # a master in reset accepts nothing
            task.cancel()
        bench.master = Master(dut, 1.0, bench.rng)
        bench.master.writes.append((Command(bench.base + 8, 500, 7), data))
        await bench.wait(lambda: bench.master.done)
        bench.master.asks.append(Command(bench.base + 8, 500, 9))
        await bench.wait(lambda: bench.master.answers)
        assert bench.master.done.pop() == (7, 0) and not bench.master.done
        tag, got, error = bench.master.answers.pop()
        assert (tag, got[:500], error) == (9, data, 0)
        await bar.write_dword(0x40, 0xABCD)
        assert await with_timeout(bar.read_dword(0x40), 100, "us") == 0xABCD


@pytest.mark.parametrize("width", [128, 256])
def test_pcie_us_shim(width):
    simulate("pcie_us_shim", "test_pcie_us_shim", {"DATA_W": width, "TAGS": 16, "TIMEOUT": 20000})


@pytest.mark.parametrize(("card", "block"), [(6400, 4000), (4000, 8000)])
def test_clocks_of_their_own(card, block):
    parameters = {"DATA_W": 256, "TAGS": 16, "TIMEOUT": 20000, "PCIE_CLOCK": 1}
    env = {"CARD_PS": str(card), "BLOCK_PS": str(block)}
    simulate("pcie_us_shim", "test_pcie_us_shim", parameters, env)
