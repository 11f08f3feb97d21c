# SPDX-License-Identifier: SHL-2.1
"""Bench of latency_samples: samples of each stage, their frames, and the limit of one in four cycles."""

import random
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

WRITTEN, PLACED, CONTROLLER, START = 3, 2, 1, 0  # words of profile_t, uppermost first
STAGES = {
    1: (CONTROLLER, START),
    2: (PLACED, CONTROLLER),
    3: (WRITTEN, PLACED),
    4: (WRITTEN, START),
    5: (PLACED, START),
}


class Bench:
    """Module with MACs, used packets, closed frames and a histogram."""

    def __init__(self, dut, stage):
        self.dut, self.stage, self.rng = dut, stage, random.Random(f"{cocotb.RANDOM_SEED} {stage}")
        self.channels = len(dut.rx_valid)
        self.now = (1 << 32) - 2000  # wraps
        self.left = [0] * self.channels  # remaining words of the incoming frame
        self.begun = [0] * self.channels
        self.ended = []  # frames that may close: channel, times of first and last word
        self.wait = [0] * self.channels
        self.wait_event = 0
        self.expected, self.got, self.at, self.due = [], [], [], []
        self.last, self.hold, self.quiet = [0] * self.channels, 0, False

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.stage.value, dut.hold.value, dut.now.value = self.stage, 0, self.now
        dut.rx_valid.value = dut.profile_valid.value = dut.closed_valid.value = 0
        await reset(dut)

    async def run(self, cycles):
        for cycle in range(cycles):
            self.quiet = cycle > cycles - 200
            self.drive()
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            if int(self.dut.sample_valid.value):
                self.got.append(int(self.dut.sample.value))
                self.at.append(self.now)
            last = int(self.dut.last.value)
            assert [last >> 128 * c & (1 << 128) - 1 for c in range(self.channels)] == self.last
            await RisingEdge(self.dut.clk)
            if self.profiles and not self.hold:
                for c, value in self.profiles.items():
                    self.last[c] = value
            self.now += 1

    def expect(self, value):
        self.expected.append(value & 0xFFFFFFFF)
        self.due.append(self.now)

    def drive(self):
        dut, rng = self.dut, self.rng
        dut.now.value = self.now & 0xFFFFFFFF
        if rng.random() < 0.01:
            self.hold = rng.getrandbits(1)
        dut.hold.value = self.hold
        valid = last = 0
        for c in range(self.channels):
            if not self.left[c] and rng.random() < 0.3:
                self.left[c], self.begun[c] = rng.randrange(8, 40), 0
            if self.left[c] and rng.random() < 0.9:
                valid |= 1 << c
                self.begun[c] = self.begun[c] or self.now
                self.left[c] -= 1
                if not self.left[c]:
                    last |= 1 << c
                    self.ended.append((c, self.begun[c], self.now))
        dut.rx_valid.value = valid
        dut.rx_last.value = last | ~valid & rng.getrandbits(self.channels)
        self.drive_profiles()
        self.drive_closed()

    def drive_profiles(self):
        rng, self.profiles = self.rng, {}
        for c in range(self.channels):
            self.wait[c] -= 1
            if self.wait[c] < 0 and not self.quiet and rng.random() < 0.3:
                # Packets of a channel are farther apart than one turn of all channels with samples.
                self.wait[c] = 4 * (self.channels + 2) + rng.randrange(30)
                words = [rng.getrandbits(32) for _ in range(4)]
                self.profiles[c] = sum(word << 32 * i for i, word in enumerate(words))
                if self.stage in STAGES:
                    to, since = STAGES[self.stage]
                    self.expect(words[to] - words[since])
        self.dut.profile_valid.value = sum(1 << c for c in self.profiles)
        self.dut.profile.value = sum(value << 128 * c for c, value in self.profiles.items())

    def drive_closed(self):
        dut, rng = self.dut, self.rng
        self.wait_event -= 1
        # Frames are stored for a limited time: 512 entries of eight cycles.
        known = [frame for frame in self.ended if self.now - frame[2] >= 2 and self.now - frame[1] < 4000]
        self.ended = [frame for frame in self.ended if self.now - frame[1] < 4000]
        closes = bool(known) and self.wait_event < 0 and not self.quiet and rng.random() < 0.3
        dut.closed_valid.value = int(closes)
        if not closes:
            dut.closed_start.value = rng.getrandbits(32)
            return
        self.wait_event = rng.choice([0, 5, 10, 60])
        c, first, ended = rng.choice(known)
        known_to_it = rng.random() < 0.8
        if not known_to_it:
            first -= 4096  # same entry, earlier frame
        dut.closed_start.value, dut.closed_channel.value = first & 0xFFFFFFFF, c
        if self.stage == 6:
            self.expect(self.now - first)
        elif self.stage == 0 and known_to_it:
            self.expect(self.now - ended)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(stage=list(range(7)))
async def every_stage_counts_what_it_is_for(dut, stage):
    bench = Bench(dut, stage)
    await bench.start()
    await bench.run(6000)
    if stage in (0, 6):
        assert bench.got == bench.expected, "in order"
        shortest = 8
    else:
        assert Counter(bench.got) == Counter(bench.expected)
        shortest = 3
    assert len(bench.got) > 100
    gaps = [b - a for a, b in zip(bench.at, bench.at[1:], strict=False)]
    assert min(gaps) >= 4
    places = dict(zip(bench.expected, bench.due, strict=True))
    unique = [value for value, count in Counter(bench.expected).items() if count == 1]
    delays = {
        value: at - places[value] for value, at in zip(bench.got, bench.at, strict=True) if value in unique
    }
    assert min(delays.values()) == shortest, min(delays.values())


@pytest.mark.parametrize("channels", [1, 4])
def test_latency_samples(channels):
    simulate("latency_samples", "test_latency_samples", {"CHANNELS": channels})
