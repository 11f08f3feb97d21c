# SPDX-License-Identifier: SHL-2.1
"""Bench of mgp_check against tests/reference_mgp.py, a Python implementation of docs/formats.md."""

import random
from collections import Counter

import cocotb
import reference_mgp
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from handshake import Source, reset, start_clock
from mgp import REFUSALS, broken, marker, packet
from simulate import simulate

MAX_FRAMES = 751_500


def rules(boards=0xF, max_payload=1472, source=0x1C, max_frames=MAX_FRAMES):
    return ((source << 4 | boards) << 16 | max_payload) << 25 | max_frames


def words(data):
    out = []
    parts = [data[at : at + 8] for at in range(0, len(data), 8)] or [b""]
    for number, part in enumerate(parts):
        out.append(
            {
                "data": int.from_bytes(part, "little"),
                "bytes": len(part),
                "first": int(number == 0),
                "last": int(number == len(parts) - 1),
                "info": len(data) << 32,
                "verdict": 0,
            }
        )
    return out


async def start(dut):
    start_clock(dut)
    dut.rules.value = rules()
    got = []

    async def monitor():
        data = b""
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.out_valid.value):
                if int(dut.out_first.value):
                    data = b""
                    length = int(dut.out_info.value) >> 32 & 0xFFFF
                data += int(dut.out_data.value).to_bytes(8, "little")[: int(dut.out_bytes.value)]
                if int(dut.out_last.value):
                    assert len(data) == length
                    got.append((data, REFUSALS[int(dut.out_refusal.value)], int(dut.out_hits.value)))

    cocotb.start_soon(monitor())
    await reset(dut)
    return got


def hits_of(data):
    at, hits = 16, 0
    for _ in range(data[6]):
        hits += data[at + 5]
        at += 72 if data[3] & reference_mgp.FIXED else 8 + 2 * data[at + 5]
    return hits


async def run(dut, got, packets, rate, rng, **configured):
    fields = ["data", "bytes", "first", "last", "info", "verdict"]
    source = Source(dut, "in", fields, rate=rate, rng=rng, ready=False)
    for data in packets:
        source.put(words(data))
    await source.drained()
    await ClockCycles(dut.clk, 20)
    source.stop()
    assert len(got) == len(packets)
    seen = Counter()
    for data, (passed, refusal, hits) in zip(packets, got, strict=True):
        want = reference_mgp.refusal(data, **configured)
        seen[want] += 1
        assert passed == data
        assert refusal == want, f"{refusal} for {want}: {data.hex()}"
        if want is None and not data[3] & (reference_mgp.SOB | reference_mgp.EOB):
            assert hits == hits_of(data)
    got.clear()
    return seen


@cocotb.test()
async def every_refusal_by_name(dut):
    got = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    seen = Counter()
    for rate in (1.0, 0.6):
        packets = [broken(rng, board=rng.choice([0, 1, 2, 3])) for _ in range(1500)]
        packets += [packet(rng, events=40, room=1480, frame=5) for _ in range(20)]
        packets += [packet(rng, frame=MAX_FRAMES), packet(rng, board=3, events=12)]
        seen += await run(dut, got, packets, rate, rng)
    missing = [name for name in REFUSALS[:16] if not seen[name]]
    assert not missing, f"did not occur: {missing}"


@cocotb.test()
async def sound_packets_of_every_shape(dut):
    got = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    packets = []
    for hits in range(0, 33):  # events that begin in every lane, of every size
        packets += [packet(rng, events=6, hits=hits, board=hits % 4, room=1400) for _ in range(4)]
    packets += [packet(rng, events=16, flags=reference_mgp.FIXED, board=b) for b in range(4)]
    packets += [packet(rng, events=0), marker(1, reference_mgp.SOB), marker(2, reference_mgp.EOB, 9, 7)]
    packets += [packet(rng, events=180, hits=0)]
    seen = await run(dut, got, packets, 1.0, rng)
    assert set(seen) == {None}


@cocotb.test()
async def other_rules(dut):
    got = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    dut.rules.value = rules(boards=0, max_payload=8972)
    packets = [packet(rng, board=0xFF, events=255, room=8972) for _ in range(4)]
    packets += [broken(rng, board=0xFF) for _ in range(200)] + [broken(rng, board=1) for _ in range(20)]
    await run(dut, got, packets, 1.0, rng, boards=0, max_payload=8972)
    dut.rules.value = rules(boards=0b0101, source=0x1D)
    packets = [broken(rng, board=rng.randrange(4)) for _ in range(200)]
    packets = [bytes([rng.choice([0x1C, 0x1D])]) + data[1:] for data in packets]
    await run(dut, got, packets, 1.0, rng, boards=0b0101, source=0x1D)


@cocotb.test()
async def frames_up_to_the_last_that_a_header_can_name(dut):
    got = await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    packets = [packet(rng, events=0, frame=frame) for frame in (0, 0x7FFFFF, 0x800000, 0xFFFFFE, 0xFFFFFF)]
    for most in (1 << 24, (1 << 24) - 1, 1):
        dut.rules.value = rules(max_frames=most)
        seen = await run(dut, got, packets, 1.0, rng, max_frames=most)
        assert seen["frame_beyond_spill"] == sum(
            frame >= most for frame in (0, 0x7FFFFF, 0x800000, 0xFFFFFE, 0xFFFFFF)
        )


def test_mgp_check():
    simulate("mgp_check", "test_mgp_check")
