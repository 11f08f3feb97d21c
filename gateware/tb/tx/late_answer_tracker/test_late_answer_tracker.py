# SPDX-License-Identifier: SHL-2.1
"""late_answer_tracker: each late answer is counted once, by its doorbell or by the sender's second look."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset
from simulate import simulate

BELLS = 16  # that wait


class Bench:
    """Sender and doorbells of the module; the reference is `late`, the numbers that wait for an answer."""

    def __init__(self, dut):
        self.dut = dut
        self.entries = int(dut.ENTRIES.value)
        self.next = 0  # all numbers below are passed
        self.sets: deque[tuple[int, int]] = deque()
        self.ask: tuple[int, int] | None = None  # number, found
        self.bells: deque[int] = deque()
        self.counted: list[int] = []  # cycles
        self.replies: list[tuple[int, int]] = []  # cycle, waiting
        self.set_at: list[int] = []
        self.ask_at: list[int] = []
        self.cycle = 0

    async def start(self) -> None:
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        dut.set_valid.value = dut.query_valid.value = dut.bell_valid.value = 0
        dut.set_n.value = dut.set_late.value = dut.query_n.value = dut.query_found.value = 0
        dut.bell_n.value = dut.next_n.value = 0
        await reset(dut)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self.dut
        mask = 0xFFFF_FFFF
        while True:
            dut.set_valid.value = int(bool(self.sets))
            if self.sets:
                dut.set_n.value, dut.set_late.value = self.sets[0][0] & mask, self.sets[0][1]
            dut.query_valid.value = int(self.ask is not None)
            if self.ask:
                dut.query_n.value, dut.query_found.value = self.ask[0] & mask, self.ask[1]
            dut.bell_valid.value = int(bool(self.bells))
            if self.bells:
                dut.bell_n.value = self.bells.popleft() & mask
            dut.next_n.value = self.next & mask
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.counted.value):
                self.counted.append(self.cycle)
            if int(dut.reply_valid.value):
                self.replies.append((self.cycle, int(dut.reply_waiting.value)))
            if self.sets and int(dut.set_ready.value):
                self.next = self.sets.popleft()[0] + 1
                self.set_at.append(self.cycle)
            if self.ask and int(dut.query_ready.value):
                self.ask = None
                self.ask_at.append(self.cycle)
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def quiet(self) -> None:
        """Until all that was asked is answered and all doorbells are looked at."""
        bells = len(self.bells)
        while self.sets or self.ask or self.bells:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 4 * bells + 8)


@cocotb.test()
async def cleared_first(dut):
    """After a reset nothing is waiting, whatever was before; it takes as many cycles as there are entries."""
    bench = Bench(dut)
    for _ in range(2):
        await bench.start()
        bench.cycle, bench.next = 0, 0
        bench.sets.extend((n, 1) for n in range(bench.entries))
        bench.set_at.clear()
        await ClockCycles(dut.clk, 2 * bench.entries + 20)
        # A cycle of the reset's end was waited for before the bench began to count.
        assert bench.set_at == list(range(bench.entries - 1, 2 * bench.entries - 1))
        bench.task.cancel()
    await bench.start()
    bench.replies.clear()
    bench.next = bench.entries  # as if they had been passed: only numbers that were are looked up
    for n in range(bench.entries):
        bench.ask = (n, 0)
        await bench.quiet()
    assert [waiting for _, waiting in bench.replies] == [0] * bench.entries and not bench.counted


@cocotb.test()
async def a_question_every_four_cycles(dut):
    """The answer comes three cycles after the question; a number that is passed goes before it."""
    bench = Bench(dut)
    await bench.start()
    bench.sets.extend([(5, 1), (6, 0)])
    await bench.quiet()
    for n, waiting in ((5, 1), (6, 0), (5, 1)):
        bench.ask = (n, 0)
        while len(bench.ask_at) == len(bench.replies):
            await RisingEdge(dut.clk)
        bench.ask = (n, 0)
        await bench.quiet()
        assert [w for _, w in bench.replies[-2:]] == [waiting] * 2
        asked, answered = bench.ask_at[-2:], [cycle for cycle, _ in bench.replies[-2:]]
        assert answered == [cycle + 3 for cycle in asked] and asked[1] - asked[0] == 4
    bench.sets.append((7, 1))
    bench.ask = (7, 1)
    await bench.quiet()
    assert bench.set_at[-1] < bench.ask_at[-1] and bench.replies[-1][1] == 1
    assert bench.counted == [bench.replies[-1][0]]


@cocotb.test()
@cocotb.parametrize(base=[0, 2**32 - 30])
async def counted_once(dut, base):
    """Random numbers, questions and doorbells, of numbers not yet passed and of numbers long gone as well."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut)
    await bench.start()
    bench.next = base
    late: set[int] = set()
    want, number = 0, base
    for _ in range(500):
        what = rng.random()
        if what < 0.4:
            is_late = rng.randrange(2)
            bench.sets.append((number, is_late))
            # What had this place before is forgotten.
            late -= {number - bench.entries}
            if is_late:
                late.add(number)
            number += 1
        elif what < 0.7 and number > base:
            # Not passed, or long gone, too: its place is another's.
            n = max(base, number - rng.randint(-3, 2 * bench.entries))
            found = rng.randrange(2)
            bench.ask = (n, found)
            await bench.quiet()
            assert bench.replies[-1][1] == (n in late)
            if found and n in late:
                late.remove(n)
                want += 1
        else:
            # Also in rows; a number not passed, or so long ago that its place is another's, is nothing.
            bells = [number + rng.randint(-2 * bench.entries, 5) for _ in range(rng.choice([1, 1, 2, BELLS]))]
            bells = [n for n in bells if n >= 0 or base]
            bench.bells.extend(bells)
            for n in bells:
                if n in late:
                    late.remove(n)
                    want += 1
        await bench.quiet()
        assert len(bench.counted) == want
    assert want > 50


@cocotb.test()
async def doorbells_wait_for_the_sender(dut):
    """Sixteen doorbells wait while numbers are passed; each is looked at after, one every four cycles."""
    bench = Bench(dut)
    await bench.start()
    bench.sets.extend((n, 1) for n in range(BELLS))
    await bench.quiet()
    bench.sets.extend((n, 0) for n in range(BELLS, BELLS + 24))
    bench.bells.extend(range(BELLS))
    if bench.entries < BELLS + 24:  # what is passed has the place of what is asked
        bench.sets.clear()
    await bench.quiet()
    await ClockCycles(dut.clk, 40)
    assert len(bench.counted) == BELLS
    gaps = {after - one for one, after in zip(bench.counted, bench.counted[1:], strict=False)}
    assert gaps == {4}
    if bench.entries >= BELLS + 24:
        assert bench.counted[0] > bench.set_at[-1]


@pytest.mark.parametrize("entries", [16, 64])
def test_late_answer_tracker(entries):
    simulate("late_answer_tracker", "test_late_answer_tracker", {"ENTRIES": entries})
