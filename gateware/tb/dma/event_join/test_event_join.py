# SPDX-License-Identifier: SHL-2.1
"""Bench of event_join: two sources in turn, each in order; events without room do not block promised ones."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import Event, pack_event
from handshake import reset
from simulate import simulate

STREAM = 0xA5


class Bench:
    """Both sources, and a queue that accepts unpromised events only while it has room."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0, queue_rate: float = 1.0):
        self.dut, self.rng, self.rate, self.queue_rate = dut, rng, rate, queue_rate
        self.receive: deque[tuple[int, int]] = deque()  # (event, promised)
        self.send: deque[int] = deque()
        self.got: list[tuple[int, int, int]] = []  # (cycle, event, promised)
        self.room = 100
        self.cycle = 0

    async def start(self) -> None:
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        dut.stream.value = STREAM
        dut.receive_valid.value = dut.send_valid.value = dut.ev_ready.value = 0
        dut.receive_promised.value = dut.receive.value = dut.send.value = 0
        dut.room.value = self.room
        await reset(dut)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self.dut
        gives, sends = False, False
        while True:
            gives = bool(self.receive) and (gives or self.rng.random() < self.rate)
            sends = bool(self.send) and (sends or self.rng.random() < self.rate)
            dut.receive_valid.value, dut.send_valid.value = int(gives), int(sends)
            if gives:
                dut.receive.value, dut.receive_promised.value = self.receive[0]
            if sends:
                dut.send.value = self.send[0]
            dut.room.value = self.room
            willing = self.rng.random() < self.queue_rate
            await FallingEdge(dut.clk)
            promised = int(dut.ev_promised.value)
            takes = willing and bool(promised or self.room)
            dut.ev_ready.value = int(takes)
            await ReadOnly()
            if takes and int(dut.ev_valid.value):
                self.got.append((self.cycle, int(dut.ev.value), promised))
                self.room -= not promised
            if gives and int(dut.receive_ready.value):
                self.receive.popleft()
                gives = False
            if sends and int(dut.send_ready.value):
                self.send.popleft()
                sends = False
            await RisingEdge(dut.clk)
            self.cycle += 1


def some_event(rng: random.Random, kind: int, number: int) -> int:
    return pack_event(kind, number, rng.getrandbits(8), frame=rng.getrandbits(32), stamp=rng.getrandbits(64))


def as_queued(event: int) -> int:
    """Return an event of the receive path as queued, without a stream."""
    return event & ~0xFF00 | STREAM << 8


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.3], queue_rate=[1.0, 0.4])
async def each_giver_in_order(dut, rate, queue_rate):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, rate, queue_rate)
    await bench.start()
    receive = [(some_event(rng, rng.choice([1, 3]), i), rng.randrange(2)) for i in range(100)]
    send = [some_event(rng, 2, i) for i in range(100)]
    bench.receive.extend(receive)
    bench.send.extend(send)
    bench.room = 0
    while bench.receive or bench.send:
        if rng.random() < 0.05:
            bench.room = rng.randrange(4)
        await RisingEdge(dut.clk)
        assert bench.cycle < 20_000
    await ClockCycles(dut.clk, 8)
    kind = lambda event: Event.unpack(event.to_bytes(32, "little")).kind  # noqa: E731
    got = [(event, promised) for _, event, promised in bench.got]
    assert [(e, p) for e, p in got if kind(e) != 2] == [(as_queued(e), p) for e, p in receive]
    assert [(e, p) for e, p in got if kind(e) == 2] == [(e, 1) for e in send]
    bench.task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def in_turn(dut):
    """Both sources busy: strictly alternating; one alone passes at the queue's full rate."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    bench.receive.extend((some_event(rng, 1, i), 1) for i in range(10))
    bench.send.extend(some_event(rng, 2, i) for i in range(20))
    await ClockCycles(dut.clk, 60)
    kinds = [event & 0xFF for _, event, _ in bench.got]
    assert kinds[:20] in ([1, 2] * 10, [2, 1] * 10) and kinds[20:] == [2] * 10
    cycles = [cycle for cycle, _, _ in bench.got]
    assert cycles == list(range(cycles[0], cycles[0] + 30))
    bench.task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def waiting_for_room_blocks_no_others(dut):
    """Without room, events of the receive path wait and those of the sender pass."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    bench.room = 2
    bench.receive.extend((some_event(rng, 3, i), 0) for i in range(4))
    await ClockCycles(dut.clk, 20)
    assert len(bench.got) == 2
    for i in range(5):
        bench.send.append(some_event(rng, 2, i))
        await ClockCycles(dut.clk, 8)
        assert not bench.send, "a promised event waits behind an unpromised one"
    assert len(bench.got) == 7
    bench.room = 1
    await ClockCycles(dut.clk, 8)
    assert [event & 0xFF for _, event, _ in bench.got[7:]] == [3]
    # A promised event of the receive path passes without room.
    bench.receive[0] = (as_queued(some_event(rng, 1, 9)), 1)
    bench.send.extend(some_event(rng, 2, i) for i in range(6))
    await ClockCycles(dut.clk, 8)
    kinds = [event & 0xFF for _, event, _ in bench.got[8:]]
    assert 1 in kinds[:2], "a promised event waits for room"


def test_event_join():
    simulate("event_join", "test_event_join")
