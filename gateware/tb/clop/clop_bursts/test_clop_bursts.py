# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_bursts: two bursts in Python; their state, its latency, skipped frames."""

import os
import random
from collections import Counter, deque
from dataclasses import dataclass, field, replace

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

FIRST_N = int(os.environ.get("NANET_FIRST_N", "0"))
FRAMES = 1 << 24  # range of the frame number in a header
OPENED = (("valid", 1), ("ok", 1), ("last", 1), ("packet", 1), ("uses", 1), ("closes", 1))
OPENED += (("n", 64), ("frame", 25), ("after", 25), ("stamp", 64))
SKIP = (("valid", 1), ("counted", 1), ("next", 25))
BURST = (("known", 1), ("number", 8), ("base", 64), ("next", 25), ("started", 1), ("ending", 1))
BURST += (("ended", 1), ("over", 1), ("last_known", 24), ("last_n", 32))


def packed(rng, layout, **fields):
    """Return a packed structure; fields not given are random."""
    value = 0
    for name, width in layout:
        value = value << width | int(fields.get(name, rng.getrandbits(width)))
    return value


def unpacked(layout, value):
    out = {}
    for name, width in reversed(layout):
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


@dataclass
class Burst:
    """Burst with its state of the last three cycles: newest frame, next n, and whether it has ended."""

    known: bool = False
    number: int = 0
    base: int = 0
    next: int = 0
    started: bool = False
    ending: bool = False
    ended: bool = False
    open: int = 0
    since: int = 0  # cycle of the last change of position
    trace: deque = field(default_factory=lambda: deque([(0, 0, False)] * 3, maxlen=3))

    def now(self):
        """Record and return the state of this cycle."""
        over = self.known and self.ending and not self.open
        self.trace.append((max(self.next - 1, 0), (self.base + self.next) % (1 << 64), over))
        return replace(self, trace=list(self.trace))


class Bench(Stepped):
    """Module with clop's steps, the firmware's commands and the notifications."""

    def __init__(self, dut, seed=0, rate=0.0, resets=0.0):
        self.dut, self.rate, self.resets = dut, rate, resets
        self.rng = random.Random(f"{cocotb.RANDOM_SEED} {seed}")
        self.now = self.half = 0
        self.old, self.current, self.shown = Burst(), Burst(), None
        self.skips, self.seen = {}, Counter()
        self.script = deque()  # operations, one per cycle, before random ones

    async def start(self):
        start_clock(self.dut)
        self.put()
        await reset(self.dut)
        cocotb.start_soon(self.run())

    async def play(self, *operations):
        """Execute operations in sequence and wait for their results."""
        self.script.extend(operations)
        while self.script:
            await FallingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 6)

    def put(self, rst=0, begins=0, ends=0, starts=0, opened=None, shift=None, skip=None, closed=0):
        """Drive one cycle, with random invalid fields; the consumers' notifications run in parallel."""
        dut, rng, notified = self.dut, self.rng, 0
        for bit, one in ((1, self.current), (2, self.old)):
            if not begins and not notified and one.trace[-2][2] and not one.ended and rng.random() < 0.2:
                notified, one.ended = bit, True
                self.seen[f"notified {bit}"] += 1
        dut.rst.value, dut.begins.value, dut.ends.value, dut.starts.value = rst, begins, ends, starts
        dut.closed.value, dut.notified.value = closed, notified
        self.number, self.with_sob = rng.getrandbits(8), rng.getrandbits(1)
        dut.begins_number.value, dut.begins_started.value = self.number, self.with_sob
        for port, layout, value in (
            (dut.opened, OPENED, opened),
            (dut.shift, SKIP, shift),
            (dut.skip, SKIP, skip),
        ):
            port.value = packed(rng, layout, **(value or {"valid": 0}))

    # ------------------------------------------------------------------ operations of a cycle

    def begin(self):
        self.put(begins=1)
        self.seen["behind another"] += self.current.known
        base = self.current.trace[-1][1] if self.current.known else FIRST_N
        self.old, self.current = self.current, Burst(True, self.number, base, started=bool(self.with_sob))
        self.old.since = self.current.since = self.now + 1
        self.half ^= 1

    def close(self, chance=0.6):
        """Return the bursts, as bits {older, current}, that close a frame in this cycle."""
        bits = 0
        for bit, one in ((1, self.current), (2, self.old)):
            if one.open and self.rng.random() < chance:
                one.open -= 1
                bits |= bit
        self.seen[f"closed {bits}"] += 1
        return bits

    def open(self, ok=True, last=True, packet=True, closes=False, chance=0.3):
        one = self.current
        opened = {"valid": 1, "ok": ok, "last": last, "packet": packet, "closes": closes}
        opened |= {"n": (one.base + one.next) % (1 << 64), "frame": one.next, "after": one.next + 1}
        self.put(opened=opened, closed=self.close(chance))
        one.next += 1
        one.open += ok and not closes
        one.ending |= last and not packet
        self.seen["overrun" if not ok else "closed in the cycle of its opening" if closes else "opened"] += 1
        self.seen["pending numbers of a burst"] += last and not packet

    def skip(self, to, firmware):
        """Skip the frames before `to`; they are counted if the burst had frames before."""
        one, counted = self.current, self.current.started
        skip = {"valid": 1, "counted": counted, "next": to}
        # The first known frame of a burst may be its last; the same command then ends the burst.
        joins = firmware and not counted
        self.put(shift=None if firmware else skip, skip=skip if firmware else None, ends=joins)
        if counted:
            self.skips[self.now + 2] = to - one.next
        one.next, one.started, one.ending = to, True, one.ending or joins
        self.seen[f"skip {firmware} {counted}"] += 1

    def sob(self, which):
        self.put(starts=which)
        (self.current if which == 1 else self.old).started = True
        self.seen[f"SOB {which}"] += 1

    def end(self):
        self.put(ends=1)
        self.current.ending = True

    def random_operation(self):
        rng, one = self.rng, self.current
        if self.rate and not self.old.open and rng.random() < (0.02 if one.known else 0.2):
            # An idle phase without pending late updates; the firmware closes an older burst first.
            self.script.extend([self.put] * 4 + [self.begin] + [self.put] * 3)
        if rng.random() > self.rate or not one.known:
            return self.put()
        kind = rng.choices(["open", "close", "shift", "skip", "sob", "end"], (8, 7, 1, 0.5, 0.5, 0.4))[0]
        fresh = not one.ending and one.next < FRAMES - 1
        top = min(FRAMES - 1, one.next + rng.choice([3, 5000, FRAMES]))
        if kind == "open" and one.started and not one.ending and one.next < FRAMES:
            last, packet = rng.choice([(1, 1), (1, 1), (0, 1), (0, 0), (rng.random() < 0.2, 0)])
            closes = last and packet and rng.random() < 0.3
            self.open(closes or rng.random() < 0.8, last, packet, closes)
        elif kind == "shift" and fresh:
            self.skip(rng.randrange(one.next, top) + 1, firmware=False)
        elif kind == "skip" and fresh:
            self.skip(rng.randrange(one.next, top) + 1, firmware=True)
        elif kind == "sob":
            self.sob(rng.choice([1, 2]) if self.old.known else 1)
        elif kind == "end" and one.started:
            self.end()
        else:
            self.put(closed=self.close())

    # ------------------------------------------------------------------ every cycle

    def drive(self):
        self.shown = self.old.now(), self.current.now(), self.half, self.skips.pop(self.now, None)
        if self.script:
            self.script.popleft()()
        elif self.rng.random() < self.resets:
            skip = {"valid": 1, "counted": 1}
            self.put(rst=1, begins=self.rng.getrandbits(1), starts=3, opened={"valid": 1, "ok": 1}, skip=skip)
            self.old, self.current, self.half = Burst(since=self.now + 1), Burst(since=self.now + 1), 0
            self.skips.clear()
            self.seen["reset"] += 1
        else:
            self.random_operation()

    def look(self):
        if not self.shown:
            return
        dut, (old, current, half, skipped) = self.dut, self.shown
        for port, one in ((dut.old, old), (dut.current, current)):
            got, age = unpacked(BURST, int(port.value)), self.now - one.since
            want = {name: getattr(one, name) for name in ("known", "number", "base", "next", "started")}
            want |= {"ending": one.ending, "ended": one.ended, "over": one.trace[-2][2]}
            if age >= 1:
                want["last_known"] = one.trace[-2][0]
            if age >= 2:
                want["last_n"] = (one.base + one.trace[-3][0]) % (1 << 32)
            if not one.known:
                want = {"known": False, "over": False}
            assert want.items() <= got.items(), f"{got}, not {want}"
        age = self.now - current.since
        if age >= 1 and current.known:
            assert int(dut.end_n.value) == current.trace[-2][1]
        if age >= 2:
            assert int(dut.next_base.value) == (current.trace[-3][1] if current.known else FIRST_N)
        assert int(dut.half.value) == half
        got = int(dut.skipped.value) if int(dut.skipped_valid.value) else None
        assert got == skipped, "skipped frames"


@cocotb.test()
@cocotb.parametrize(seed=range(2), rate=[0.15, 0.6, 1.0])
async def bursts_come_and_go(dut, seed, rate):
    bench = Bench(dut, seed, rate)
    await bench.start()
    await ClockCycles(dut.clk, 1500)
    mixture = [
        "opened",
        "overrun",
        "closed in the cycle of its opening",
        "pending numbers of a burst",
        "behind another",
    ]
    mixture += [
        "closed 1",
        "closed 2",
        "closed 3",
        "notified 1",
        "notified 2",
        "SOB 1",
        "SOB 2",
    ]
    mixture += [f"skip {firmware} {counted}" for firmware in (True, False) for counted in (True, False)]
    await wait(dut, lambda: all(bench.seen[name] for name in mixture), 20_000)


@cocotb.test()
async def reset_forgets_everything(dut):
    bench = Bench(dut, rate=0.9, resets=0.01)
    await bench.start()
    await wait(dut, lambda: bench.seen["reset"] > 40)


@cocotb.test()
async def frames_up_to_the_last_that_a_header_can_name(dut):
    """Frame 2^24 - 1, the largest in a header: opened alone or joined at; the next burst follows it."""
    bench = Bench(dut)
    await bench.start()
    await bench.play(bench.begin, lambda: bench.sob(1), lambda: bench.skip(FRAMES - 1, True), bench.open)
    last = unpacked(BURST, int(dut.current.value))
    assert (last["next"], last["last_known"]) == (FRAMES, FRAMES - 1)
    await bench.play(bench.end, lambda: bench.put(closed=bench.close(1)))
    await bench.play(bench.begin)
    assert unpacked(BURST, int(dut.current.value))["base"] == (FIRST_N + FRAMES) % (1 << 64)
    while bench.current.started:  # started by the SOB
        await bench.play(bench.begin)
    await bench.play(lambda: bench.skip(FRAMES, True))
    last = unpacked(BURST, int(dut.current.value))
    assert (last["last_known"], last["over"]) == (FRAMES - 1, 1)
    await bench.play(bench.begin)
    old = unpacked(BURST, int(dut.old.value))
    assert old["last_n"] == (old["base"] + FRAMES - 1) % (1 << 32)


@cocotb.test()
async def an_older_burst_is_over_with_its_last_frame(dut):
    """An older burst ends with its last frame, while frames of the current one are opened and closed."""
    bench = Bench(dut)
    await bench.start()
    await bench.play(bench.begin, lambda: bench.sob(1), *[lambda: bench.open(chance=0)] * 3, bench.end)
    await bench.play(bench.begin, lambda: bench.sob(1), *[lambda: bench.open(chance=0)] * 2)
    assert not unpacked(BURST, int(dut.old.value))["over"]
    await bench.play(*[lambda: bench.open(chance=1)] * 3)
    assert unpacked(BURST, int(dut.old.value))["over"]
    assert not unpacked(BURST, int(dut.current.value))["over"]


@cocotb.test()
async def as_many_frames_open_as_there_may_be_buffers(dut):
    bench = Bench(dut)
    start_clock(dut)
    bench.put()
    await reset(dut)

    async def for_cycles(cycles, **inputs):
        bench.put(**inputs)
        await ClockCycles(dut.clk, cycles)
        bench.put()
        await ClockCycles(dut.clk, 3)
        return unpacked(BURST, int(dut.current.value))["over"]

    await for_cycles(1, begins=1)
    assert not await for_cycles(32768, opened={"valid": 1, "ok": 1, "last": 1, "packet": 0, "closes": 0})
    assert not await for_cycles(32767, closed=1)
    assert await for_cycles(1, closed=1)


@pytest.mark.parametrize("first_n", [0, (1 << 33) - 1000])
def test_clop_bursts(first_n):
    parameters, env = {"FIRST_N": f"64'd{first_n}"}, {"NANET_FIRST_N": str(first_n)}
    simulate("clop_bursts", "test_clop_bursts", parameters, env=env)
