# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_controller: header, payload, footer and CRC; whole datagrams dropped on overflow."""

import random

import cocotb
from apenet import Datagram, packets, without_unsettled
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import Source, reset, start_clock
from simulate import simulate

WORDS = 1024


async def start(dut):
    start_clock(dut)
    dut.now.value = 0
    dut.buffer_level.value = 0
    got, drops = [], []

    async def monitor():
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.out_valid.value):
                got.append((int(dut.out_kind.value), int(dut.out_data.value)))
            if int(dut.overflow.value):
                drops.append(1)

    cocotb.start_soon(monitor())
    await reset(dut)
    fields = ["data", "bytes", "first", "last", "info", "verdict", "refusal", "hits"]
    return got, drops, lambda rate, rng: Source(dut, "in", fields, rate=rate, rng=rng, ready=False)


def same(got, want):
    assert len(got) == len(want)
    for (kind, word), (other_kind, other) in zip(got, want, strict=True):
        assert kind == other_kind
        assert without_unsettled(kind, word) == other, f"{kind}: {word:x} for {other:x}"


@cocotb.test()
async def every_length(dut):
    got, drops, source_at = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    number = 0
    for rate in (1.0, 0.5):
        lengths = [*range(0, 70), *range(4080, 4115), 1472, 8191, 8192, 8193, 8972]
        want, source = [], source_at(rate, rng)
        for length in lengths:
            one = Datagram(
                rng.randbytes(length),
                rng.randrange(4),
                rng.getrandbits(32),
                rng.getrandbits(16),
                rng.getrandbits(32),
                rng.choice([0, 0, 4]),
                rng.choice([17, 17, 3]),
                rng.getrandbits(16),
            )
            want += packets(one, number)
            number += max(1, -(-length // 4096))
            source.put(one.words())
            await source.drained()
            await ClockCycles(dut.clk, 6)  # headers of the next frame
        await ClockCycles(dut.clk, 20)
        source.stop()
        same(got, want)
        got.clear()
    assert not drops


@cocotb.test()
async def line_rate_of_the_longest_frames(dut):
    """8972 B every 1129.75 cycles: 10 GbE with preamble and gap."""
    got, drops, source_at = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    source, want = source_at(1.0, rng), []
    frames = [Datagram(rng.randbytes(8972)) for _ in range(8)]
    for number, one in enumerate(frames):
        want += packets(one, 3 * number)
        source.put(one.words())
        await source.drained()
        for _ in range(1129 - len(one.words())):
            await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 30)
    same(got, want)
    assert not drops


@cocotb.test()
async def drops_whole_datagrams(dut):
    got, drops, source_at = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    source, want, dropped, number = source_at(1.0, rng), [], 0, 0
    for length in (100, 1472, 8972, 64, 16, 4096, 5000):
        words = sum(1 for _ in packets(Datagram(bytes(length)), 0))
        for spare in (-10, 20):
            dut.buffer_level.value = max(0, min(WORDS, WORDS - words - spare))
            await ClockCycles(dut.clk, 4)
            one = Datagram(rng.randbytes(length), verdict=rng.choice([0, 4]))
            if spare > 0:
                want += packets(one, number)
                number += -(-length // 4096)
            else:
                dropped += one.verdict == 0
            source.put(one.words())
            await source.drained()
            await ClockCycles(dut.clk, 8)
    await ClockCycles(dut.clk, 30)
    same(got, want)
    assert len(drops) == dropped


def test_nanet_controller():
    simulate("nanet_controller", "test_nanet_controller", {"BUFFER_WORDS": WORDS})
