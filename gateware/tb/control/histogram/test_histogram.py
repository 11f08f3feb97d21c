# SPDX-License-Identifier: SHL-2.1
"""Bench of histogram: bins, sample rate, saturation, concurrent reads, clearing."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from handshake import reset, start_clock
from simulate import simulate


def bin_of(sample, bins):
    """Below 16: one cycle wide; above: eight bins per octave."""
    if sample < 16:
        return sample
    octave = sample.bit_length() - 4
    return min(octave * 8 + (sample >> octave), bins - 1)


class Bench:
    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.bins = 1 << len(dut.read_bin)
        self.counts = [0] * self.bins

    async def start(self):
        start_clock(self.dut)
        self.dut.clear.value = self.dut.read.value = 0
        await reset(self.dut)
        await ClockCycles(self.dut.clk, self.bins + 1)

    def sample(self):
        width = self.rng.randrange(33)
        return self.rng.getrandbits(width) if width else 0

    async def give(self, sample):
        """Apply a sample for one cycle."""
        self.dut.sample_valid.value, self.dut.sample.value = 1, sample
        self.counts[bin_of(sample, self.bins)] += 1
        await RisingEdge(self.dut.clk)
        self.dut.sample_valid.value = 0

    async def read(self, index, limit=3):
        """Read a count; return it and the read's cycles."""
        self.dut.read.value, self.dut.read_bin.value = 1, index
        for cycles in range(limit + 1):
            await FallingEdge(self.dut.clk)
            if int(self.dut.read_valid.value):
                count = int(self.dut.read_count.value)
                await RisingEdge(self.dut.clk)
                return count, cycles
            await RisingEdge(self.dut.clk)
            self.dut.read.value, self.dut.read_bin.value = 0, self.rng.randrange(self.bins)
        raise AssertionError(f"no count within {limit} cycles")

    async def compare(self):
        await ClockCycles(self.dut.clk, 8)
        for index in range(self.bins):
            assert await self.read(index) == (self.counts[index], 3), f"bin {index}"


@cocotb.test()
async def every_sample_is_in_its_bin(dut):
    bench = Bench(dut)
    await bench.start()
    edges = [1 << e for e in range(32)]
    samples = [*range(40), *edges, *(edge - 1 for edge in edges), (1 << 32) - 1]
    samples += [bench.sample() for _ in range(200)]
    for at in range(0, len(samples), 2):
        if bench.rng.random() < 0.5:  # one every four cycles, or two in a row and a pause
            for sample in samples[at : at + 2]:
                await bench.give(sample)
                await ClockCycles(dut.clk, 3)
        else:
            await ClockCycles(dut.clk, 8)
            for sample in samples[at : at + 2]:
                await bench.give(sample)
            await ClockCycles(dut.clk, 7)
    await bench.compare()
    assert sum(bench.counts) == len(samples)


@cocotb.test()
async def reads_wait_for_samples_only(dut):
    """One bin at the maximum sample rate: a concurrent read includes all samples stored before it."""
    bench = Bench(dut)
    await bench.start()
    for number in range(60):
        await bench.give(5)
        await ClockCycles(dut.clk, number % 3)
        count, cycles = await bench.read(5, limit=12)
        assert number <= count <= number + 1 and cycles <= 3 + 7
        if number % 2:
            await ClockCycles(dut.clk, 6)
    await bench.compare()


@cocotb.test()
async def a_sample_is_stored_after_seven_cycles(dut):
    bench = Bench(dut)
    await bench.start()
    for number in range(10):
        await bench.give(100)
        await ClockCycles(dut.clk, 6)  # the seventh cycle belongs to the read
        assert await bench.read(bin_of(100, bench.bins)) == (number + 1, 3)


@cocotb.test()
async def counts_saturate(dut):
    bench = Bench(dut)
    await bench.start()
    dut.mem[3].value = (1 << 32) - 2
    for _ in range(3):
        await bench.give(3)
        await ClockCycles(dut.clk, 3)
    bench.counts[3] = (1 << 32) - 1
    await bench.compare()


@cocotb.test()
async def clearing_takes_a_cycle_for_each_bin(dut):
    bench = Bench(dut)
    await bench.start()
    for _ in range(50):
        await bench.give(bench.sample())
        await ClockCycles(dut.clk, 3)
    dut.clear.value = 1
    await RisingEdge(dut.clk)
    dut.clear.value = 0
    await ClockCycles(dut.clk, bench.bins - 4)
    bench.counts = [0] * bench.bins
    await bench.give(7)  # lost: two cycles before the end of the read
    bench.counts[7] = 0
    assert (await bench.read(7, limit=12))[0] == 0
    await bench.give(9)
    await bench.compare()


@pytest.mark.parametrize("bins", [32, 128])
def test_histogram(bins):
    simulate("histogram", "test_histogram", {"BINS": bins})
