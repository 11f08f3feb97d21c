# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_close: header and event of each closed frame, ordered behind the payload writes."""

import os
import random
import struct
from collections import deque
from dataclasses import dataclass

import cocotb
import pytest
from closing import Pace
from cocotb.triggers import RisingEdge
from dma_model import MemorySlave, known, physical
from handshake import Stepped, reset, start_clock
from simulate import simulate

CHANNELS, BUFFERS = 2, 64
DEVICES = int(os.environ.get("NANET_DEVICES", "1"))
BASE = [0x7F00_1234_0000 + (device << 32) for device in range(DEVICES)]
UNITS = 129
DONE, ERROR, BEGINS, ENDS = 1, 3, 4, 5
TRUNCATED = 4  # flag of a board, as in MGP


PACES = {
    "nothing_waits": Pace(),
    "news_are_rare": Pace(notices=0.02),
    "translation_is_slow": Pace(tlb=0.2, translation=(1, 60)),
    "memory_is_slow": Pace(memory=0.1),
    "memory_says_late_that_it_is_done": Pace(done=0.02),
    "payloads_come_late": Pace(payloads=0.02),
    "the_event_queue_is_full": Pace(events=0.02),
    "everything_pauses": Pace(0.5, 0.5, (1, 20), 0.5, 0.3, 0.3, 0.3),
}


@dataclass
class Notice:
    """Unpacked clop_notice_t, the boards' parts as (units, packets, flags), and the writes to wait for."""

    kind: int
    index: int
    n: int
    frame: int
    count: int
    timed_out: int
    complete: int
    there: int
    start: int
    channel: int
    parts: list[tuple[int, int, int]]
    tickets: list[int]
    # merge_result_t: on, merged, unmerged, events, fragments, hits, ttc, first_period, close_period
    merged: tuple[int, ...]

    def pack_merged(self):
        value = 0
        for width, field in zip((1, 1, 3, 16, 16, 16, 3, 32, 32), self.merged, strict=True):
            value = value << width | field
        return value

    def pack(self):
        value = 0
        for width, field in (
            (8, self.kind),
            (16, self.index),
            (64, self.n),
            (24, self.frame),
            (32, self.count),
            (1, self.timed_out),
            (4, self.complete),
            (4, self.there),
            (32, self.start),
            (3, self.channel),
        ):
            value = value << width | field
        return value

    def header(self, expected):
        """Return the header and the number of payload bytes."""
        parts = [part if self.there >> b & 1 else (0, 0, 0) for b, part in enumerate(self.parts)]
        missing = expected & ~self.complete
        truncated = any(flags & TRUNCATED for _, _, flags in parts)
        flags = (not missing) | self.timed_out << 1 | truncated << 2 | missing << 8
        out = struct.pack("<IBBH", self.frame, self.complete, expected, flags)
        for units, packets, flags in parts:
            out += struct.pack("<HBB", 16 * units, packets, flags)
        on, merged, unmerged, events, fragments, hits, ttc, first, closing = self.merged
        rows = 512 * on
        out += bytes(16) + struct.pack("<BBHHHHB", merged, ttc, events, fragments, hits, rows, unmerged)
        out += bytes(5) + struct.pack("<II", first, closing)
        size = 64 + 16 * events + 2 * hits if merged else 16 * sum(units for units, _, _ in parts)
        return out, size


class Bench(Stepped):
    """Module with clop, its board memory, channels, translation, memory and event queues."""

    def __init__(self, dut, pace, expected=0xF):
        self.dut, self.pace, self.expected = dut, pace, expected
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.queue, self.waiting = deque(), [deque() for _ in range(DEVICES)]
        self.now, self.offered, self.translation = 1 << 40, None, None
        self.serials = [(1 << 24) - 50] * CHANNELS  # near the wrap
        self.ticket = list(self.serials)
        self.index = self.part = 0
        self.headers, self.done = [], 0
        self.skipped = self.untranslated = self.absent = self.incomplete = 0
        self.first = {}  # first offer of each device's event: cycle and value
        self.notice_at, self.taken_at, self.event_at = [], [], []

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.log2_devices.value = DEVICES.bit_length() - 1
        dut.base_vaddr.value = sum(base << 64 * device for device, base in enumerate(BASE))
        dut.buffer_units.value, dut.expected.value = UNITS, self.expected
        dut.ev_ready.value = 0
        dut.done_serial.value = sum(s << 24 * c for c, s in enumerate(self.serials))
        await reset(dut)
        rate, done = self.pace.memory, self.pace.done
        self.slave = MemorySlave(dut, rate=rate, rng=self.rng, read=False, done_rate=done)
        cocotb.start_soon(self.run())

    def put(self, notice):
        """Queue a notification and its expected results."""
        self.queue.append(notice)
        event = {
            "kind": notice.kind,
            "flags": 0,
            "buffer": 0,
            "bytes": 0,
            "frame": notice.frame,
            "n": notice.n,
        }
        event["start"], event["channel"], event["promised"] = (
            notice.start,
            notice.channel,
            notice.kind == DONE,
        )
        event["tickets"], devices = notice.tickets, [notice.n % DEVICES]
        if notice.kind == DONE:
            header, event["bytes"] = notice.header(self.expected)
            event["flags"], event["buffer"] = int.from_bytes(header[6:8], "little"), notice.index // DEVICES
            vaddr = BASE[notice.n % DEVICES] + event["buffer"] * UNITS * 64
            if known(vaddr):
                self.headers.append((physical(vaddr), header))
            else:
                self.skipped += 1
            self.absent += bool(self.expected & ~notice.complete)
        elif notice.kind == ERROR:
            event["flags"], event["bytes"] = 8, notice.count
        else:
            devices = range(DEVICES)
            if notice.kind == BEGINS:
                event["buffer"], event["bytes"] = notice.n & 0xFFFFFFFF, notice.n >> 32
        event["headers"] = len(self.headers)
        for device in devices:
            self.waiting[device].append(event)

    def some(self, kind=None):
        rng = self.rng
        self.ticket = [ticket + rng.randrange(3) for ticket in self.ticket]
        n = rng.getrandbits(64)
        return Notice(
            kind=kind or rng.choice([DONE] * 6 + [ERROR, BEGINS, ENDS]),
            index=n % BUFFERS,
            n=n,
            frame=rng.getrandbits(24),
            count=rng.getrandbits(32),
            timed_out=rng.getrandbits(1),
            complete=self.expected & (0xF if rng.random() < 0.7 else rng.getrandbits(4)),
            there=rng.getrandbits(4),
            start=rng.getrandbits(32),
            channel=rng.randrange(CHANNELS),
            parts=[(rng.getrandbits(12), rng.getrandbits(5), rng.getrandbits(8)) for _ in range(4)],
            tickets=list(self.ticket),
            merged=(
                *rng.choice(
                    [
                        (0,) * 6,
                        (1, 0, rng.randrange(5), 0, 0, 0),
                        (1, 1, 0, *rng.choices(range(1 << 16), k=3)),
                    ]
                ),
                rng.getrandbits(3),
                rng.getrandbits(32),
                rng.getrandbits(32),
            ),
        )

    async def finish(self, cycles=100_000):
        for _ in range(cycles):
            if not any(self.waiting) and not self.queue and int(self.dut.idle.value):
                break
            await RisingEdge(self.dut.clk)
        assert not any(self.waiting), "an event is missing"
        assert self.slave.writes == self.headers
        assert (self.untranslated, self.incomplete) == (self.skipped, self.absent)

    def drive(self):
        dut, rng, pace = self.dut, self.rng, self.pace
        dut.now.value = self.now
        if self.offered is None and self.queue and rng.random() < pace.notices:
            self.offered = self.queue.popleft()
            dut.notice.value = self.offered.pack()
            dut.notice_fence.value = sum(t % (1 << 24) << 24 * c for c, t in enumerate(self.offered.tickets))
            self.notice_at.append(self.now)
        dut.notice_valid.value = int(self.offered is not None)
        dut.merged.value = self.offered.pack_merged() if self.offered else rng.getrandbits(120)
        units, packets, flags = self.part or (rng.getrandbits(12), 0, rng.getrandbits(8))
        dut.board_read.value = units << 13 | packets << 8 | flags
        self.part = None  # board memory has a read latency of two cycles
        if self.offered and self.index >> 2 == self.offered.index:
            self.part = self.offered.parts[self.index & 3]
        for c in range(CHANNELS):
            if self.serials[c] < self.ticket[c] and rng.random() < pace.payloads:
                self.serials[c] += 1
        dut.done_serial.value = sum(s % (1 << 24) << 24 * c for c, s in enumerate(self.serials))
        dut.ev_ready.value = sum((rng.random() < pace.events) << d for d in range(DEVICES))
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
        self.index = int(dut.board_read_index.value)
        if DEVICES == 1 and int(dut.idle.value):
            coming = len(self.queue) + (self.offered is not None)
            assert len(self.waiting[0]) <= coming, "idle with a pending event"
        if self.offered and int(dut.notice_ready.value):
            self.offered = None
            self.taken_at.append(self.now)
        if int(dut.tlb_valid.value) and int(dut.tlb_ready.value):
            self.translation = (
                self.now + self.rng.randint(*self.pace.translation),
                int(dut.tlb_vaddr.value),
            )
        self.untranslated += int(dut.untranslated.value)
        self.incomplete += int(dut.incomplete.value)
        valid, ready = int(dut.ev_valid.value), int(dut.ev_ready.value)
        for device in range(DEVICES):
            if valid >> device & 1:
                self.event(device, int(dut.ev.value), ready >> device & 1)
            else:
                assert device not in self.first, "an event was withdrawn"
        self.done += int(dut.wr_done_valid.value)

    def event(self, device, value, taken):
        dut, want = self.dut, self.waiting[device][0]
        if device not in self.first:
            self.first[device] = value
            self.event_at.append(self.now)
            assert self.done >= want["headers"], "event before its header write"
            assert all(s >= t for s, t in zip(self.serials, want["tickets"], strict=True)), "nor payloads"
            got = {
                "kind": value & 0xFF,
                "flags": value >> 16 & 0xFFFF,
                "buffer": value >> 32 & 0xFFFFFFFF,
                "bytes": value >> 64 & 0xFFFFFFFF,
                "frame": value >> 96 & 0xFFFFFFFF,
                "n": value >> 192 & 0xFFFFFFFF,
                "start": int(dut.ev_start.value),
                "channel": int(dut.ev_channel.value),
                "promised": int(dut.ev_promised.value),
            }
            assert got == {key: want[key] for key in got} | {"n": want["n"] & 0xFFFFFFFF}
            assert value >> 8 & 0xFF == 0 and value >> 224 == 0  # fields of event_join and the event queue
            stamp = value >> 128 & (1 << 64) - 1
            # With several devices, each device's event is offered in a different cycle.
            assert stamp == self.now - 1 or (DEVICES > 1 and stamp < self.now)
        assert value == self.first[device], "an event changes while it is offered"
        if taken:
            self.waiting[device].popleft()
            del self.first[device]


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def events_follow_what_they_speak_of(dut, pace):
    bench = Bench(dut, PACES[pace], expected=0xF if pace == "nothing_waits" else 0xB)
    await bench.start()
    for _ in range(150):
        bench.put(bench.some())
    await bench.finish()
    assert bench.skipped and bench.absent and bench.headers


@cocotb.test()
async def cycles_from_notice_to_event_and_between_frames(dut):
    """Latency and throughput: 13 cycles from notification to event, 11 cycles per frame."""
    bench = Bench(dut, Pace())
    await bench.start()
    for _ in range(20):
        while not known(BASE[(one := bench.some(DONE)).n % DEVICES] + one.index // DEVICES * UNITS * 64):
            pass
        bench.put(one)
    await bench.finish()
    assert bench.event_at[0] - bench.notice_at[0] == 13
    gaps = {b - a for a, b in zip(bench.taken_at, bench.taken_at[1:], strict=False)}
    assert gaps == {11}, gaps


@pytest.mark.parametrize("devices", [1, 4])
def test_clop_close(devices):
    parameters = {"CHANNELS": CHANNELS, "MAX_BUFFERS": BUFFERS, "DEVICES": devices}
    simulate("clop_close", "test_clop_close", parameters, env={"NANET_DEVICES": str(devices)})
