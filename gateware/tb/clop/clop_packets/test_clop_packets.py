# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_packets and clop_packets_close with the real firmware, against PacketCard.

tb/control/firmware compares that model (firmware_packets_model) with the socket card's receiver.
"""

import random
from collections import Counter, deque
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import Memory, MemorySlave
from firmware_model import RECEIVE_DONE, Event
from firmware_packets_model import PacketCard
from firmware_traffic import Traffic
from handshake import reset, signed_words, start_clock
from mgp import marker, packet
from microcontroller import Microcontroller
from reference_mgp import EOB
from simulate import simulate

CHANNELS, N, SLOT = 2, 8, 480
FIRST_N = 0xFFFF_FFFA  # the low word wraps
BASE = 0x7F00_1234_0000
OFFSET = 0x11_0000_0000  # bus address minus virtual address
TIMEOUT = 1 << 20
LOOK, BOTH = 0, 2
NAMES = {
    0: "packets_used",
    1: "late",
    3: "replayed_sequence",
    5: "overrun",
    6: "segment_overflow",
    7: "burst_markers",
    8: "unconfirmed_jump",
    9: "wrong_burst",
}


class Bench:
    """Modules with two channels, memory, page table, consumer, sender and firmware."""

    def __init__(self, dut, boards=0xF, packets=5, slow=False):
        self.dut, self.packets, self.slow = dut, packets, slow
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.boards, self.devices = boards, len(dut.ev_valid)
        self.units = (SLOT * packets + 63) // 64
        self.model = PacketCard(packets, boards=boards, buffers=N, segment=SLOT, timeout=TIMEOUT)
        self.memory = Memory()
        self.counts, self.expected = Counter(), Counter()
        self.queues = [deque() for _ in range(CHANNELS)]
        self.busy = [None] * CHANNELS
        self.events: list[Event] = []  # already compared
        self.held: list[int] = []  # numbers of the buffers that the consumer holds
        self.owed, self.overruns, self.promises, self.opened, self.deferred = [], 0, 0, 0, 0
        self.notified, self.payloads, self.tasks = 0, [], []
        self.paced = False  # set: buffer availability follows the bench's consumer, not the model's
        self.pages = True
        self.now = (5 << 32) - 60_000
        self.was_over, self.overdue = 0, False

    async def start(self):
        dut = self.dut
        start_clock(dut)
        bases = sum(BASE + (d << 32) << 64 * d for d in range(self.devices))
        for name, value in {
            "enable": 0,
            "boards": self.boards,
            "timeout_cycles": TIMEOUT,
            "drain": 0,
            "log2_buffers": (N // self.devices).bit_length() - 1,
            "log2_devices": self.devices.bit_length() - 1,
            "base_vaddr": bases,
            "buffer_units": self.units,
            "packets": self.packets,
            "slot_bytes": SLOT,
            "waits": 0,
            "now": self.now,
            "done_serial": 0,
            "sender_next": FIRST_N & 0xFFFFFFFF,
            "room": sum(1000 << 16 * d for d in range(self.devices)),
            "half_free": (1 << self.devices) - 1,
        }.items():
            getattr(dut, name).value = value
        self.firmware = Microcontroller(dut, wake=20, think=10)
        await reset(dut)
        dut.return_valid.value, dut.return_value.value = 1, 0  # as the driver does before the start
        for slot in range(N):
            dut.return_index.value = slot
            await RisingEdge(dut.clk)
        dut.return_valid.value = 0
        dut.enable.value = 1
        rate = 0.3 if self.slow else 1.0
        MemorySlave(dut, self.memory, rate=rate, rng=self.rng, read=False)
        self.ready_rate = rate
        self._soon(self._watch())
        self._soon(self._translate())
        self.serial = [0] * CHANNELS
        self.place = [0] * CHANNELS
        for c in range(CHANNELS):
            self._soon(self._channel(c))
        while not int(dut.ready.value):
            await RisingEdge(dut.clk)

    def _soon(self, coroutine):
        self.tasks.append(cocotb.start_soon(coroutine))

    # ------------------------------------------------------------ neighbouring modules

    async def _translate(self):
        dut = self.dut
        while True:
            dut.tlb_ready.value = int(self.rng.random() < self.ready_rate)
            await FallingEdge(dut.clk)
            await ReadOnly()
            asked = int(dut.tlb_valid.value) and int(dut.tlb_ready.value)
            vaddr = int(dut.tlb_vaddr.value)
            await RisingEdge(dut.clk)
            if asked:
                dut.tlb_ready.value = 0
                await ClockCycles(dut.clk, self.rng.choice([1, 7, 20]))
                dut.tlb_resp_valid.value, dut.tlb_resp_ok.value = 1, int(self.pages)
                dut.tlb_resp_paddr.value = vaddr + OFFSET
                await RisingEdge(dut.clk)
                dut.tlb_resp_valid.value = 0

    def _request(self, c, kind, data, stamp, hits):
        value = kind << 202 | 1 << 201 | self.serial[c] << 176 | hits << 160 | stamp << 128
        self.place[c] = value | int.from_bytes(data[:16], "little")
        self.dut.place.value = sum(value << 204 * i for i, value in enumerate(self.place))

    def _valid(self, c, on):
        self.valid = getattr(self, "valid", 0) & ~(1 << c) | on << c
        self.dut.place_valid.value = self.valid

    async def _ask(self, c, kind, data, stamp, hits):
        dut = self.dut
        self._request(c, kind, data, stamp, hits)
        self._valid(c, 1)
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            ready = int(dut.place_ready.value) >> c & 1
            await RisingEdge(dut.clk)
            if ready:
                break
        self._valid(c, 0)
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.placed_valid.value) >> c & 1:
                answer = [int(s.value) for s in (dut.placed_accept, dut.placed_defer, dut.placed_vaddr)]
                await RisingEdge(dut.clk)
                return answer

    async def _channel(self, c):
        """Model of rx_writer: requests, writes and completion reports."""
        dut = self.dut
        self.written = [deque() for _ in range(CHANNELS)]
        self._soon(self._write(c))
        while True:
            if not self.queues[c] or self.rng.random() < 0.1:
                await RisingEdge(dut.clk)
                continue
            data = self.queues[c].popleft()
            stamp, hits = self.now & 0xFFFFFFFF, self.rng.randrange(100)
            self.busy[c] = (data, self.now, hits)
            if len(data) > 80:
                accept, defer, _ = await self._ask(c, LOOK, data, stamp, hits)
                assert defer and not accept
                self.deferred += 1
                await ClockCycles(dut.clk, self.rng.randrange(30))
            accept, defer, vaddr = await self._ask(c, BOTH, data, stamp, hits)
            assert not defer
            self.busy[c] = None
            self.serial[c] += 1
            self.written[c].append((vaddr, data) if accept else None)

    async def _write(self, c):
        dut = self.dut
        while True:
            if not self.written[c]:
                await RisingEdge(dut.clk)
                continue
            await ClockCycles(dut.clk, self.rng.choice([1, 5, 40] if not self.slow else [20, 300]))
            item = self.written[c].popleft()
            if item:
                self.memory.write(item[0] + OFFSET, item[1])
            self.done = getattr(self, "done", [0] * CHANNELS)
            self.done[c] = self.done[c] + 1
            dut.done_serial.value = sum(value << 24 * i for i, value in enumerate(self.done))

    async def _watch(self):
        """Sample in the middle of each cycle, drive at its end."""
        dut = self.dut
        while True:
            dut.ev_ready.value = sum((self.rng.random() < self.ready_rate) << d for d in range(self.devices))
            dut.tx_pending_ready.value = int(self.rng.random() < self.ready_rate)
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.counted.value):
                self._compare_decision()
            over = int(dut.placement.dut.old_over_q.value)
            self.overdue = over and (self.overdue or not self.was_over)
            self.was_over = over
            if self.overdue and self.model.alarm <= self.now and not self.paced:
                self.model.expire(self.now)  # alarm and packets race; the model follows the order seen here
                self.overdue = False
            if taken := int(dut.ev_valid.value) & int(dut.ev_ready.value):
                self._event(int(dut.ev.value), taken)
            if int(dut.tx_pending_valid.value) and int(dut.tx_pending_ready.value):
                self.owed.append(int(dut.tx_pending.value))
            self.promises += bin(int(dut.promise.value)).count("1")
            self.opened += int(dut.buffer_pending.value)
            await RisingEdge(dut.clk)
            self.now += 1
            dut.now.value = self.now

    def _compare_decision(self):
        dut = self.dut
        valid = int(dut.placed_valid.value)
        assert valid in (1, 2)
        c = valid.bit_length() - 1
        data, stamp, hits = self.busy[c]
        name = NAMES[int(dut.counted_as.value)]
        self.counts[name] += 1
        if self.paced:
            return
        before = dict(self.model.counts)
        self.model.packet(data, stamp)
        did = [key for key in NAMES.values() if self.model.counts[key] != before[key]]
        assert did == [name], (did, name, self.now)
        assert int(dut.placed_accept.value) == (name == "packets_used")
        if name == "packets_used":
            assert int(dut.counted_hits.value) == hits
            assert int(dut.counted_events.value) == data[6]

    def _event(self, value, device):
        fields = value.to_bytes(32, "little")
        kind, stream, flags = fields[0], fields[1], int.from_bytes(fields[2:4], "little")
        buffer, size, frame = (int.from_bytes(fields[i : i + 4], "little") for i in (4, 8, 12))
        n = int.from_bytes(fields[24:28], "little")
        assert stream == 0 and 1 << n % self.devices == device
        if kind != RECEIVE_DONE:
            self.notified += 1
            assert (kind, flags, buffer) == (3, 8, 0) and not int(self.dut.ev_promised.value)
            self.overruns += size
            return
        assert int(self.dut.ev_promised.value)
        at = BASE + (n % self.devices << 32) + buffer * self.units * 64 + OFFSET
        slots = [self.memory.read(at + i * SLOT, SLOT) for i in range(self.packets)]
        lengths = [int.from_bytes(slot[4:6], "little") for slot in slots]
        full = [slot[:length] for slot, length in zip(slots, lengths, strict=True) if length]
        assert lengths[: len(full)] == [len(payload) for payload in full], "an empty slot before a used one"
        self.held.append(n)
        self.payloads += full
        if self.paced:
            return
        contents = b"".join(payload.ljust(SLOT, b"\0") for payload in full)
        index = (buffer * self.devices + n % self.devices - FIRST_N) % N  # the model's numbers begin at 0
        got = Event(RECEIVE_DONE, flags, index, size, frame, n - FIRST_N & 0xFFFFFFFF, contents)
        assert got == self.model.events.pop(0)
        self.events.append(got)

    # ------------------------------------------------------------ test steps

    def send(self, packets):
        for data in packets:
            self.queues[self.rng.randrange(CHANNELS)].append(data)

    async def quiet(self):
        """Wait until nothing is in flight."""
        dut = self.dut
        calm = 0
        for _ in range(20_000):
            await RisingEdge(dut.clk)
            busy = any(self.queues) or any(self.busy) or any(self.written) or int(dut.fw_interrupt.value)
            calm = 0 if busy or not int(dut.idle.value) else calm + 1
            if calm > 100:
                break
        else:
            raise AssertionError("the module does not become idle")
        assert not self.model.events
        assert self.overruns == self.model.counts["overrun"]
        assert self.promises == 1 * self.opened == self.model.counts["frames_in"]
        assert sum(signed_words(dut.missing)) == self.model.missing()
        assert [word >> 64 & (1 << 64) - 1 for word in self.owed] == [
            FIRST_N + i for i in range(len(self.owed))
        ]
        assert [word >> 128 & 0xFFFFFFFF for word in self.owed] == [event.frame for event in self.events]
        assert all(word >> 160 == 1 for word in self.owed)

    async def give_back(self, count=None, passes=True):
        """Return buffers in any order; the sender passes pending numbers."""
        dut = self.dut
        if passes:
            dut.sender_next.value = FIRST_N + len(self.owed) & 0xFFFFFFFF
        self.rng.shuffle(self.held)
        count = len(self.held) if count is None else min(count, len(self.held))
        for _ in range(count):
            n = self.held.pop()
            dut.return_valid.value, dut.return_index.value = 1, n % N
            dut.return_value.value = n + 1 & 0xFFFFFFFF
            await RisingEdge(dut.clk)
            index = (n - FIRST_N & 0xFFFFFFFF) % N
            if not self.paced:
                self.model.slots[index].back = True
        dut.return_valid.value = 0
        await ClockCycles(dut.clk, 10)


async def wild(dut, boards, packets, slow, steps):
    bench = Bench(dut, boards, packets, slow)
    await bench.start()
    rng = bench.rng
    traffic = Traffic(rng, [b for b in range(4) if boards >> b & 1] or [0xFF], odd_sob=False)
    for _ in range(steps):
        bench.send(traffic.step())
        if rng.random() < 0.1:
            await bench.quiet()
            if rng.random() < 0.8:
                await bench.give_back()
        if rng.random() < 0.01:
            await bench.quiet()
            bench.now += TIMEOUT + 100
            await ClockCycles(dut.clk, 500)
            bench.model.expire(bench.now)
        if rng.random() < 0.01:
            await bench.quiet()
            dut.drain.value = 1
            bench.model.drain(bench.now)
            await bench.quiet()
            dut.drain.value = 0
    await bench.quiet()
    dut._log.info("%s, %d events, %d looks", dict(bench.counts), len(bench.events), bench.deferred)
    for name in ("packets_used", "burst_markers", "late", "replayed_sequence", "unconfirmed_jump"):
        assert bench.counts[name] > 0, name
    return bench


@cocotb.test()
async def wild_traffic_as_the_model_has_it(dut):
    bench = await wild(dut, 0xF, 5, False, 300)
    assert bench.counts["overrun"] > 0


@cocotb.test()
async def wild_traffic_with_stalls_everywhere(dut):
    bench = await wild(dut, 0x5, 7, True, 150)
    assert bench.counts["segment_overflow"] > 0


@cocotb.test()
async def one_merged_stream_and_one_payload_in_a_buffer(dut):
    await wild(dut, 0, 1, False, 200)


async def steady(bench, packets, first=1, burst=7):
    """Send data of board 0 with consecutive sequence numbers, one by one, on channel 0."""
    rng = bench.rng
    for i in range(first, first + packets):
        bench.queues[0].append(packet(rng, 0, i, i, events=1, burst=burst))
    await bench.quiet()


@cocotb.test()
async def buffers_come_back_by_slot_and_sender(dut):
    bench = Bench(dut, 0x1, 2)
    await bench.start()
    await steady(bench, 2 * N)
    assert len(bench.events) == N and bench.counts["overrun"] == 0
    await steady(bench, 1, 100)
    assert bench.counts["overrun"] == 1  # no buffer returned
    # return value of a lap that never existed
    dut.return_valid.value, dut.return_index.value = 1, FIRST_N % N
    for wrong in (FIRST_N, FIRST_N + 2, FIRST_N + 1 + N, 0):
        dut.return_value.value = wrong & 0xFFFFFFFF
        await RisingEdge(dut.clk)
    dut.return_valid.value = 0
    await ClockCycles(dut.clk, 10)
    await steady(bench, 1, 101)
    assert bench.counts["overrun"] == 2
    await bench.give_back(passes=False)
    for slot in bench.model.slots.values():
        slot.back = False
    await steady(bench, 1, 102)
    assert bench.counts["overrun"] == 3  # returned, but not passed by the sender
    dut.sender_next.value = FIRST_N + 1
    bench.model.slots[0].back = True
    await steady(bench, 4, 103)
    assert bench.counts["overrun"] == 5 and len(bench.events) == N + 1
    assert bench.held == [FIRST_N + N & 0xFFFFFFFF]


@cocotb.test()
async def overruns_are_one_event_while_the_queue_is_half_full(dut):
    bench = Bench(dut, 0x1, 1)
    await bench.start()
    dut.room.value = sum(3 << 16 * d for d in range(bench.devices))
    dut.half_free.value = 0
    for slot in range(N):  # no room in the event queue counts as no buffer
        bench.model.slots[slot] = type("Slot", (), {"back": False})
    for i in range(1, 31):
        bench.queues[i % 2].append(packet(bench.rng, 0, i, i, events=0, burst=7))
    with pytest.raises(AssertionError, match="become idle"):
        await bench.quiet()  # the event waits for a half-empty queue
    assert bench.overruns == 0 and bench.counts["overrun"] == 30
    dut.half_free.value = (1 << bench.devices) - 1
    await bench.quiet()
    assert bench.overruns == 30 and bench.notified == 1
    await steady(bench, 2, 31)
    assert bench.notified == 3  # one event each
    bench.model.slots.clear()
    dut.room.value = sum(4 << 16 * d for d in range(bench.devices))
    await ClockCycles(dut.clk, 10)
    await steady(bench, 3, 33)
    assert bench.counts["packets_used"] == 3


@cocotb.test()
async def a_replay_waits_for_a_buffer(dut):
    bench = Bench(dut, 0x1, 2)
    await bench.start()
    dut.waits.value = 1
    for i in range(1, 2 * N + 4):
        bench.queues[i % 2].append(packet(bench.rng, 0, 1, i, events=3, burst=7))
    with pytest.raises(AssertionError, match="become idle"):
        await bench.quiet()
    assert bench.counts["packets_used"] == 2 * N and bench.counts["overrun"] == 0
    await bench.give_back()
    await bench.quiet()
    assert bench.counts["packets_used"] == 2 * N + 3 and len(bench.events) == N + 1


@cocotb.test()
async def unmapped_pages_leave_slots_unmarked(dut):
    bench = Bench(dut, 0x1, 5)
    await bench.start()
    bench.pages, skipped, closed = False, 0, 0
    bench.queues[0].append(packet(bench.rng, 0, 1, 1, events=1, burst=7))
    bench.queues[0].append(marker(0, EOB, 1, 2, 7))
    for _ in range(3000):
        await RisingEdge(dut.clk)
        skipped += int(dut.untranslated.value)
        closed += int(dut.incomplete.value)
    await bench.quiet()
    assert (skipped, closed, len(bench.events)) == (4, 1, 1)


async def paced(dut, pace):
    """Two channels back to back: each used packet is in a buffer once, at any pace of the consumer."""
    bench = Bench(dut, 0x3, 3)
    bench.paced = True
    await bench.start()
    sent = []
    for i in range(1, 150):
        for c in range(CHANNELS):
            sent.append(packet(bench.rng, c, i, i, events=2, burst=7))
            bench.queues[c].append(sent[-1])
    while any(bench.queues) or any(bench.busy):
        await ClockCycles(dut.clk, pace)
        if bench.held:
            await bench.give_back(1)
    for c in range(CHANNELS):
        bench.queues[c].append(marker(c, EOB, 150, 150, 7))
    await ClockCycles(dut.clk, 2000)
    assert int(dut.idle.value)
    got = Counter(bench.payloads)
    assert set(got.values()) == {1} and set(got) <= set(sent)
    assert len(got) == bench.counts["packets_used"]
    assert bench.counts == Counter(
        packets_used=len(got), overrun=len(sent) - len(got), burst_markers=CHANNELS
    )
    assert bench.overruns == bench.counts["overrun"]
    return bench


@cocotb.test()
async def a_consumer_that_keeps_up_gets_all(dut):
    bench = await paced(dut, 10)
    assert bench.overruns == 0


@cocotb.test()
async def a_consumer_that_does_not_gets_whole_buffers(dut):
    bench = await paced(dut, 400)
    assert bench.overruns > 0


SHORT = [
    "wild_traffic_with_stalls_everywhere",
    "one_merged_stream_and_one_payload_in_a_buffer",
    "buffers_come_back_by_slot_and_sender",
    "a_replay_waits_for_a_buffer",
    "unmapped_pages_leave_slots_unmarked",
]
DEALT_OUT = ["wild_traffic_as_the_model_has_it"]


@pytest.mark.parametrize(
    ("devices", "cases"), [(1, SHORT), (1, None), (2, DEALT_OUT)], ids=["short", "1", "2"]
)
def test_clop_packets(devices, cases):
    here = Path(__file__).resolve().parent
    simulate(
        "packets_bench",
        "test_clop_packets",
        parameters={"DEVICES": devices, "FIRST_N": f"64'd{FIRST_N}"},
        testcase=cases,
        optimise="-O1",
        extra=[here / "packets_bench.sv"],
    )
