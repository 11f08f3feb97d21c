# SPDX-License-Identifier: SHL-2.1
"""Bench of event_queues: a queue for each device, each source in order; promised events always fit."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import EventReader, Memory, MemorySlave, pack_event
from handshake import reset
from simulate import simulate

STREAM, LOG2 = 0x5A, 4
ENTRIES = 1 << LOG2
FREE_BITS = 2  # tag bits for an arbiter behind it
QUEUE, FINISHED = 0x1_2340_0000, 0x9_0000


def packed(event) -> int:
    """Return an event as the source sends it."""
    return pack_event(
        event.kind, event.n, event.stream, event.flags, event.buffer, event.bytes, event.frame, event.stamp
    )


def some_event(rng: random.Random, kind: int, number: int, stream: int) -> int:
    return pack_event(
        kind,
        n=number,
        stream=stream,
        flags=rng.getrandbits(16),
        buffer=rng.getrandbits(32),
        bytes_=rng.getrandbits(32),
        frame=rng.getrandbits(32),
        stamp=rng.getrandbits(64),
    )


class Bench:
    """Two sources, and a memory and a consumer for each device."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0, latency=(1, 1)):
        self.dut, self.rng = dut, rng
        self.devices = len(dut.receive_valid)
        self.memory = Memory()
        self.slave = MemorySlave(dut, self.memory, rate=rate, latency=latency, rng=rng)
        self.readers = [
            EventReader(self.memory, QUEUE + (d << 16), FINISHED + 64 * d, LOG2) for d in range(self.devices)
        ]
        self.rate = 1.0  # source activity
        # Events to be sent: device, event, promised.
        self.receive: deque[tuple[int, int, bool]] = deque()
        self.send: deque[tuple[int, int, bool]] = deque()
        self.promises: deque[int] = deque()
        self.taken: list[tuple[str, int, int]] = []  # (source, device, event)
        self.room = [0] * self.devices
        self.written: list[int] = []  # cycles of a write's last word
        self.cycle = 0

    async def start(self, poll: int = 5) -> None:
        dut = self.dut
        # start_clock is unsuitable: it writes outputs that are constants and stay overwritten.
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        each = lambda base, step: sum(base + step * d << 64 * d for d in range(self.devices))  # noqa: E731
        dut.receive_valid.value = dut.send_valid.value = dut.receive_promised.value = dut.promise.value = 0
        dut.receive.value = dut.send.value = 0
        dut.enable.value = 0
        dut.stream.value = STREAM
        dut.queue_base.value = each(QUEUE, 1 << 16)
        dut.finished_addr.value = each(FINISHED, 64)
        dut.log2_entries.value = LOG2
        dut.poll_cycles.value = poll
        await reset(dut)
        dut.enable.value = 1
        await ClockCycles(dut.clk, 4)
        self.task = cocotb.start_soon(self._run())

    async def stop(self) -> None:
        self.slave.stop()
        self.task.cancel()
        await RisingEdge(self.dut.clk)

    async def _run(self) -> None:
        dut = self.dut
        offers = {"receive": False, "send": False}
        while True:
            for name, queue in (("receive", self.receive), ("send", self.send)):
                offers[name] = bool(queue) and (offers[name] or self.rng.random() < self.rate)
                getattr(dut, f"{name}_valid").value = offers[name] << (queue[0][0] if queue else 0)
                if offers[name]:
                    getattr(dut, name).value = queue[0][1]
            dut.receive_promised.value = int(offers["receive"] and self.receive[0][2])
            dut.promise.value = 1 << self.promises.popleft() if self.promises else 0
            await FallingEdge(dut.clk)
            await ReadOnly()
            rooms = int(dut.room.value)
            self.room = [rooms >> 16 * d & 0xFFFF for d in range(self.devices)]
            for name, queue in (("receive", self.receive), ("send", self.send)):
                if offers[name] and int(getattr(dut, f"{name}_ready").value) >> queue[0][0] & 1:
                    device, event, _ = queue.popleft()
                    self.taken.append((name, device, event))
                    offers[name] = False
            if int(dut.wr_valid.value) and int(dut.wr_ready.value):
                assert (int(dut.wr_cmd.value) & 0xFF) >> 8 - FREE_BITS == 0, (
                    "tag bits of the arbiter are in use"
                )
                if int(dut.wr_last.value):
                    self.written.append(self.cycle)
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def until(self, what, cycles: int = 60_000) -> None:
        for _ in range(cycles):
            if what():
                return
            await RisingEdge(self.dut.clk)
        assert what()

    def check(self) -> None:
        """Each queue holds exactly its device's events, each source in order."""
        for device, reader in enumerate(self.readers):
            while reader.poll():
                pass
            got = [packed(event) for event in reader.events]
            for name, kinds in (("receive", (1, 3, 4, 5)), ("send", (2,))):
                want = [event for giver, d, event in self.taken if (giver, d) == (name, device)]
                if name == "receive":  # events of the receive path have no stream
                    want = [event & ~0xFF00 | STREAM << 8 for event in want]
                assert [event for event in got if event & 0xFF in kinds] == want
        assert all(len(data) == 32 for _, data in self.slave.writes)
        assert all(read.tag >> 8 - FREE_BITS == 0 for read in self.slave.reads)


@cocotb.test()
@cocotb.parametrize(("rate", (1.0, 0.3)), ("memory_rate", (1.0, 0.4)), ("reading", (0.5, 0.03)))
async def every_event_once_in_its_queue(dut, rate, memory_rate, reading):
    """Each buffer promises two entries and fills them at any time; unpromised events come in between."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, memory_rate, (1, 20))
    bench.rate = rate
    await bench.start()
    total, number = 150, 0
    owed = [[] for _ in range(bench.devices)]  # numbers with two events to come
    while number < total or any(owed) or bench.receive or bench.send:
        device = rng.randrange(bench.devices)
        if number < total and rng.random() < 0.4:
            # As in the placement: a buffer only with room for it and for all events in flight. A queue has
            # four entries for each buffer, so at most half of them are promised.
            room = bench.room[device] >= 6 and len(owed[device]) < ENTRIES // 4
            if rng.random() < 0.6 and room and not bench.promises and not bench.receive:
                bench.promises.append(device)
                owed[device].append([number, True, True])
                number += 1
            elif len(bench.receive) < 3:
                event = some_event(rng, rng.choice([3, 4, 5]), number, rng.getrandbits(8))
                bench.receive.append((device, event, False))
                number += 1
        if owed[device] and not bench.promises and rng.random() < 0.2:
            entry = rng.choice(owed[device])
            if entry[1] and len(bench.receive) < 3:
                entry[1] = False
                bench.receive.append((device, some_event(rng, 1, entry[0], rng.getrandbits(8)), True))
            elif not entry[1] and len(bench.send) < 3:
                owed[device].remove(entry)
                bench.send.append((device, some_event(rng, 2, entry[0], rng.getrandbits(8)), True))
        if rng.random() < reading:
            reader = rng.choice(bench.readers)
            while reader.poll():
                pass
            reader.publish()
        await RisingEdge(dut.clk)
        assert bench.cycle < 12_000
    await ClockCycles(dut.clk, 60)
    bench.check()
    await bench.stop()


@cocotb.test()
async def in_turn_and_an_event_every_three_cycles(dut):
    """Both sources and all devices busy: strictly alternating, each queue at its full rate."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start(poll=1000)
    for i in range(6):
        for name in ("receive", "send"):
            kind = 1 if name == "receive" else 2
            getattr(bench, name).append((0, some_event(rng, kind, i, 7), True))
    await bench.until(lambda: len(bench.slave.writes) == 12)
    givers = [giver for giver, _, _ in bench.taken]
    assert givers in (["receive", "send"] * 6, ["send", "receive"] * 6)
    gaps = [after - one for one, after in zip(bench.written, bench.written[1:], strict=False)]
    assert gaps == [3] * 11
    bench.check()
    await bench.stop()


@cocotb.test()
async def events_without_room_block_no_others(dut):
    """An unpromised event without room waits; promised ones overtake it."""
    rng = random.Random(cocotb.RANDOM_SEED)
    for at_once in (True, False):
        bench = Bench(dut, rng)
        await bench.start(poll=8)
        for device in range(bench.devices):
            bench.promises.extend([device] * 3)
        await bench.until(lambda bench=bench: not bench.promises)
        await ClockCycles(dut.clk, 3)
        assert bench.room == [ENTRIES - 6] * bench.devices
        last = bench.devices - 1
        # One more than fits; three of the sender follow.
        bench.receive.extend((last, some_event(rng, 3, i, 0), False) for i in range(ENTRIES - 6 + 1))
        send = [(last, some_event(rng, 2, i, 9), True) for i in range(3)]
        if at_once:
            bench.send.extend(send)
        else:
            await ClockCycles(dut.clk, 60)
            assert bench.room[last] == 0
            bench.send.extend(send)
        # Room grows only after a memory read, and the consumer has read nothing: no change.
        await ClockCycles(dut.clk, 100)
        assert not bench.send, "a promised event waits behind an unpromised one"
        assert bench.room[last] == 0
        # Other devices continue as well.
        if bench.devices > 1:
            bench.send.append((0, some_event(rng, 2, 77, 9), True))
            await ClockCycles(dut.clk, 20)
            assert not bench.send
        reader = bench.readers[last]
        while reader.poll():
            pass
        assert reader.k == ENTRIES - 6 + 3, "the event without room is not in the queue"
        reader.publish()
        await ClockCycles(dut.clk, 100)
        assert not bench.receive
        bench.check()
        await bench.stop()


@cocotb.test()
async def restarts_after_off(dut):
    """Entry 0 and lap 1 again, all entries free, no old events."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    for device in range(bench.devices):
        bench.receive.extend((device, some_event(rng, 4, i, 0), False) for i in range(7))
    await bench.until(lambda: len(bench.slave.writes) == 7 * bench.devices)
    bench.check()
    dut.enable.value = 0
    await ClockCycles(dut.clk, 20)
    for device, reader in enumerate(bench.readers):
        bench.memory.write(QUEUE + (device << 16), bytes(32 * ENTRIES))
        bench.memory.write(reader.finished, bytes(8))
        reader.k = 0
        reader.events.clear()
    bench.taken.clear()
    dut.enable.value = 1
    await ClockCycles(dut.clk, 20)
    assert bench.room == [ENTRIES] * bench.devices
    assert int(dut.half_free.value) == (1 << bench.devices) - 1
    bench.receive.append((0, some_event(rng, 5, 1, 0), False))
    await ClockCycles(dut.clk, 20)
    bench.check()
    assert bench.readers[0].k == 1


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_event_queues(devices):
    simulate("event_queues", "test_event_queues", {"DEVICES": devices, "FREE": FREE_BITS})
