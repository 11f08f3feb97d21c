# SPDX-License-Identifier: SHL-2.1
"""Bench of card_counters: every pulse counts once, one cycle later, on all channels at once."""

import random
from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset
from simulate import simulate
from sources import modules

VERDICTS, REFUSALS, OVERFLOW, WRONG_BURST = 13, 17, 12, 16
# placed_e of nanet_pkg: packet outcome, selects the counter.
USED, LATE, DUPLICATE, REPLAYED, OVERRUN, NO_ROOM, MARKER, JUMP, OTHER_BURST = 0, 1, 2, 3, 5, 6, 7, 8, 9
LOST = (LATE, DUPLICATE, REPLAYED, JUMP, OVERRUN, NO_ROOM)  # in register order
# Single pulses, in the order of the registers that follow packets_used and burst_markers.
PULSES = (
    *("frame_in", "count_out", "count_answered", "count_late", "frame_incomplete", "frame_overrun"),
    *("count_after_deadline", "count_bad_descriptor", "read_error", "write_error", "unsupported"),
    *("tlb_hit", "tlb_miss", "burst_begun", "frame_unmerged"),
)


def drive(dut, rng: random.Random, channels: int, share: float) -> dict:
    """Drive random pulses; return the expected counts."""
    pulse = lambda: int(rng.random() < share)  # noqa: E731
    want = {"verdict": [0, 0], "refusal": [0] * REFUSALS, "lost": [0] * 7, "frames": 0, "many": [0] * 5}
    values = dict.fromkeys(("verdict_valid", "verdict", "overflow", "refused", "refusal"), 0)
    for c in range(channels):
        verdict, refusal = rng.randrange(OVERFLOW), rng.randrange(REFUSALS)
        values["verdict"] |= verdict << 4 * c
        values["refusal"] |= refusal << 5 * c
        if pulse():
            values["verdict_valid"] |= 1 << c
            want["verdict"][c] |= 1 << verdict
        if pulse():
            values["overflow"] |= 1 << c
            want["verdict"][c] |= 1 << OVERFLOW
            want["lost"][6] += 1
        if pulse():
            values["refused"] |= 1 << c
            want["refusal"][refusal] += 1
            want["many"][0] += 1
    placed, hits, events = (
        rng.choice([USED, MARKER, OTHER_BURST, *LOST]),
        rng.getrandbits(16),
        rng.getrandbits(8),
    )
    values |= {"counted": pulse(), "counted_as": placed, "counted_hits": hits, "counted_events": events}
    if values["counted"]:
        want["many"][0] += 1
        if placed == USED:
            want["frames"] |= 1
            want["many"][3:5] = [events, hits]
        elif placed == MARKER:
            want["frames"] |= 2
        elif placed == OTHER_BURST:
            want["refusal"][WRONG_BURST] += 1
        else:
            want["lost"][LOST.index(placed)] += 1
    for i, name in enumerate(PULSES):
        values[name] = pulse()
        want["frames"] |= values[name] << i + 2
    values["skipped_valid"], values["skipped"] = pulse(), rng.getrandbits(25)
    want["many"][1] = values["skipped"] if values["skipped_valid"] else 0
    values["untranslated"] = sum(pulse() << c for c in range(channels + 1))
    want["many"][2] = values["untranslated"].bit_count()
    names = ("verdict_valid", "overflow", "refused", "counted", "skipped_valid", "untranslated", *PULSES)
    want["active"] = int(any(values[name] for name in names))
    want["now"] = values["now"] = rng.getrandbits(64)
    want["next"] = values["sender_next"] = rng.getrandbits(64)
    want["status"] = rng.getrandbits(4)
    for i, name in enumerate(("bus_master", "ready", "stopped", "idle")):
        values[name] = want["status"] >> i & 1
    # `written` is the uppermost word of a channel's profile.
    values["profile"] = rng.getrandbits(128 * channels)
    want["written"] = values["profile"] >> 128 * channels - 32
    for name, value in values.items():
        getattr(dut, name).value = value
    return want


def split(value: int, width: int, count: int) -> list[int]:
    return [value >> width * i & (1 << width) - 1 for i in range(count)]


@cocotb.test()
@cocotb.parametrize(share=[0.02, 0.5, 1.0])
async def every_pulse_once_a_cycle_later(dut, share):
    rng = random.Random(cocotb.RANDOM_SEED)
    channels = len(dut.overflow)
    cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
    dut.missing.value = dut.burst_report.value = 0
    drive(dut, rng, channels, 0)
    await reset(dut)
    before = drive(dut, rng, channels, share)
    await RisingEdge(dut.clk)
    for _ in range(400):
        now = drive(dut, rng, channels, share)
        await FallingEdge(dut.clk)
        await ReadOnly()
        assert int(dut.active.value) == now["active"]
        assert split(int(dut.by_verdict.value), VERDICTS, 2) == before["verdict"]
        assert split(int(dut.by_refusal.value), 4, REFUSALS) == before["refusal"]
        assert split(int(dut.by_lost.value), 4, 7) == before["lost"]
        assert int(dut.by_frames.value) == before["frames"]
        assert split(int(dut.by_many.value), 25, 5) == before["many"]
        assert int(dut.read_now.value) == before["now"] and int(dut.read_next.value) == before["next"]
        assert int(dut.read_status.value) == before["status"]
        assert int(dut.read_written.value) == before["written"]
        before = now
        await RisingEdge(dut.clk)


@pytest.mark.parametrize("channels", [1, 2])
def test_card_counters(channels):
    bench = Path(__file__).with_name("counters_bench.sv")
    simulate(
        "counters_bench",
        "test_card_counters",
        {"CHANNELS": channels},
        extra=[modules()["card_counters"], bench],
    )
