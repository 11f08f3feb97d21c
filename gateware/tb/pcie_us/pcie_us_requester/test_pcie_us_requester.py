# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_requester: shuffled tags, split completions, errors and timeouts."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from dma_model import Command, Master, Memory
from handshake import reset, wait
from pcie_block import Block
from simulate import simulate

TIMEOUT = 2000


async def begin(dut, seed: int, rate: float = 1.0):
    rng = random.Random(seed)
    cocotb.start_soon(Clock(dut.clk, 4000, "ps").start())
    for name in ("wr_valid", "rd_valid", "rd_data_ready", "rc_tvalid", "rc_tuser", "rc_tkeep", "rc_tlast"):
        getattr(dut, name).value = 0
    dut.cfg_bus_master.value = 1
    dut.cfg_max_payload.value = 1
    dut.cfg_max_read_req.value = 1
    memory = Memory()
    block = Block(dut, memory, rng, rate)
    master = Master(dut, rate, rng)
    await reset(dut)
    return rng, memory, block, master


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.6])
async def any_order_of_completions(dut, rate):
    rng, memory, _, master = await begin(dut, 21, rate)
    base = 0x5_0000_0000
    image = rng.randbytes(20_000)
    memory.write(base, image)
    asks = []
    for i in range(60):
        size = rng.choice([1, 4, 8, 32, 33, 60, 64, 256, 257, 1472, rng.randint(1, 3000)])
        asks.append(Command(base + 4 * rng.randrange(0, 4000), size, i))
    master.asks += asks
    await wait(dut, lambda: len(master.answers) == 60)
    for command, (tag, data, error) in zip(asks, master.answers, strict=True):
        at = command.addr - base
        assert (tag, error) == (command.tag, 0)
        assert data[: command.length] == image[at : at + command.length]


@cocotb.test()
async def failures_stay_where_they_are(dut):
    """Error code, bad status or timeout: only that request fails."""
    rng, memory, block, master = await begin(dut, 23)
    image = rng.randbytes(16384)
    memory.write(0, image)
    block.bad = {0x1000: 2, 0x2000: 1, 0x2800: 9}
    block.lost = {0x3000}
    starts = [0x0, 0x1000, 0x400, 0x2000, 0x2800, 0x800, 0x3000, 0xC00]
    master.asks += [Command(at, 700, i) for i, at in enumerate(starts)]
    await wait(dut, lambda: len(master.answers) == len(starts))
    words = -(-700 // master.width)
    for at, (_, data, error) in zip(starts, master.answers, strict=True):
        assert len(data) == words * master.width
        assert error == (at in (0x1000, 0x2000, 0x2800, 0x3000))
        if not error:
            assert data[:700] == image[at : at + 700]


@cocotb.test()
async def a_late_completion_reaches_no_other_request(dut):
    """A timed-out tag is reserved until its completion arrives; reads use the other tags, or fail."""
    rng, memory, block, master = await begin(dut, 27)
    size, tags = 100, 1 << len(dut.dut.i_read.tail_q) - 1
    base, asked = 0x1_0000, 0
    memory.write(base, image := rng.randbytes(0x4_0000))

    async def ask(count, late=0):
        nonlocal asked
        starts = [0x200 * (asked + i) for i in range(count)]
        asked += count
        late = {base + at for at in rng.sample(starts, late)}
        block.late |= late
        master.answers.clear()
        block.tags.clear()
        master.asks += [Command(base + at, size, i) for i, at in enumerate(starts)]
        await wait(dut, lambda: len(master.answers) == count, (4 + tags) * TIMEOUT)
        for i, (at, (tag, data, error)) in enumerate(zip(starts, master.answers, strict=True)):
            assert (tag, error) == (i, base + at in late)
            if not error:
                assert data[:size] == image[at : at + size]

    async def come_late():
        block.late.clear()
        await wait(dut, lambda: not block.waiting)

    # Some tags time out; the others are reused (the block reports a tag used twice).
    lost = tags // 2 + 1
    await ask(tags + 3, late=lost)
    await ask(2 * tags)
    assert len(block.tags) == tags - lost
    # The late completions arrive between others; then all tags are in use again.
    block.late.clear()
    await ask(tags)
    await wait(dut, lambda: not block.waiting)
    await ask(tags)
    assert len(block.tags) == tags
    # All tags time out: reads fail at once, and recover after the completions.
    await ask(tags, late=tags)
    master.answers.clear()
    block.tags.clear()
    master.asks += [Command(base, size, 1), Command(base, 700, 2)]
    await wait(dut, lambda: len(master.answers) == 2, 500)
    assert [(tag, error) for tag, _, error in master.answers] == [(1, 1), (2, 1)] and not block.tags
    await come_late()
    await ask(2 * tags)
    assert len(block.tags) == tags


@cocotb.test()
async def reads_follow_writes(dut):
    """A read requested after a write's completion follows it on the link."""
    rng, _, block, master = await begin(dut, 24, 0.7)
    for i in range(12):
        at = 0x100 * i
        master.writes.append((Command(at, 200, i), rng.randbytes(200)))
        await wait(dut, lambda i=i: len(master.done) == i + 1)
        master.asks.append(Command(at, 200, i))
    await wait(dut, lambda: len(master.answers) == 12)
    for i in range(12):
        places = {
            kind: max(k for k, o in enumerate(block.order) if o[0] == kind and o[1] // 0x100 == i)
            for kind in ("write", "read")
        }
        assert places["write"] < places["read"]


@cocotb.test()
async def reads_that_wait_for_the_block_have_their_credit(dut):
    """The block stalls: the queue holds no more reads than it has credit for."""
    _, _, block, master = await begin(dut, 29)
    block.credit, block.rate = 2, 0.0
    master.asks += [Command(0x1000 + 0x100 * i, 64, i) for i in range(6)]
    await ClockCycles(dut.clk, 200)
    block.rate = 1.0
    await ClockCycles(dut.clk, 60)
    assert len(block.order) == 2 and block.credit == 0
    block.credit = 15
    await wait(dut, lambda: len(master.answers) == 6)


@cocotb.test()
async def credits_hold_reads_but_not_writes(dut):
    rng, memory, block, master = await begin(dut, 25)
    block.credit = 0
    for _ in range(30):
        await RisingEdge(dut.clk)
    master.asks += [Command(0x2000 + 256 * i, 256, i) for i in range(8)]
    for _ in range(50):
        await RisingEdge(dut.clk)
    data = rng.randbytes(1000)
    master.writes.append((Command(0x9000, 1000, 1), data))
    await wait(dut, lambda: memory.read(0x9000, 1000) == data)
    assert not [o for o in block.order if o[0] == "read"]
    given = 0
    while len(master.answers) < 8:
        if block.credit == 0:
            block.credit, given = 1, given + 1
        assert given <= 17
        for _ in range(60):
            await RisingEdge(dut.clk)


@pytest.mark.parametrize(("width", "tags", "read"), [(128, 4, 128), (256, 32, 256)])
def test_pcie_us_requester(width, tags, read):
    parameters = {"DATA_W": width, "TAGS": tags, "MAX_READ": read, "TIMEOUT": TIMEOUT}
    simulate("pcie_us_requester", "test_pcie_us_requester", parameters)
