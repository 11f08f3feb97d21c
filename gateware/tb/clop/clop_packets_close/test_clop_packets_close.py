# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_packets_close: marks every empty slot; the event follows all writes of its buffer."""

import random
from collections import deque

import cocotb
import pytest
from closing import Pace
from cocotb.triggers import RisingEdge
from dma_model import MemorySlave, known, physical
from handshake import Stepped, reset, start_clock
from simulate import simulate

CHANNELS, SLOT, MARK = 2, 480, 16
DONE, ERROR, COMPLETE, OVERRUN = 1, 3, 1, 8
FIELDS = (("overrun", 1), ("n", 32), ("buffer", 16), ("device", 8), ("frame", 24), ("bytes", 32))
FIELDS += (("empty", 13), ("vaddr", 64), ("start", 32), ("channel", 3))


PACES = {
    "nothing_waits": Pace(),
    "translation_is_slow": Pace(tlb=0.2, translation=(1, 40)),
    "memory_says_late_that_it_is_done": Pace(memory=0.5, done=0.03),
    "payloads_come_late": Pace(payloads=0.02),
    "everything_pauses": Pace(0.3, 0.5, (1, 20), 0.5, 0.3, 0.2, 0.1),
}


class Bench(Stepped):
    """Module with notifications, channels, translation, memory and event queues."""

    def __init__(self, dut, pace):
        self.dut, self.pace, self.rng = dut, pace, random.Random(cocotb.RANDOM_SEED)
        self.devices = len(dut.ev_valid)
        self.queue, self.current, self.translation, self.first = deque(), None, None, None
        self.now, self.serials = 1 << 35, [(1 << 24) - 40] * CHANNELS  # near the wrap
        self.ticket, self.marks, self.marked = list(self.serials), [], []
        self.skipped = self.untranslated = self.partly = self.incomplete = self.notified = self.overruns = 0
        self.events, self.done, self.notice_at, self.event_at = 0, 0, 0, []

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.slot_bytes.value = SLOT
        dut.ev_ready.value = 0
        self.drive()
        await reset(dut)
        rate, done = self.pace.memory, self.pace.done
        self.slave = MemorySlave(dut, rate=rate, rng=self.rng, read=False, done_rate=done)
        cocotb.start_soon(self.run())

    def put(self, overrun=0, empty=0, vaddr=None, payloads=2):
        rng = self.rng
        self.ticket = [ticket + rng.randrange(payloads + 1) for ticket in self.ticket]
        notice = {name: rng.getrandbits(width) for name, width in FIELDS}
        notice |= {"overrun": overrun, "empty": 0 if overrun else empty, "channel": rng.randrange(CHANNELS)}
        notice |= {"device": rng.randrange(self.devices), "vaddr": vaddr or rng.getrandbits(60) << 4}
        for slot in range(notice["empty"]):
            at = notice["vaddr"] + slot * SLOT
            if known(at):
                self.marks.append((physical(at), bytes(MARK)))
            else:
                self.skipped += 1
        self.partly += notice["empty"] > 0
        self.overruns += overrun
        self.queue.append((notice, list(self.ticket), len(self.marks)))

    async def finish(self, cycles=100_000):
        for _ in range(cycles):
            if not self.queue and self.current is None and int(self.dut.idle.value):
                break
            await RisingEdge(self.dut.clk)
        assert not self.queue and self.current is None, "an event is missing"
        assert self.slave.writes == self.marks
        assert (self.untranslated, self.incomplete) == (self.skipped, self.partly)
        assert self.notified == self.overruns

    def drive(self):
        dut, rng, pace = self.dut, self.rng, self.pace
        dut.now.value = self.now
        if self.current is None and self.queue and rng.random() < pace.notices:
            self.current, self.notice_at = self.queue.popleft(), self.now
            value = 0
            for name, width in FIELDS:
                value = value << width | self.current[0][name] & (1 << width) - 1
            dut.notice.value = value
            dut.notice_fence.value = sum(t % (1 << 24) << 24 * c for c, t in enumerate(self.current[1]))
        dut.notice_valid.value = int(self.current is not None)
        for c in range(CHANNELS):
            if self.serials[c] < self.ticket[c] and rng.random() < pace.payloads:
                self.serials[c] += 1
        dut.done.value = sum(s % (1 << 24) << 24 * c for c, s in enumerate(self.serials))
        dut.ev_ready.value = sum((rng.random() < pace.events) << d for d in range(self.devices))
        dut.tlb_ready.value = int(rng.random() < pace.tlb)
        answers = self.translation and self.translation[0] <= self.now
        dut.tlb_resp_valid.value = int(bool(answers))
        dut.tlb_resp_ok.value, dut.tlb_resp_paddr.value = rng.getrandbits(1), rng.getrandbits(64)
        if answers:
            vaddr = self.translation[1]
            dut.tlb_resp_ok.value, dut.tlb_resp_paddr.value = int(known(vaddr)), physical(vaddr)
            self.translation = None

    def look(self):
        dut = self.dut
        if int(dut.tlb_valid.value) and int(dut.tlb_ready.value):
            at = self.now + self.rng.randint(*self.pace.translation)
            self.translation = (at, int(dut.tlb_vaddr.value))
        if int(dut.wr_valid.value) and int(dut.wr_ready.value):
            self.marked.append(self.now)
        self.untranslated += int(dut.untranslated.value)
        self.incomplete += int(dut.incomplete.value)
        self.notified += int(dut.notice_done.value)
        valid, ready = int(dut.ev_valid.value), int(dut.ev_ready.value)
        if valid:
            self.event(int(dut.ev.value), valid, bool(valid & ready))
        else:
            assert self.first is None, "an event was withdrawn"
            assert not int(dut.notice_ready.value)
        self.done += int(dut.wr_done_valid.value)

    def event(self, value, devices, taken):
        dut, (notice, tickets, marks) = self.dut, self.current
        if self.first is None:
            self.first = value
            self.event_at.append(self.now - self.notice_at)
            assert self.done >= marks, "event before its mark is written"
            assert all(s >= t for s, t in zip(self.serials, tickets, strict=True)), "nor payloads"
            assert devices == 1 << notice["device"]
            flags = OVERRUN if notice["overrun"] else COMPLETE * (notice["empty"] == 0)
            want = notice["n"] << 192 | notice["frame"] << 96 | notice["bytes"] << 64 | notice["buffer"] << 32
            want |= flags << 16 | (ERROR if notice["overrun"] else DONE)
            assert value & ~(((1 << 64) - 1) << 128) == want
            assert value >> 128 & (1 << 64) - 1 == self.now - 1
            assert int(dut.ev_promised.value) == 1 - notice["overrun"]
            assert (int(dut.ev_start.value), int(dut.ev_channel.value)) == (
                notice["start"],
                notice["channel"],
            )
        assert value == self.first, "an event changes while it is offered"
        assert int(dut.notice_ready.value) == taken
        if taken:
            self.current = self.first = None


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def events_follow_payloads_and_marks(dut, pace):
    bench = Bench(dut, PACES[pace])
    await bench.start()
    for _ in range(100):
        bench.put(bench.rng.random() < 0.2, bench.rng.choice([0, 0, 1, 2, 7]))
    await bench.finish()
    assert bench.skipped and bench.marks


@cocotb.test()
async def a_full_buffer_takes_two_cycles_and_a_mark_eight(dut):
    bench = Bench(dut, Pace())
    await bench.start()
    bench.put(empty=0, payloads=0)
    await bench.finish()
    assert bench.event_at == [2]
    bench.put(empty=8, vaddr=0x1000)  # within one page
    await bench.finish()
    gaps = [b - a for a, b in zip(bench.marked, bench.marked[1:], strict=False)]
    assert gaps == [8] * 7, gaps


@pytest.mark.parametrize("devices", [1, 2])
def test_clop_packets_close(devices):
    parameters = {"CHANNELS": CHANNELS, "DEVICES": devices}
    simulate("clop_packets_close", "test_clop_packets_close", parameters)
