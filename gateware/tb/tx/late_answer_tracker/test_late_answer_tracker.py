# SPDX-License-Identifier: SHL-2.1
"""Bench of late_answer_tracker: counts each late answer once, by doorbell or by the sender's second look."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset
from simulate import simulate

BELLS = 16  # waiting doorbells


class Bench:
    """Sender and doorbells of the module; reference: `late`, the numbers without an answer."""

    def __init__(self, dut):
        self.dut = dut
        self.entries = int(dut.ENTRIES.value)
        self.next = 0  # all lower numbers are passed
        self.sets: deque[tuple[int, int]] = deque()
        self.ask: tuple[int, int] | None = None  # (number, found)
        self.bells: deque[int] = deque()
        self.counted: list[int] = []  # cycles
        self.replies: list[tuple[int, int]] = []  # (cycle, waiting)
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
        """Wait until all queries are answered and all doorbells processed."""
        bells = len(self.bells)
        while self.sets or self.ask or self.bells:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 4 * bells + 8)


@cocotb.test()
async def cleared_first(dut):
    """After a reset no number is waiting; clearing takes one cycle per entry."""
    bench = Bench(dut)
    for _ in range(2):
        await bench.start()
        bench.cycle, bench.next = 0, 0
        bench.sets.extend((n, 1) for n in range(bench.entries))
        bench.set_at.clear()
        await ClockCycles(dut.clk, 2 * bench.entries + 20)
        # The bench starts counting one cycle after the end of the reset.
        assert bench.set_at == list(range(bench.entries - 1, 2 * bench.entries - 1))
        bench.task.cancel()
    await bench.start()
    bench.replies.clear()
    bench.next = bench.entries  # as if passed: queries are for passed numbers only
    for n in range(bench.entries):
        bench.ask = (n, 0)
        await bench.quiet()
    assert [waiting for _, waiting in bench.replies] == [0] * bench.entries and not bench.counted


@cocotb.test()
async def a_question_every_four_cycles(dut):
    """Latency of a query: three cycles; one every four cycles; a passed number goes first."""
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
    """Random numbers, queries and doorbells, including numbers not yet passed or overwritten."""
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
            # The previous number of this entry is lost.
            late -= {number - bench.entries}
            if is_late:
                late.add(number)
            number += 1
        elif what < 0.7 and number > base:
            # Includes numbers that are not passed, or overwritten by another in the same entry.
            n = max(base, number - rng.randint(-3, 2 * bench.entries))
            found = rng.randrange(2)
            bench.ask = (n, found)
            await bench.quiet()
            assert bench.replies[-1][1] == (n in late)
            if found and n in late:
                late.remove(n)
                want += 1
        else:
            # Up to 16 in a row; numbers that are not passed or overwritten have no effect.
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
    """Sixteen doorbells wait while numbers are passed; then one is processed every four cycles."""
    bench = Bench(dut)
    await bench.start()
    bench.sets.extend((n, 1) for n in range(BELLS))
    await bench.quiet()
    bench.sets.extend((n, 0) for n in range(BELLS, BELLS + 24))
    bench.bells.extend(range(BELLS))
    if bench.entries < BELLS + 24:  # passed numbers overwrite the queried entries
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
