# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_notify: closed frames at once, overruns coalesced while there is no room, then burst ends."""

import os
import random
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

BUFFERS = 64
DEVICES = int(os.environ.get("NANET_DEVICES", "1"))
DONE, ERROR, BEGINS, ENDS = 1, 3, 4, 5
NEWS = (("channel", 3), ("start", 32), ("present", 4), ("complete", 4), ("timed_out", 1), ("count", 32))
NEWS += (("frame", 24), ("n", 64), ("index", 16), ("kind", 8))


def unpack(value):
    out = {}
    for name, width in NEWS:
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


@dataclass
class Burst:
    """Burst state, reduced to the fields that clop_notify reads."""

    over: bool = False
    ended: bool = False
    last_known: int = 0
    last_n: int = 0

    def pack(self):
        """Return a clop_burst_t; number, base and next are irrelevant."""
        value = 1 << 8 + 64 + 25  # frames known
        value = value << 3 | self.ended  # started, ending, ended
        return ((value << 1 | self.over) << 24 | self.last_known) << 32 | self.last_n


class Bench:
    """Module with clop's steps, event queues and clop_close."""

    def __init__(self, dut, rate=1.0):
        self.dut, self.rate, self.rng = dut, rate, random.Random(cocotb.RANDOM_SEED)
        self.now = 0
        self.notices, self.seen_at, self.notified = [], [], 0
        self.room, self.half = True, True
        self.bursts = [Burst(ended=True), Burst()]  # older, current
        self.ticket = 5

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.log2_devices.value = DEVICES.bit_length() - 1
        dut.closed.value = dut.opened.value = dut.begins.value = dut.waiting_burst.value = 0
        self.drive()
        await reset(dut)
        cocotb.start_soon(self.run())
        await ClockCycles(dut.clk, 4)

    async def run(self):
        seen = False
        while True:
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            dut = self.dut
            if int(dut.notice_valid.value):
                if not seen:
                    self.seen_at.append(self.now)
                seen = True
                if self.willing:
                    one = unpack(int(dut.notice.value))
                    one["write_fence"] = int(dut.notice_fence.value) & 0xFFFFFF
                    self.notices.append(one)
                    seen = False
            notified = int(dut.notified.value)
            self.spare, self.spare_little = int(dut.accepts_new.value), int(dut.accepts_current.value)
            await RisingEdge(dut.clk)
            self.now += 1
            for at, burst in ((1, self.bursts[0]), (0, self.bursts[1])):
                if notified >> at & 1:
                    burst.ended = True
            self.drive()

    def drive(self):
        dut = self.dut
        self.willing = self.rng.random() < self.rate
        dut.notice_ready.value = int(self.willing)
        dut.room.value = sum(int(self.room) * 9 << 16 * d for d in range(DEVICES))
        dut.half_free.value = ((1 << DEVICES) - 1) * self.half
        dut.old.value, dut.current.value = (burst.pack() for burst in self.bursts)
        dut.write_fence.value = self.ticket | self.ticket << 24

    async def closed(self, n, timed_out=0, there=0xF, complete=0xF):
        """Close a frame, for one cycle."""
        dut, start, channel = self.dut, self.rng.getrandbits(32), self.rng.getrandbits(1)
        slot = 1 << 2 + 4 + 4 + 32 + 24 + 32  # used
        slot |= there << 4 + 32 + 24 + 32 | complete << 32 + 24 + 32
        slot |= (n & 0xFFFFFFFF) << 24 + 32 | (n & 0xFFFFFF) << 32
        dut.closed_slot.value, dut.closed_index.value = slot, n % BUFFERS
        dut.closed.value = 1 << 36 | timed_out << 35 | start << 3 | channel
        await RisingEdge(dut.clk)
        dut.closed.value = 0
        return {
            "kind": DONE,
            "index": n % BUFFERS,
            "n": n & 0xFFFFFFFF,
            "frame": n & 0xFFFFFF,
            "count": 0,
            "timed_out": timed_out,
            "complete": complete,
            "present": there,
            "start": start,
            "channel": channel,
            "write_fence": self.ticket,
        }

    async def missed(self, n, gap=5):
        """Open a frame without a buffer; the next one follows five cycles later at the earliest."""
        opened = 1 << 5 | 0  # valid; ok, last, packet, uses, closes
        opened = (opened << 64 | n) << 25 | n & 0xFFFFFF
        self.dut.opened.value = opened << 25 + 64
        await RisingEdge(self.dut.clk)
        self.dut.opened.value = 0
        await ClockCycles(self.dut.clk, gap - 1)

    async def quiet(self):
        await ClockCycles(self.dut.clk, 60)
        while int(self.dut.notice_valid.value):
            await ClockCycles(self.dut.clk, 20)

    def overruns(self):
        return [(one["n"], one["frame"], one["count"]) for one in self.notices if one["kind"] == ERROR]


@cocotb.test()
async def a_closed_frame_is_notified_after_three_cycles(dut):
    bench = Bench(dut)
    await bench.start()
    for n in (0x1_0000_0005, 17):
        at = bench.now
        want = await bench.closed(n, timed_out=1, there=3, complete=1)
        await ClockCycles(dut.clk, 10)
        assert bench.seen_at[-1] - at - 1 == 3, bench.seen_at[-1] - at
        assert bench.notices[-1] == want
    assert int(dut.idle.value)


@cocotb.test()
async def closed_frames_stay_in_order_at_every_pace(dut):
    bench, want = Bench(dut), []
    await bench.start()
    for bench.rate in (1.0, 0.1, 0.02, 0.4):
        for n in range(50):
            while not bench.spare:  # blocks new operations
                await RisingEdge(dut.clk)
            bench.ticket = bench.rng.getrandbits(24)
            want.append(await bench.closed(n, there=bench.rng.getrandbits(4)))
            await ClockCycles(dut.clk, bench.rng.choice([4, 4, 9]))
    await bench.quiet()
    assert bench.notices == want


@cocotb.test()
async def overruns_are_sent_at_once_or_coalesced(dut):
    bench = Bench(dut)
    await bench.start()
    for n in range(100, 100 + 3 * DEVICES):
        await bench.missed(n, 12)
    await bench.quiet()
    assert bench.overruns() == [(n, n, 1) for n in range(100, 100 + 3 * DEVICES)]
    bench.notices.clear()
    bench.half = False  # event queue nearly full: overruns are coalesced
    await ClockCycles(dut.clk, 4)
    for n in range(200, 200 + 20 * DEVICES):
        await bench.missed(n)
    await bench.quiet()
    assert bench.notices == [] and not int(dut.idle.value)
    await bench.missed(300 + 20 * DEVICES)  # a gap: the waiting overruns are sent
    await bench.quiet()
    device = (300 + 20 * DEVICES) % DEVICES
    assert bench.overruns() == [(200 + device, 200 + device, 20)]
    bench.half = True
    await bench.quiet()
    rest = [(200 + d, 200 + d, 20) for d in range(DEVICES) if d != device]
    assert sorted(bench.overruns()[1:]) == sorted([*rest, (300 + 20 * DEVICES, 300 + 20 * DEVICES, 1)])
    assert int(dut.idle.value)


@cocotb.test()
async def a_burst_ends_behind_its_overruns(dut):
    """Overruns precede burst ends though the queue is nearly full; the older burst ends before the newer."""
    bench = Bench(dut)
    await bench.start()
    bench.half = False
    for n in range(40, 40 + 2 * DEVICES):
        await bench.missed(n)
    await bench.quiet()
    assert bench.notices == []
    bench.bursts[0] = Burst(True, False, 33, 1033)
    bench.bursts[1] = Burst(True, False, 77, 2077)
    await bench.quiet()
    kinds = [one["kind"] for one in bench.notices]
    assert kinds == [ERROR] * DEVICES + [ENDS, ENDS]
    assert [(one["n"], one["frame"]) for one in bench.notices[-2:]] == [(1033, 33), (2077, 77)]
    assert all(burst.ended for burst in bench.bursts)
    dut.begins.value, dut.next_base.value, dut.begins_number.value = 1, (1 << 40) + 3, 258
    await RisingEdge(dut.clk)
    dut.begins.value = 0
    await bench.quiet()
    last = bench.notices[-1]
    assert (last["kind"], last["n"], last["frame"]) == (BEGINS, (1 << 40) + 3, 258)


@cocotb.test()
async def without_room_only_closed_frames_are_sent(dut):
    bench = Bench(dut)
    await bench.start()
    bench.room = False
    await ClockCycles(dut.clk, 4)
    await bench.missed(9)
    await bench.closed(10)
    await bench.quiet()
    assert [one["kind"] for one in bench.notices] == [DONE]
    bench.room = True
    await bench.quiet()
    assert bench.overruns() == [(9, 9, 1)]


@pytest.mark.parametrize("devices", [1, 2])
def test_clop_notify(devices):
    parameters = {"MAX_BUFFERS": BUFFERS, "DEVICES": devices}
    simulate("clop_notify", "test_clop_notify", parameters, env={"NANET_DEVICES": str(devices)})
