# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_read: responses in request order, assembled from completions in any order and size."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import Command, Master, Memory
from handshake import reset, wait
from pcie_block import Block
from simulate import simulate

TIMEOUT = 600


class Host(Block):
    """Accepts read TLPs like the requester's queue and responds as the block."""

    cycle = 0
    last_beat = asked = 0  # cycle of the newest completion's last beat, and of the newest request

    def beat(self):
        return self.dut.rc_tdata

    async def _take(self) -> None:
        dut = self.dut
        self.shown: list[int] = []  # cycle of each TLP's first offer
        self.words: list[int] = []  # cycle of each accepted response word
        waits, before = False, 0
        while True:
            willing = self.rng.random() < self.rate
            dut.tlp_ready.value = int(willing)
            allowed = self.credit is None or self.credit > 0
            dut.may_send.value = int(allowed)
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.tlp_valid.value):
                if not waits:
                    assert before, "a read TLP without credit"
                    self.shown.append(self.cycle)
                waits = not willing
                if willing:
                    head = int(dut.tlp_descriptor.value)
                    words = [head >> 32 * i & 0xFFFF_FFFF for i in range(4)]
                    self.tlp(words, int(dut.tlp_first_be.value), int(dut.tlp_last_be.value))
            if int(dut.rc_tvalid.value) and int(dut.rc_tlast.value):
                self.last_beat = self.cycle
            if int(dut.rd_valid.value) and int(dut.rd_ready.value):
                self.asked = self.cycle
            if int(dut.rd_data_valid.value) and int(dut.rd_data_ready.value):
                self.words.append(self.cycle)
            before = allowed
            await RisingEdge(dut.clk)
            self.cycle += 1


async def begin(dut, rng: random.Random, rate: float = 1.0, host_rate: float = 1.0):
    cocotb.start_soon(Clock(dut.clk, 4000, "ps").start())
    for name in ("rd_valid", "rd_data_ready", "rc_tvalid", "rc_tlast", "rc_discontinue", "tlp_ready"):
        getattr(dut, name).value = 0
    dut.bus_master.value, dut.max_read.value, dut.may_send.value = 1, 2, 1
    memory = Memory()
    host = Host(dut, memory, rng, host_rate)
    master = Master(dut, rate, rng, write=False)
    await reset(dut)
    return memory, host, master


@cocotb.test()
@cocotb.parametrize((("rate", "host_rate"), [(1.0, 1.0), (0.5, 0.6)]))
async def answers_in_order(dut, rate, host_rate):
    rng = random.Random(cocotb.RANDOM_SEED)
    memory, host, master = await begin(dut, rng, rate, host_rate)
    base = 0x5_0000_0000
    image = rng.randbytes(8192)
    memory.write(base, image)
    for limit in (0, 1):
        dut.max_read.value = limit
        await ClockCycles(dut.clk, 4)
        first, got = len(host.order), len(master.answers)
        asks = [
            Command(base + 4 * rng.randrange(0, 1400), rng.choice([1, 4, 8, 33, 256, rng.randint(1, 900)]), i)
            for i in range(30)
        ]
        master.asks += asks
        await wait(dut, lambda got=got: len(master.answers) == got + 30)
        for command, (tag, data, error) in zip(asks, master.answers[got:], strict=True):
            at = command.addr - base
            assert (tag, error) == (command.tag, 0)
            assert len(data) == -(-command.length // master.width) * master.width
            assert data[: command.length] == image[at : at + command.length]
        size = min(128 << limit, int(dut.MAX_READ.value))
        assert all(at % size + 4 * length <= size for _, at, length in host.order[first:])
    for task in (*host.tasks, *master.tasks):
        task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def failures_stay_where_they_are(dut):
    """Error code, bad status, too few dwords, timeout, bus mastering off: only that request fails."""
    rng = random.Random(cocotb.RANDOM_SEED)
    memory, host, master = await begin(dut, rng)
    image = rng.randbytes(16384)
    memory.write(0, image)
    host.bad = {0x1000: 2, 0x2000: 1}
    host.lost, host.short = {0x3000}, {0x2800}
    starts = [0x0, 0x1000, 0x400, 0x2000, 0x2800, 0x800, 0x3000, 0xC00]
    master.asks += [Command(at, 300, i) for i, at in enumerate(starts)]
    await wait(dut, lambda: len(master.answers) == len(starts))
    dut.bus_master.value = 0
    await ClockCycles(dut.clk, 3)
    sent = len(host.order)
    master.asks.append(Command(0x100, 300, 9))
    await wait(dut, lambda: len(master.answers) == len(starts) + 1)
    assert len(host.order) == sent
    for at, (_, data, error) in zip([*starts, None], master.answers, strict=True):
        assert len(data) == -(-300 // master.width) * master.width
        assert error == (at in (0x1000, 0x2000, 0x2800, 0x3000, None))
        assert error or data[:300] == image[at : at + 300]
    for task in (*host.tasks, *master.tasks):
        task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def no_more_than_it_may(dut):
    """No TLP without credit, and no more in flight than tags; each freed tag allows one."""
    rng = random.Random(cocotb.RANDOM_SEED)
    _, host, master = await begin(dut, rng)
    host.credit = 0
    await ClockCycles(dut.clk, 4)
    tags = int(dut.TAGS.value)
    master.asks += [Command(0x1000 * i, 4, i) for i in range(2 * tags)]
    await ClockCycles(dut.clk, 40)
    assert not host.order
    host.held, host.credit = True, 10_000
    await ClockCycles(dut.clk, 20 * tags)
    assert len(host.order) == tags
    host.held = False
    await wait(dut, lambda: len(master.answers) == 2 * tags)
    assert [answer[0] for answer in master.answers] == list(range(2 * tags))
    for task in (*host.tasks, *master.tasks):
        task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def takes_the_documented_cycles(dut):
    """Latency: request to TLP 3, plus 3 in the requester's queue; last completion beat to first word 13."""
    rng = random.Random(cocotb.RANDOM_SEED)
    _, host, master = await begin(dut, rng)
    for i, size in enumerate((4, 32, 100)):
        shown = len(host.shown)
        master.asks.append(Command(0x200 * i, size, i))
        await wait(dut, lambda i=i: len(master.answers) == i + 1)
        assert host.shown[shown] - host.asked == 3
        assert host.words[0] - host.last_beat == 13
        host.words.clear()


@pytest.mark.parametrize(("width", "tags", "read"), [(128, 4, 128), (256, 8, 256)])
def test_pcie_us_read(width, tags, read):
    parameters = {"DATA_W": width, "TAGS": tags, "MAX_READ": read, "TIMEOUT": TIMEOUT}
    simulate("pcie_us_read", "test_pcie_us_read", parameters)
