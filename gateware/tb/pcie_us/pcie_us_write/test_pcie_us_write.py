# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_write: exact bytes in memory for all sizes, limits and pauses."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import Command, Master, Memory
from handshake import reset, wait
from pcie_block import Block
from simulate import simulate


class Queue(Block):
    """Model of the requester's queue for writes."""

    cycle = 0

    async def _take(self) -> None:
        dut, words, enables = self.dut, [], None
        self.ends: list[int] = []  # cycles of each TLP's last beat
        while True:
            willing = self.rng.random() < self.rate
            dut.tlp_ready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            if willing and int(dut.tlp_valid.value):
                keep, data, last = (int(getattr(dut, f"tlp_{n}").value) for n in ("keep", "data", "last"))
                count = keep.bit_count()
                assert keep == (1 << count) - 1 and (last or count == self.lanes)
                words += [data >> 32 * i & 0xFFFF_FFFF for i in range(count)]
                enables = enables or (int(dut.tlp_first_be.value), int(dut.tlp_last_be.value))
                if last:
                    # The requester takes these from a TLP's first beat, when the last beat's are undefined.
                    self.tlp(words, *enables)
                    self.ends.append(self.cycle)
                    words, enables = [], None
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def _answer(self) -> None:
        pass

    def beat(self):
        return self.dut.tlp_data


async def begin(dut, rng: random.Random, rate: float, queue_rate: float):
    cocotb.start_soon(Clock(dut.clk, 4000, "ps").start())
    dut.wr_valid.value = dut.tlp_ready.value = 0
    dut.bus_master.value, dut.max_payload.value = 1, 1
    memory = Memory()
    queue = Queue(dut, memory, rng, queue_rate)
    master = Master(dut, rate, rng, read=False)
    await reset(dut)
    return memory, queue, master


def end(memory, queue, master) -> None:
    for task in (*queue.tasks, *master.tasks):
        task.cancel()


@cocotb.test()
@cocotb.parametrize((("rate", "queue_rate"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.5)]))
async def every_byte_where_it_belongs(dut, rate, queue_rate):
    rng = random.Random(cocotb.RANDOM_SEED)
    memory, queue, master = await begin(dut, rng, rate, queue_rate)
    image, base = bytearray(1 << 17), 0x3_FFFF_0000  # the address's upper half changes within it
    for limit in (0, 1, 3):
        dut.max_payload.value = limit
        await ClockCycles(dut.clk, 3)
        done, first = len(master.done), len(queue.order)
        for i in range(50):
            size = rng.choice([1, 3, 4, 30, 32, 33, 64, 250, 256, rng.randint(1, 900)])
            at = 4 * rng.randrange(0, (1 << 17) // 4 - 256)
            data = rng.randbytes(size)
            image[at : at + size] = data
            master.writes.append((Command(base + at, size, i), data))
        await wait(dut, lambda done=done: len(master.done) == done + 50)
        assert master.done[done:] == [(i, 0) for i in range(50)]
        assert all(at % (128 << limit) + 4 * length <= 128 << limit for _, at, length in queue.order[first:])
    assert memory.read(base, 1 << 17) == image
    end(memory, queue, master)
    await RisingEdge(dut.clk)


@cocotb.test()
async def swallowed_without_bus_mastering(dut):
    """Without bus mastering: completed in order with an error, nothing sent; other writes are sent."""
    rng = random.Random(cocotb.RANDOM_SEED)
    memory, queue, master = await begin(dut, rng, 1.0, 1.0)
    for i in range(12):
        on = i % 3 != 1
        dut.bus_master.value = int(on)
        await ClockCycles(dut.clk, 2)
        size = rng.choice([4, 32, 100, 700])
        data, before = rng.randbytes(size), len(queue.order)
        master.writes.append((Command(0x1000 * i, size, i), data))
        await wait(dut, lambda i=i: len(master.done) == i + 1)
        await ClockCycles(dut.clk, 4)
        assert master.done[i] == (i, int(not on))
        assert memory.read(0x1000 * i, size) == (data if on else bytes(size))
        assert bool(queue.order[before:]) == on
    end(memory, queue, master)
    await RisingEdge(dut.clk)


@cocotb.test()
async def a_write_of_256_bytes_every_nine_cycles(dut):
    """Nine beats of 256 bits or seventeen of 128, one per cycle."""
    rng = random.Random(cocotb.RANDOM_SEED)
    _, queue, master = await begin(dut, rng, 1.0, 1.0)
    master.writes += [(Command(0x100 * i, 256, i), rng.randbytes(256)) for i in range(20)]
    await wait(dut, lambda: len(master.done) == 20)
    gaps = [after - one for one, after in zip(queue.ends, queue.ends[1:], strict=False)]
    assert set(gaps[4:]) == {9 if queue.lanes == 8 else 17}


@pytest.mark.parametrize("width", [128, 256])
def test_pcie_us_write(width):
    simulate("pcie_us_write", "test_pcie_us_write", {"DATA_W": width})
