# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_timers: open frames expire by time, by newer frames, by number, or with their burst."""

import random
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

BUFFERS = 32
START = 0xFFFF_FF00  # time and numbers wrap
LOOK = 6  # longest time in cycles from one timer to the next


@dataclass
class Frame:
    """Open or closed frame, as last written to its slot."""

    n: int
    first: int
    open: bool = True
    written_at: int = 0


class Bench(Stepped):
    """Module with clop: frames are opened, retimed and closed."""

    def __init__(self, dut, timeout=0, grace=0, window=0):
        self.dut, self.timeout, self.grace, self.window = dut, timeout, grace, window
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.now = self.end = self.base = START
        self.passed = 0  # frames of the newest burst below are due
        self.frames: dict[int, Frame] = {}  # by slot
        self.opens = self.retimes = self.closes = self.takes = 0.0  # probability per cycle
        self.due: list[tuple[int, int, bool]] = []  # (cycle, n, forced)
        self.moved: list[int] = []
        self.close = None  # close pulse of the older burst, in this cycle
        self.closing: list[Frame] = []  # frames, one per cycle
        self.offered, self.pushed_at, self.taken = None, -10, None

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.timeout_cycles.value, dut.grace_cycles.value = self.timeout, self.grace
        dut.window_frames.value, dut.index_mask.value = self.window, BUFFERS - 1
        dut.push.value = dut.slot_we.value = dut.close.value = dut.close_old.value = 0
        dut.begins.value = 0
        dut.now.value = self.now
        dut.base_n.value = dut.end_n.value = self.end
        dut.due_frames.value = 0
        await reset(dut)
        cocotb.start_soon(self.run())
        await self.wait(2)

    async def wait(self, cycles):
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)

    @property
    def open(self):
        return [frame for frame in self.frames.values() if frame.open]

    def write(self, frame):
        dut, frame.written_at = self.dut, self.now
        dut.slot_we.value, dut.slot_addr.value = 1, frame.n % BUFFERS
        dut.slot_open.value, dut.slot_first.value = int(frame.open), frame.first & 0xFFFFFFFF

    def push(self, frame):
        self.dut.push.value, self.dut.push_n.value = 1, frame.n & 0xFFFFFFFF
        self.dut.push_first.value = frame.first & 0xFFFFFFFF
        self.pushed_at = self.now

    def drive(self):
        """One operation per cycle, as in clop: a timer is set in the cycle in which its slot is written."""
        dut, rng = self.dut, self.rng
        dut.push.value = dut.slot_we.value = 0
        dut.close.value = int(self.close is not None)
        dut.close_old.value = int(bool(self.close))
        closing, self.close = self.close is not None, None
        self.willing = rng.random() < self.takes
        dut.due_ready.value = int(self.willing)
        if self.taken:  # clop closes it some cycles later and does nothing else until then
            at, n = self.taken
            if self.now - at == 6:
                frame = self.frames[n % BUFFERS]
                if frame.open and frame.n & 0xFFFFFFFF == n:
                    frame.open = False
                    self.write(frame)
                self.taken = None
        elif self.closing:
            frame = self.closing.pop(0)
            frame.open = False
            self.write(frame)
        elif self.now - self.pushed_at > 4 and not closing and not int(dut.closing.value):
            frame = self.frames.get(self.end % BUFFERS)
            chance = rng.random()
            if chance < self.opens and int(dut.room.value) and not (frame and frame.open):
                frame = Frame(self.end, self.now - rng.randrange(50))
                self.frames[self.end % BUFFERS] = frame
                self.end += 1
                self.write(frame)
                self.push(frame)
            elif chance < self.opens + self.closes and self.open:
                frame = rng.choice(self.open)
                frame.open = False
                self.write(frame)
            elif chance < self.opens + self.closes + self.retimes and self.open and int(dut.room.value):
                frame = rng.choice(self.open)
                frame.first = self.now - rng.randrange(20)
                self.write(frame)
                self.push(frame)
        dut.end_n.value, dut.base_n.value = self.end & 0xFFFFFFFF, self.base & 0xFFFFFFFF
        dut.due_frames.value = self.passed
        dut.now.value = self.now & 0xFFFFFFFF

    def look(self):
        dut = self.dut
        if int(dut.moved.value):
            self.moved.append(self.now)
        if not int(dut.due_valid.value):
            assert self.offered is None or int(dut.close.value), "a timer was withdrawn"
            self.offered = None
            return
        n, first, forced = (int(s.value) for s in (dut.due_n, dut.due_first, dut.due_forced))
        old = bool(int(dut.due_old.value))
        if self.offered is None:
            assert old == bool((n - self.base) >> 31 & 1)
            if forced:
                assert old == self.forced_old, "a timer of the other burst"
            else:
                aged = self.timeout and (self.now - first) % (1 << 32) >= self.timeout + self.grace
                behind = self.window and (self.end - n) % (1 << 32) > self.window
                passed = not old and (n - self.base) % (1 << 32) < self.passed
                assert aged or behind or passed, f"{n:x} has not expired"
            # Closing a burst also offers stale timers of earlier frames in the same slot.
            frame = self.frames[n % BUFFERS]
            own = frame.open and (frame.n & 0xFFFFFFFF, frame.first & 0xFFFFFFFF) == (n, first)
            assert own or forced or self.now - frame.written_at < 8, "a stale timer"
            if frame.open and frame.n & 0xFFFFFFFF == n:
                self.due.append((self.now, n, bool(forced)))
        self.offered = (n, first, old)
        if self.willing:
            self.taken, self.offered = (self.now, n), None

    async def all_closed(self, cycles):
        for _ in range(cycles):
            if not self.open:
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"{len(self.open)} frames stay open")


async def traffic(bench, cycles):
    """Open and close frames at random; each closes at its time plus the processing of the others."""
    bench.opens, bench.closes, bench.retimes = 0.06, 0.03, 0.02
    for _ in range(cycles):
        await RisingEdge(bench.dut.clk)
        for frame in bench.open:
            age = bench.now - frame.first
            longest = bench.timeout + bench.grace + 3 * LOOK * 2 * BUFFERS if bench.timeout else cycles
            assert age < longest, f"{frame.n:x} open for {age} cycles"


@cocotb.test()
async def frames_come_due_by_the_clock(dut):
    bench = Bench(dut, timeout=300, grace=40)
    bench.takes = 1.0
    await bench.start()
    await traffic(bench, 4000)
    assert len(bench.due) > 20
    bench.opens = bench.retimes = bench.closes = 0
    await bench.all_closed(1200)


@cocotb.test()
async def one_that_is_taken_late_stays_offered(dut):
    bench = Bench(dut, timeout=200)
    bench.takes = 0.1
    await bench.start()
    await traffic(bench, 4000)
    assert len(bench.due) > 20


@cocotb.test()
async def nothing_comes_due_without_a_time(dut):
    bench = Bench(dut)
    bench.takes = 1.0
    await bench.start()
    await traffic(bench, 1500)
    assert bench.due == [] and bench.open


@cocotb.test()
async def frames_are_overtaken_by_newer_ones(dut):
    bench = Bench(dut, window=10)
    bench.takes = 1.0
    await bench.start()
    await traffic(bench, 4000)
    bench.opens = bench.retimes = bench.closes = 0
    await bench.wait(600)
    assert len(bench.due) > 20 and bench.open
    assert all(bench.end - frame.n <= 10 for frame in bench.open)


@cocotb.test()
async def frames_are_due_by_their_number(dut):
    """Frames of the burst below the number close whatever their time; the others stay open."""
    bench = Bench(dut, timeout=100_000)
    bench.takes = 1.0
    await bench.start()
    for _ in range(3):
        bench.opens, bench.closes = 0.06, 0.01
        for _ in range(15):
            await bench.wait(100)
            bench.passed = max(bench.passed, bench.end - bench.base - bench.rng.randrange(12))
            kept = [frame for frame in bench.open if frame.n - bench.base >= bench.passed]
            taken = len(bench.due)
            await bench.wait(LOOK * 2 * BUFFERS)
            assert all(frame.n - bench.base >= bench.passed for frame in bench.open)
            assert {n for _, n, _ in bench.due[taken:]}.isdisjoint(f.n & 0xFFFFFFFF for f in kept)
        bench.opens = 0
        bench.passed = bench.end - bench.base
        await bench.all_closed(1200)
        bench.passed, bench.base = 0, bench.end
    assert len(bench.due) > 20


@cocotb.test()
async def a_burst_is_closed_and_the_other_is_not(dut):
    """Closes all open frames of a burst, whatever their time; timers of the other burst keep their times."""
    bench = Bench(dut, timeout=100_000)
    bench.takes = 0.5
    await bench.start()
    for old in (True, False, True, True, False):
        bench.opens, bench.closes, bench.retimes = 0.1, 0.02, 0.02
        await bench.wait(120)
        bench.base = bench.end
        await bench.wait(120)
        bench.opens = bench.closes = bench.retimes = 0
        await bench.wait(10)
        of = [[f.n for f in bench.open if (f.n < bench.base) == which] for which in (False, True)]
        assert of[0] and of[1]
        bench.due.clear()
        bench.close = bench.forced_old = old
        await bench.wait(3)
        assert int(dut.closing.value)
        for _ in range(3000):
            if not int(dut.closing.value):
                break
            await RisingEdge(dut.clk)
        assert not int(dut.closing.value), "the search does not end"
        await bench.wait(20)
        assert sorted(n for _, n, _ in bench.due) == sorted(n & 0xFFFFFFFF for n in of[old])
        assert all(forced for _, _, forced in bench.due)
        assert sorted(frame.n for frame in bench.open) == sorted(of[not old])


@cocotb.test()
async def a_timer_of_a_closed_frame_takes_six_cycles(dut):
    bench = Bench(dut, timeout=100_000)
    bench.takes, bench.opens = 1.0, 1.0
    await bench.start()
    while len(bench.open) < 12:
        await RisingEdge(dut.clk)
    bench.opens = 0
    # The oldest frame stays open longest; the others wait behind it.
    bench.closing = sorted(bench.open, key=lambda frame: -frame.n)
    await bench.wait(11)
    assert bench.moved == [] and len(bench.open) == 1
    await bench.wait(120)
    gaps = [b - a for a, b in zip(bench.moved, bench.moved[1:], strict=False)]
    assert gaps == [6] * 11, gaps


@cocotb.test()
async def a_timer_is_offered_within_five_cycles_of_its_time(dut):
    """A timer is read every five cycles: it is offered at most 4 cycles and one read after it expires."""
    bench = Bench(dut, timeout=150, grace=10)
    bench.takes = 1.0
    await bench.start()
    for _ in range(12):
        bench.opens = 1.0
        while not bench.open:
            await RisingEdge(dut.clk)
        bench.opens = 0.0
        frame = bench.open[0]
        await bench.all_closed(400)
        late = bench.due[-1][0] - frame.first - 160
        assert 0 < late <= 8, late
        await bench.wait(bench.rng.randrange(10))


@cocotb.test()
@cocotb.parametrize(phase=range(16))
async def a_burst_is_closed_while_dead_timers_are_dropped(dut, phase):
    """A burst may close in any cycle: each existing timer is visited, dropped ones are not."""
    bench = Bench(dut, timeout=100_000)
    bench.takes, bench.opens = 1.0, 1.0
    await bench.start()
    await wait(dut, lambda: len(bench.open) >= 12)
    bench.opens = 0
    await bench.wait(10)
    bench.base = bench.end
    await bench.wait(10)
    bench.closing = sorted(bench.open, key=lambda frame: -frame.n)
    await bench.wait(30 + phase)
    bench.close = bench.forced_old = True
    await bench.wait(3)
    await wait(dut, lambda: not int(dut.closing.value), 3000)


@cocotb.test()
@cocotb.parametrize(phase=range(16))
async def a_frame_that_comes_due_as_a_burst_begins_is_the_older_ones(dut, phase):
    """A burst begins when no timer is offered; its base is visible two cycles later, as from clop_bursts."""
    bench = Bench(dut, timeout=300)
    bench.takes, bench.opens = 0.0, 1.0
    await bench.start()
    await wait(dut, lambda: bench.open)
    bench.opens = 0
    frame = bench.open[0]
    await wait(dut, lambda: bench.now - frame.first >= 292 + phase)
    if int(dut.due_valid.value):
        return
    dut.begins.value = 1
    await bench.wait(1)
    dut.begins.value = 0
    bench.base = bench.end
    await bench.wait(40)
    assert int(dut.due_valid.value) and int(dut.due_old.value)


def test_clop_timers():
    simulate("clop_timers", "test_clop_timers", {"MAX_BUFFERS": BUFFERS})
