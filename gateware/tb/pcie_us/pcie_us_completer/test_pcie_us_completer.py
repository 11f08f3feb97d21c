# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_completer: writes and reads of all sizes, beats with pauses, and discontinued requests."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

READ, WRITE, IO_WRITE, FETCH_ADD, MESSAGE = 0, 1, 3, 4, 12
SUCCESSFUL, UNSUPPORTED, ABORT = 0, 1, 4
MAX_WRITE, MAX_READ = 256, 16  # dwords


class Bench:
    """Streams of the block, and registers: `words`, and `accesses` to them (write, address, enables)."""

    def __init__(self, dut, rng):
        self.dut, self.rng, self.lanes = dut, rng, len(dut.cq_tkeep)
        self.words, self.accesses, self.answers, self.unsupported = {}, [], [], 0
        start_clock(dut)
        dut.reg_acknowledge.value = 0
        cocotb.start_soon(self.registers())
        cocotb.start_soon(self.completions())

    async def registers(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            dut.reg_acknowledge.value = 0
            if not int(dut.reg_request.value):
                continue
            await ClockCycles(dut.clk, self.rng.randint(1, 3))
            address, enable = int(dut.reg_addr.value), int(dut.reg_enable.value)
            write = int(dut.reg_write.value)
            if write:
                mask = sum(0xFF << 8 * i for i in range(4) if enable >> i & 1)
                self.words[address] = self.words.get(address, 0) & ~mask | int(dut.reg_wdata.value) & mask
            dut.reg_rdata.value = self.words.get(address, 0)
            self.accesses.append((write, address, enable))
            dut.reg_acknowledge.value = 1
            await RisingEdge(dut.clk)
            dut.reg_acknowledge.value = 0

    async def completions(self):
        dut, cells = self.dut, []
        while True:
            willing = self.rng.random() < 0.7
            dut.cc_tready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            self.unsupported += int(dut.count_unsupported.value)
            if willing and int(dut.cc_tvalid.value):
                data, keep = int(dut.cc_tdata.value), int(dut.cc_tkeep.value)
                cells += [data >> 32 * i & 0xFFFFFFFF for i in range(keep.bit_count())]
                if int(dut.cc_tlast.value):
                    self.answers.append((cells[1] >> 11 & 7, cells[2] & 0xFF, cells[3:]))
                    cells = []
            await RisingEdge(dut.clk)

    async def request(self, kind, address, data=(), length=None, first=15, last=None, tag=0, broken=False):
        """Send a request; `broken`: the block discontinues it with its last beat."""
        dut, length = self.dut, length or len(data)
        last = (0 if length == 1 else 15) if last is None else last
        cells = [address, 0, length | kind << 11, tag, *data]
        for at in range(0, len(cells), self.lanes):
            part, ends = cells[at : at + self.lanes], at + self.lanes >= len(cells)
            while self.rng.random() < 0.3:
                await RisingEdge(dut.clk)
            dut.cq_tvalid.value, dut.cq_tlast.value = 1, int(ends)
            dut.cq_tdata.value = sum(cell << 32 * i for i, cell in enumerate(part))
            dut.cq_tkeep.value = (1 << len(part)) - 1
            dut.cq_tuser.value = (first | last << 4 if at == 0 else 0) | int(ends and broken) << 41
            await FallingEdge(dut.clk)
            while not int(dut.cq_tready.value):
                await FallingEdge(dut.clk)
            await RisingEdge(dut.clk)
            dut.cq_tvalid.value = 0

    async def idle(self):
        await ClockCycles(self.dut.clk, 60 + 6 * MAX_WRITE)


async def begin(dut):
    bench = Bench(dut, random.Random(cocotb.RANDOM_SEED))
    await reset(dut)
    return bench


@cocotb.test()
async def what_is_broken_off_leaves_no_trace(dut):
    """Whole writes are executed dword by dword; discontinued ones write no byte and are counted."""
    bench = await begin(dut)
    rng, expected, accesses, dropped = bench.rng, {}, [], 0
    for length in [1, 2, 3, 4, 5, 8, 12, 13, 16, MAX_WRITE, *(rng.randint(1, 40) for _ in range(60))]:
        for broken in rng.sample([False, True], 2):
            data = [rng.getrandbits(32) for _ in range(length)]
            address = 4 * rng.randrange(0, 0x2000 - length)
            first, last = rng.choice([15, 12, 1, 6]), rng.choice([15, 3, 1]) if length > 1 else 0
            await bench.request(WRITE, address, data, first=first, last=last, broken=broken)
            dropped += broken
            for i, word in enumerate([] if broken else data):
                enable = first if i == 0 else last if i == length - 1 else 15
                mask = sum(0xFF << 8 * b for b in range(4) if enable >> b & 1)
                at = address + 4 * i
                expected[at] = expected.get(at, 0) & ~mask | word & mask
                accesses.append((1, at, enable))
    await bench.idle()
    assert bench.accesses == accesses
    assert bench.words == expected
    assert bench.unsupported == dropped and not bench.answers


@cocotb.test()
async def requests_of_other_kinds(dut):
    """Reads return the data of earlier writes; unsupported requests get their status and are counted."""
    bench = await begin(dut)
    rng, want, refused = bench.rng, [], 0
    for tag in range(150):
        length = rng.randint(1, 24)
        data = [rng.getrandbits(32) for _ in range(length)]
        address = 4 * rng.randrange(0, 64)
        kind = rng.choice([READ, READ, WRITE, WRITE, IO_WRITE, FETCH_ADD, MESSAGE])
        broken = kind != READ and rng.random() < 0.3
        if kind == READ:
            await bench.request(READ, address, length=length, tag=tag)
            want.append((tag, length))
            refused += length > MAX_READ
        else:
            data = data[: 1 + (kind == FETCH_ADD)] if kind in (IO_WRITE, FETCH_ADD) else data
            await bench.request(kind, address, data, tag=tag, broken=broken)
            refused += kind != WRITE or broken
            if kind in (IO_WRITE, FETCH_ADD) and not broken:
                want.append((tag, None))
    await bench.idle()
    assert bench.unsupported == refused
    assert [tag for _, tag, _ in bench.answers] == [tag for tag, _ in want]
    for (status, _, data), (_, length) in zip(bench.answers, want, strict=True):
        if length is None:
            assert (status, data) == (UNSUPPORTED, [])
        elif length > MAX_READ:
            assert (status, data) == (ABORT, [])
        else:
            assert status == SUCCESSFUL and len(data) == length


@cocotb.test()
async def writes_longer_than_all_others_are_refused(dut):
    """Too long writes are refused; later requests find an unchanged state."""
    bench = await begin(dut)
    data = [bench.rng.getrandbits(32) for _ in range(2 * MAX_WRITE)]
    await bench.request(WRITE, 0, data)
    await bench.request(WRITE, 64, data[:9])
    await bench.request(READ, 64, length=9, tag=5)
    await bench.idle()
    assert bench.answers == [(SUCCESSFUL, 5, data[:9])]
    assert bench.unsupported == 1 and len(bench.accesses) == 18


@pytest.mark.parametrize("width", [128, 256])
def test_pcie_us_completer(width):
    simulate("pcie_us_completer", "test_pcie_us_completer", {"DATA_W": width})
