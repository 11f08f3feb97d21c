# SPDX-License-Identifier: SHL-2.1
"""Bench of register_block: described registers, counters, doorbell, histogram; generated files."""

import random
import subprocess
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from handshake import reset
from register_map import RegisterBus
from simulate import simulate
from sources import GATEWARE, modules


class Bus(RegisterBus):
    """The master of the register bus, by address, with the other inputs of the bench idle."""

    def __init__(self, dut):
        super().__init__(dut, "nanet_regs")
        for name in ("sample_valid", "count", "now"):
            getattr(dut, name).value = 0

    async def read(self, address: int, bar: int = 0) -> int:
        return await self.access(address, False, bar=bar)

    async def write(self, address: int, data: int, enable: int = 15, bar: int = 0) -> None:
        await self.access(address, True, data, bar, enable)


async def begin(dut) -> Bus:
    cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
    bus = Bus(dut)
    await reset(dut)
    for _ in range(140):  # clearing of the histogram
        await RisingEdge(dut.clk)
    return bus


@cocotb.test()
async def every_register(dut):
    """Reset values, writable bits, and address decoding."""
    bus, rng, want = await begin(dut), random.Random(1), {}
    known = [(name, r.address, r.reset, r.writes, r.reads) for name, r in bus.registers.items()]
    assert len(known) > 120 and len({address for _, address, *_ in known}) == len(known)
    for name, address, value, _, reads in known:
        assert await bus.read(address) == value & reads, name
    for name, address, value, writes, reads in known:
        data = rng.getrandbits(32)
        if name.endswith("control"):
            data &= ~0x100
        await bus.write(address, data)
        want[address] = (name, (value & ~writes | data & writes) & reads)
    for address, (name, value) in want.items():
        assert await bus.read(address) == value, name
    # Byte writes.
    for name, address, _, writes, _ in known:
        if writes == 0xFFFFFFFF and not name.endswith("doorbell"):
            await bus.write(address, 0x44332211)
            await bus.write(address, 0xDDCCBBAA, enable=0b0101)
            assert await bus.read(address) == 0x44CC22AA, name


@cocotb.test()
async def nothing_there(dut):
    """Unmapped addresses read as 0 and are acknowledged; writes to them have no effect."""
    bus = await begin(dut)
    for address, bar in ((0x3FC, 0), (0xFFC, 0), (0x1000, 0), (0x1FFFC, 0), (0, 1), (0x804, 2)):
        await bus.write(address, 0xFFFFFFFF, bar=bar)
        assert await bus.read(address, bar=bar) == 0
    await bus.write(0x800, 5)  # the histogram is read-only
    assert await bus.read(0x800) == 0
    assert await bus.read(0) == int.from_bytes(b"NNET", "little")


@cocotb.test()
async def fields_and_counters(dut):
    bus = await begin(dut)
    at = {name: register.address for name, register in bus.registers.items()}
    for bit, name in enumerate(
        ("verdicts[1].arp", "bad_packets.wrong_burst", "lost.late", "frames.frames_out")
    ):
        dut.count.value = 1 << bit
        for _ in range(bit + 3):
            await RisingEdge(dut.clk)
        dut.count.value = 0
        assert await bus.read(at[name]) == bit + 3
    assert await bus.read(at["verdicts[0].arp"]) == 0
    dut.now.value = 0x123456789ABCDEF0
    for _ in range(2):
        await RisingEdge(dut.clk)
    assert await bus.read(at["now.low"]) == 0x9ABCDEF0
    assert await bus.read(at["now.high"]) == 0x12345678
    await bus.write(at["device[0].ring.high"], 77)
    await bus.write(at["destination[3].port"], 0x8000_1267)
    assert int(dut.ring_high.value) == 77
    assert (int(dut.last_port.value), int(dut.last_valid.value)) == (0x1267, 1)


@cocotb.test()
async def doorbell(dut):
    """Each write gives one pulse with its number."""
    bus, rung = await begin(dut), []

    async def listen():
        while True:
            await RisingEdge(dut.clk)
            if int(dut.bell_valid.value):
                rung.append(int(dut.bell_n.value))

    cocotb.start_soon(listen())
    for n in (5, 5, 0xFFFFFFFF, 0):
        await bus.write(0x20, n)
    for _ in range(5):
        await RisingEdge(dut.clk)
    assert rung == [5, 5, 0xFFFFFFFF, 0]


@cocotb.test()
async def return_slots(dut):
    """Each write to the window gives one pulse with slot and value; reads return 0."""
    bus, got = await begin(dut), []

    async def listen():
        while True:
            await RisingEdge(dut.clk)
            if int(dut.return_valid.value):
                got.append((int(dut.return_index.value), int(dut.return_value.value)))

    cocotb.start_soon(listen())
    writes = [(0, 1), (8191, 0xFFFFFFFF), (5, 6), (5, 6), (2047, 0)]
    for slot, value in writes:
        await bus.write(0x8000 + 4 * slot, value)
    assert await bus.read(0x8000) == 0
    await bus.write(0x20, 3)
    assert got == writes


@cocotb.test()
async def latency_histogram(dut):
    bus, rng, want = await begin(dut), random.Random(2), {}
    edges = [0, 1, 15, 16, 17, 18, 31, 32, 35, 36, 63, 64, 1 << 17, (1 << 18) - 1, 1 << 18, 2**32 - 1]
    for value in edges + [rng.randrange(0, 400) for _ in range(200)]:
        exponent = value.bit_length() - 1
        bin_ = value if value < 16 else min(127, 16 + 8 * (exponent - 4) + ((value >> exponent - 3) & 7))
        want[bin_] = want.get(bin_, 0) + 1
        dut.sample.value, dut.sample_valid.value = value, 1
        await RisingEdge(dut.clk)
        dut.sample_valid.value = 0
        for _ in range(rng.choice([3, 3, 4, 7])):
            await RisingEdge(dut.clk)
        if rng.random() < 0.1:
            await bus.read(0x800 + 4 * rng.randrange(128))
    got = {i: count for i in range(128) if (count := await bus.read(0x800 + 4 * i))}
    assert got == want
    await bus.write(0x8, 0x100)
    for _ in range(140):
        await RisingEdge(dut.clk)
    assert [await bus.read(0x800 + 4 * i) for i in range(128)] == [0] * 128
    assert await bus.read(0x8) == 0


def test_register_block():
    bench = Path(__file__).resolve().parent / "register_bench.sv"
    sources = [bench, modules()["register_block"]]
    simulate("register_bench", "test_register_block", extra=sources)


def test_generated_files_are_up_to_date():
    done = subprocess.run(
        [sys.executable, GATEWARE / "regs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
