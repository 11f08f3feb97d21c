# SPDX-License-Identifier: SHL-2.1
"""Bench of clop in gather mode `frame`: requests, answers, owed numbers, notices, against clop_model.py."""

import random
from collections import Counter
from pathlib import Path

import cocotb
import mgp
import pytest
import reference_mgp
from clop_driver import BUFFERS, CHANNELS, ENDS, FIRST_N, PACES, Bench, Pace
from clop_traffic import hostile, traffic
from cocotb.triggers import ClockCycles
from handshake import wait
from simulate import simulate


def late(rng, packets, loss, times=0.1):
    """Lose some packets, duplicate some, and delay others."""
    out = []
    for position, data in enumerate(packets):
        if rng.random() >= loss:
            out.append((position + rng.random() * rng.choice([0, 0, 6, 60]), data))
        if rng.random() < times:
            out.append((position + rng.random() * 60, data))
    return [data for _, data in sorted(out, key=lambda item: item[0])]


@cocotb.test(timeout_time=40, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def bursts_on_two_channels(dut, pace):
    """Packets on either channel: addresses, frame order, write fences, overruns, burst ends."""
    pace = PACES[pace]
    bench = Bench(dut, pace)
    await bench.start(sob=False)
    for burst in (254, 255, 0):
        sequences = [1, 1, 1, 1]
        await bench.begin(burst)
        packets = traffic(bench.rng, 24, 0, sequences, room=(40, 300, 900), burst=burst)
        bench.put(late(bench.rng, packets, pace.loss))
        await bench.quiet()
        await bench.end(burst, 23, sequences)
    await bench.begin(1)  # closes the frames that the last burst left open
    bench.put([mgp.marker(board, reference_mgp.SOB, burst=2) for board in range(2)])
    await ClockCycles(dut.clk, pace.timeout + 300)
    await bench.quiet()
    bench.compare()
    counts = Counter(name for name, _, _ in bench.names)
    assert counts["used"] and counts["late"] + counts["duplicate"] + counts["overrun"], counts
    if pace.timeout:
        assert any(notice.timed_out for notice in bench.notices)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def hostile_traffic_on_one_channel(dut):
    """All slow-path cases: bad packets, duplicates, replays, other bursts, jumps, late packets, restarts."""
    bench = Bench(dut, Pace(rest=20))
    await bench.start(sob=False)
    bench.put(hostile(random.Random(cocotb.RANDOM_SEED)), 0)
    await bench.quiet()
    counts = Counter(name for name, _, _ in bench.names)
    for name in ("used", "late", "duplicate", "replayed", "overflow", "marker", "jump"):
        assert counts[name], f"{name} did not occur: {counts}"
    bench.compare(all_closed=False)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def answer_latency_and_throughput(dut):
    """Latency and throughput: 7 cycles, 8 with the next frame opened, then 5 per packet, 6 with a frame."""
    bench = Bench(dut, Pace(returned=(1, 1)))
    await bench.start()
    sequence = 1

    async def one(board, frame):
        nonlocal sequence
        bench.took.clear()
        bench.put([mgp.packet(bench.rng, board, frame, sequence, 0, True, 0)], 0)
        await bench.quiet()
        return bench.took[-1]

    for frame in range(3):
        took = [await one(board, frame) for board in range(4)]
        assert took == [8, 7, 7, 7], took
        sequence += 1
    assert await one(0, 4) == 7 + 5 * 2
    sequence += 1
    assert await one(0, 12) == 7 + 5 * 8
    sequence += 1
    # Back to back: packets of four boards for each of 8 frames, on both channels.
    assert bench.model.current.next == 13
    await bench.quiet()
    bench.answered_at.clear()
    for frame in range(13, 21):
        for board in range(4):
            bench.put([mgp.packet(bench.rng, board, frame, sequence, 0, True, 0)], board % 2)
        sequence += 1
    await bench.quiet()
    gaps = [b - a for a, b in zip(bench.answered_at[4:], bench.answered_at[5:], strict=False)]
    dut._log.info("cycles from answer to answer: %s", gaps)
    assert sum(gaps) <= 5.25 * len(gaps) + 4


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(phase=[45, 51, 52, 53])
async def a_frame_is_due_as_the_next_burst_begins(dut, phase):
    """A frame expires as the next burst begins: each burst gets its end, and a third can begin."""
    bench = Bench(dut, Pace(timeout=600, firmware=(10, 10)))
    await bench.start()
    bench.put([mgp.packet(bench.rng, 0, 0, 1, 0, True, 0)], 0)
    await bench.quiet()
    opened = next(iter(bench.opened_by.values())) & 0xFFFFFFFF
    bench.put([mgp.marker(0, reference_mgp.SOB, burst=1)], 0)
    await wait(dut, lambda: (bench.now - opened) % (1 << 32) >= 570 + phase, 2000)
    bench.put([mgp.marker(1, reference_mgp.SOB, burst=1)], 0)
    await ClockCycles(dut.clk, 1500)
    bench.put([mgp.marker(board, reference_mgp.SOB, burst=1) for board in range(4)], 0)
    bench.put([mgp.marker(board, reference_mgp.EOB, 0, 1, 1) for board in range(4)], 0)
    await ClockCycles(dut.clk, 2500)
    bench.put([mgp.marker(board, reference_mgp.SOB, burst=2) for board in range(4)], 0)
    await ClockCycles(dut.clk, 2500)
    assert ENDS in [notice.kind for notice in bench.notices]


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def the_newest_packet_is_reported_after_any_silence(dut):
    """last_packet is right after silences of 8, 16 and 28 s, beyond the wrap of the clock's low word."""
    bench = Bench(dut, Pace(timeout=900, firmware=(10, 10)))
    await bench.start()
    for frame, silence in enumerate((0, 5 << 28, 10 << 28, 17 << 28)):
        bench.now += silence
        await ClockCycles(dut.clk, 20)
        began = bench.now
        bench.put([mgp.packet(bench.rng, board, frame, frame, 0, True, 0) for board in range(4)], 0)
        await bench.quiet()
        assert began <= int(dut.last_packet.value) <= bench.now


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(phase=range(4))
async def a_burst_is_closed_while_timers_of_closed_frames_go(dut, phase):
    """Frame 0 lacks boards, later ones are complete: timers run as the next burst's last SOB arrives."""
    bench = Bench(dut, Pace(timeout=900, firmware=(10, 10)))
    await bench.start()
    bench.put([mgp.packet(bench.rng, 0, 0, 1, 0, True, 0)], 0)
    for frame in range(1, 16):
        bench.put([mgp.packet(bench.rng, b, frame, frame + (b == 0), 0, True, 0) for b in range(4)], 0)
    await bench.quiet()
    opened = next(iter(bench.opened_by.values())) & 0xFFFFFFFF
    bench.put([mgp.marker(board, reference_mgp.SOB, burst=1) for board in range(3)], 0)
    await wait(dut, lambda: (bench.now - opened) % (1 << 32) >= 925 + phase, 2000)
    bench.put([mgp.marker(3, reference_mgp.SOB, burst=1)], 0)
    await ClockCycles(dut.clk, 600)
    bench.put([mgp.packet(bench.rng, 0, 0, 1, 0, True, 0, burst=1)], 0)
    await ClockCycles(dut.clk, 1500)
    assert not int(dut.closing.value) and not any(bench.packets), "search for timers that no longer exist"


PAUSES = f"bursts_on_two_channels/pace={list(PACES).index('everything_pauses')}"
SHORT = [PAUSES, "hostile_traffic_on_one_channel", "answer_latency_and_throughput"]


@pytest.mark.parametrize(
    ("devices", "cases"), [(1, SHORT), (1, None), (2, [PAUSES])], ids=["short", "1", "2"]
)
def test_clop(devices, cases):
    parameters = {"CHANNELS": CHANNELS, "MAX_BUFFERS": BUFFERS, "DEVICES": devices}
    parameters["FIRST_N"] = f"64'd{FIRST_N}"
    simulate(
        "clop_bench",
        "test_clop",
        parameters,
        env={"NANET_DEVICES": str(devices)},
        testcase=cases,
        extra=[Path(__file__).resolve().parent / "clop_bench.sv"],
    )
