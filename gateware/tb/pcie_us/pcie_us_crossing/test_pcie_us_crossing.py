# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_crossing: writes, responses and registers between two clocks, in order, each once."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer
from dma_model import Command, Master, Memory, MemorySlave
from simulate import simulate

ADDR_W = 8
CLOCKS = ((6400, 4000), (4000, 8000), (4000, 19_998))  # periods of card and block in ps


class Side:
    """The block's side for the bench helpers; its clock is `clk`."""

    def __init__(self, dut, clk):
        self._dut, self.clk = dut, clk

    def __getattr__(self, name: str):
        return getattr(self._dut, name)


class Registers:
    """The card's registers, with delays."""

    def __init__(self, dut, rng: random.Random, wait: int):
        self.dut, self.rng, self.wait = dut, rng, wait
        self.values: dict[int, int] = {}
        self.accesses: list[tuple] = []
        self.unsupported = 0
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, left = self.dut, None
        while True:
            await FallingEdge(dut.clk)
            answers = False
            if int(dut.reg_request.value):
                left = self.rng.randint(0, self.wait) if left is None else left
                answers = left == 0
                left = None if answers else left - 1
            at = int(dut.reg_addr.value)
            dut.reg_acknowledge.value = int(answers)
            dut.reg_rdata.value = self.values.get(at, 0) if answers else self.rng.getrandbits(32)
            await ReadOnly()
            if answers:
                write, data = int(dut.reg_write.value), int(dut.reg_wdata.value)
                access = (write, int(dut.reg_bar.value), at, int(dut.reg_enable.value), data if write else 0)
                self.accesses.append(access)
                if write:
                    self.values[at] = data
            self.unsupported += int(dut.unsupported.value)
            await RisingEdge(dut.clk)


async def begin(dut, periods: tuple[int, int], rng: random.Random, rate: float = 1.0, wait: int = 0):
    dut.clear.value = dut.block_clear.value = dut.block_rst.value = 1
    for name in ("wr_valid", "rd_valid", "rd_data_ready", "reg_acknowledge", "block_bus_master"):
        getattr(dut, name).value = 0
    for name in ("wr_ready", "rd_ready", "rd_data_valid", "wr_done_valid", "reg_request", "unsupported"):
        getattr(dut, f"block_{name}").value = 0
    for clock, period in ((dut.clk, periods[0]), (dut.block_clk, periods[1])):
        cocotb.start_soon(Clock(clock, period, "ps").start())
    await Timer(8 * max(periods), "ps")
    dut.clear.value = dut.block_clear.value = dut.block_rst.value = 0
    await Timer(4 * max(periods), "ps")
    memory = Memory()
    # Each side begins after an edge of its clock.
    await RisingEdge(dut.block_clk)
    block = MemorySlave(Side(dut, dut.block_clk), memory, "block_", rate, (1, 12), rng)
    await RisingEdge(dut.clk)
    return memory, block, Master(dut, rate, rng), Registers(dut, rng, wait)


def end(block, master, registers) -> None:
    block.stop()
    for task in (*master.tasks, registers.task):
        task.cancel()


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS, rate=(1.0, 0.5))
async def memory_as_if_there_were_one_clock(dut, clocks, rate):
    """Random writes and reads: completed writes are in memory; data, tags and errors match."""
    rng = random.Random(cocotb.RANDOM_SEED)
    both = clocks if int(dut.CLOCKS.value) else (clocks[0], clocks[0])
    memory, block, master, registers = await begin(dut, both, rng, rate)
    block.error = lambda command: command.addr % 64 == 4
    writes = []
    for i in range(40):
        size = rng.choice([1, 32, 33, rng.randint(1, 300)])
        writes.append((Command(0x400 * i, size, i), rng.randbytes(size)))
    master.writes += writes
    seen = 0
    for _ in range(20_000):
        await RisingEdge(dut.clk)
        for tag, error in master.done[seen:]:
            assert (tag, error) == (seen, 0)
            command, data = writes[seen]
            assert memory.read(command.addr, command.length) == data, "write completion before the write"
            seen += 1
        if seen == len(writes):
            break
    assert seen == len(writes)
    asks = [Command(command.addr + 4 * (i % 2), len(data), i) for i, (command, data) in enumerate(writes)]
    master.asks += asks
    for _ in range(20_000):
        await RisingEdge(dut.clk)
        if len(master.answers) == len(asks):
            break
    for command, (tag, data, error) in zip(asks, master.answers, strict=True):
        assert (tag, error) == (command.tag, command.addr % 64 == 4)
        assert data[: command.length] == memory.read(command.addr, command.length)
    end(block, master, registers)
    await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def registers_in_order(dut, clocks):
    """A write is acknowledged once forwarded; a read waits for its value, behind all earlier writes."""
    rng = random.Random(cocotb.RANDOM_SEED)
    both = clocks if int(dut.CLOCKS.value) else (clocks[0], clocks[0])
    _, block, master, registers = await begin(dut, both, rng, wait=3)
    values, accesses = {}, []
    await RisingEdge(dut.block_clk)
    for _ in range(120):
        write, at, data = int(rng.random() < 0.7), 4 * rng.randrange(8), rng.getrandbits(32)
        bar, enable = rng.randrange(6), rng.randint(1, 15)
        dut.block_reg_write.value, dut.block_reg_bar.value, dut.block_reg_addr.value = write, bar, at
        dut.block_reg_wdata.value, dut.block_reg_enable.value = data, enable
        dut.block_reg_request.value = 1
        for _ in range(200):
            await FallingEdge(dut.block_clk)
            await ReadOnly()
            acknowledged, value = int(dut.block_reg_acknowledge.value), int(dut.block_reg_rdata.value)
            await RisingEdge(dut.block_clk)
            if acknowledged:
                break
        assert acknowledged
        dut.block_reg_request.value = 0
        accesses.append((write, bar, at, enable, data if write else 0))
        if write:
            values[at] = data
        else:
            assert value == values.get(at, 0)
            assert registers.accesses == accesses
        for _ in range(rng.choice([0, 0, 3])):
            await RisingEdge(dut.block_clk)
    await Timer(80 * max(both), "ps")
    assert registers.accesses == accesses
    end(block, master, registers)
    await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def pulses_are_all_counted(dut, clocks):
    """Pulses of unsupported requests at any rate are all counted; the bus-master state crosses."""
    rng = random.Random(cocotb.RANDOM_SEED)
    both = clocks if int(dut.CLOCKS.value) else (clocks[0], clocks[0])
    _, block, master, registers = await begin(dut, both, rng)
    pulses = 0
    await RisingEdge(dut.block_clk)
    for _ in range(100):
        pulse = int(rng.random() < 0.7)
        pulses += pulse
        dut.block_unsupported.value = pulse
        await RisingEdge(dut.block_clk)
    dut.block_unsupported.value = 0
    await Timer(200 * max(both), "ps")
    assert registers.unsupported == pulses
    for on in (1, 0):
        dut.block_bus_master.value = on
        await Timer(4 * max(both), "ps")
        assert int(dut.bus_master.value) == on
    end(block, master, registers)
    await RisingEdge(dut.clk)


@pytest.mark.parametrize(("clocks", "width"), [(0, 256), (1, 128), (1, 256)])
def test_pcie_us_crossing(clocks, width):
    parameters = {"CLOCKS": clocks, "DATA_W": width, "ADDR_W": ADDR_W}
    simulate("pcie_us_crossing", "test_pcie_us_crossing", parameters)
