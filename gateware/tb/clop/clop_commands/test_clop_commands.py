# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_commands: each command acts once, in order, on an idle pipeline; one request at a time."""

import random
from collections import Counter, deque
from dataclasses import dataclass

import cocotb
from cocotb.triggers import ClockCycles
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

FRAMES, GAP, SERIALS = 1 << 24, 1024, 1 << 24
BURST_BEGINS, LAST, SEEN, RESTART, BOARD, WATCH, CLOSE, ANSWER = range(8)
NAMES = ("burst", "last", "seen", "restart", "board", "watch", "close", "answer")
USED, ADMIT = 0, 10
COMMAND = (("op", 4), ("old", 1), ("flag", 1), ("board", 2), ("channel", 3), ("as", 4), ("frame", 24))
COMMAND += (("sequence_number", 32),)
BURST = (("known", 1), ("number", 8), ("base", 64), ("next", 25), ("started", 1), ("ending", 1))
BURST += (("ended", 1), ("over", 1), ("last_known", 24), ("last_n", 32))
SKIP = (("valid", 1), ("counted", 1), ("next", 25))
REPLY = (("valid", 1), ("keeps", 1), ("again", 1), ("admit", 1), ("first", 1), ("channel", 3))
REPLY += (("counted", 1), ("as", 4), ("ended", 1), ("serial", 24))


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
class Pace:
    """Activity rates of commands, packets and neighbouring modules."""

    commands: float = 1.0
    steps: float = 0.0
    holds: float = 0.0
    firmware: float = 1.0


PACES = {
    "nothing_else": Pace(),
    "packets": Pace(0.03, steps=0.5, firmware=0.1),
    "everything_is_held_up": Pace(0.5, holds=0.5, firmware=0.5),
    "everything": Pace(0.03, 0.3, 0.3, 0.3),
}


class Bench(Stepped):
    """Module with the firmware, clop's steps, opener, bursts, timers and notifications."""

    def __init__(self, dut, pace=None, seed=0, resets=0.0):
        self.dut, self.pace, self.resets = dut, pace or Pace(), resets
        self.rng, self.seen = random.Random(f"{cocotb.RANDOM_SEED} {seed}"), Counter()
        self.now, self.plan, self.command, self.taken_at = 0, deque(), None, 0
        self.next, self.started, self.last_known = 0, False, 0
        self.busy = self.opening = self.closing = self.holding = self.quiet = 0
        self.asked, self.rare, self.asks, self.offered = None, False, None, None
        self.closed = self.packet = self.was_calm = self.was_hold = self.was_closing = self.hold_burst = False
        self.calm = self.timer_room = True
        self.was_quiet = self.burst_wait = self.takes = 0
        self.done_at, self.taken, self.effect_at = [], [], []
        self.pulses, self.burst_waits = {}, (0, 0, 30)
        self.effects = {BURST_BEGINS: self.burst, LAST: self.last, CLOSE: self.close, ANSWER: self.answer}

    async def start(self):
        start_clock(self.dut)
        dut = self.dut
        dut.escalates.value = dut.closing.value = dut.burst_waits.value = 0
        dut.quiescent.value = dut.idle.value = dut.timer_room.value = 1
        dut.current.value = 0
        await reset(dut)
        cocotb.start_soon(self.run())

    # ------------------------------------------------------------------ stimuli

    def some_command(self):
        rng = self.rng
        ops = [BURST_BEGINS, LAST, LAST, LAST, SEEN, RESTART, BOARD, WATCH, CLOSE]
        op = rng.choice(ops)
        if self.asked and not self.rare and "replied" not in self.asked and rng.random() < 0.4:
            op, self.asked["replied"] = ANSWER, True
        one = {name: rng.getrandbits(width) for name, width in COMMAND} | {"op": op}
        if op == LAST:
            # Frame known before, pending up to the longest gap, or beyond it.
            near = rng.choice([-1, 0, 1, 2, 5, 40, GAP, GAP + 1, 5000])
            one["frame"] = min(max(max(self.next - 1, 0) + near, 0), FRAMES - 1)
            one["flag"] = rng.random() < 0.8
        if op == ANSWER:
            one["as"] = rng.choice([USED, ADMIT, 1, 2, 3, 7, 8, 9])
        return one

    def drive(self):
        dut, rng, pace = self.dut, self.rng, self.pace
        self.last_known = max(self.next - 1, 0)  # one cycle behind `next`
        if self.opening:  # opens all pending frames; clop takes longer
            self.opening -= 1
            self.next += 1
        self.apply()
        for name in ("busy", "closing", "holding"):
            setattr(self, name, max(getattr(self, name) - 1, 0))
        dut.rst.value = rng.random() < self.resets
        # A packet in the steps may be rare or of a new frame; nothing begins while a command waits.
        dut.escalates.value, self.asks = 0, None
        dut.escalate_channel.value, dut.escalate_board.value = rng.getrandbits(3), rng.getrandbits(2)
        dut.escalate_serial.value = rng.getrandbits(24)
        if self.busy == 1 and self.packet:
            chance = rng.random()
            if chance < 0.5 and not self.asked:
                serial = rng.choice([SERIALS - 1, rng.randrange(SERIALS)])
                self.asks = {"channel": rng.getrandbits(3), "board": rng.getrandbits(2), "serial": serial}
                dut.escalates.value = 1
                for name, value in self.asks.items():
                    getattr(dut, f"escalate_{name}").value = value
            elif chance < 0.8 and self.started and self.next < FRAMES:
                self.pulses["next"] = self.next + 1
        if not self.busy and not self.waiting() and rng.random() < pace.steps:
            self.busy, self.packet = 6, True
        if not self.holding and rng.random() < pace.holds / 8:
            self.holding = rng.randrange(1, 30)
        idle = not self.busy and not self.opening
        self.timer_room = not (self.holding and self.holding % 3)
        # Other reasons that block new operations: a due timer, or notifications.
        self.calm = idle and not (self.holding and self.holding % 2)
        self.hold_burst = self.now - self.taken_at < self.burst_wait if self.command else True
        dut.idle.value, dut.quiescent.value, dut.timer_room.value = idle, self.calm, self.timer_room
        dut.closing.value, dut.burst_waits.value = self.closing > 0, self.hold_burst
        self.quiet = self.quiet + 1 if idle else 0
        burst = {"next": self.next, "started": self.started, "last_known": self.last_known}
        dut.current.value = packed(rng, BURST, **burst)
        dut.slowpath_ready.value = self.takes = self.rare and rng.random() < pace.firmware
        if self.offered is None:
            if self.plan:
                self.offered = self.plan.popleft()
            elif rng.random() < pace.commands:
                self.offered = self.some_command()
        dut.command_valid.value = self.offered is not None
        dut.command.value = packed(rng, COMMAND, **(self.offered or {}))

    def waiting(self):
        return self.command is not None or self.now - (self.done_at or [-9])[-1] < 4

    def apply(self):
        """Apply the effects of the last cycle's pulses."""
        pulses, self.pulses = self.pulses, {}
        if "next" in pulses:
            self.next, self.started = pulses["next"], True
        if "begins" in pulses:
            self.next, self.started = 0, pulses["begins"]
        if "extend" in pulses:
            self.opening = pulses["extend"] + 1 - self.next
        if "closes" in pulses:
            self.closing = 20
        if "tracked" in pulses:
            self.busy, self.packet = 7, False
            self.started |= pulses["tracked"]

    # ------------------------------------------------------------------ checks

    def look(self):
        dut, one = self.dut, self.command
        got = {
            n: int(getattr(dut, n).value) for n in ("begins", "ends", "extend", "close", "tracked", "done")
        }
        skip, reply = unpacked(SKIP, int(dut.skip.value)), unpacked(REPLY, int(dut.response.value))
        some = any(got.values()) or skip["valid"] or reply["valid"] or reply["again"]
        if some:
            assert one, "an effect without a command"
            assert int(dut.now.value)
            # Effects of the last step or command are complete: nothing was in flight for four cycles.
            assert self.was_calm and self.was_quiet >= 4 and not self.was_closing
            self.effects.get(one["op"], self.board_numbers)(one, got, skip, reply)
            self.effect_at.append(self.now - self.taken_at)
        if one:
            assert int(dut.waiting.value) and not int(dut.command_ready.value)
            assert unpacked(COMMAND, int(dut.waiting_for.value)) == one
        if self.now - self.taken_at > 1 and one:
            assert int(dut.waiting_burst.value) == (one["op"] == BURST_BEGINS)
        if self.done_at and self.now - self.done_at[-1] in (1, 2):
            assert int(dut.waiting.value), "effects of the last operation are incomplete"
        self.question(dut)
        self.was_calm, self.was_quiet, self.was_closing = self.calm, self.quiet, self.closing > 0
        self.was_hold = self.hold_burst
        if got["done"]:
            self.seen[NAMES[one["op"]]] += 1
            self.done_at.append(self.now)
            self.command, self.closed = None, False
        if self.offered and int(dut.command_ready.value):
            assert not one and not got["done"]
            self.command, self.offered, self.taken_at = self.offered, None, self.now
            self.taken.append(self.now)
            self.burst_wait = self.rng.choice(self.burst_waits)
        if int(dut.rst.value):
            self.command = self.offered = self.asked = self.asks = None
            self.rare = self.closed = False
            self.done_at, self.pulses = [], {}
            self.busy = self.opening = self.closing = 0
            self.seen["reset"] += 1

    def question(self, dut):
        """Offer a packet to the firmware until it is accepted; it stays pending until it is answered."""
        assert int(dut.slowpath_valid.value) == self.rare
        if self.asked:
            answered = self.now - self.asked.get("answered", self.now)
            if answered < 2:
                assert int(dut.slowpath_busy.value)
                assert int(dut.slowpath_busy_board.value) == self.asked["board"]
            else:
                assert not int(dut.slowpath_busy.value)
                self.asked = None
        else:
            assert not int(dut.slowpath_busy.value)
        if self.takes:
            self.rare = False
        if self.asks:
            self.asked, self.rare = self.asks, True
            self.seen["escalates"] += 1

    # ------------------------------------------------------------------ effects, by command

    def only(self, got, skip, reply, *names):
        assert {name for name, value in got.items() if value} == set(names)
        assert not skip["valid"] or "skip" in names
        assert not reply["valid"] and not reply["again"]

    def burst(self, one, got, skip, reply):
        self.only(got, skip, reply, "begins", "done")
        assert not self.was_hold, "expected notifications of the other bursts"
        self.pulses["begins"] = bool(one["flag"])

    def last(self, one, got, skip, reply):
        """Set the last frame: pending frames up to it open, unless none is known or the gap is too long."""
        assert not reply["valid"] and not reply["again"]
        assert not any(got[name] for name in ("begins", "close", "tracked"))
        frame, newest = one["frame"], max(self.next - 1, 0)
        if not one["flag"] or (self.started and frame < self.next):
            want, name = (0, 1, 0, None), "ends: nothing is owed"
        elif not self.started:
            want, name = (0, 1, 0, (0, frame + 1)), "joined at its last frame"
        elif frame - newest > GAP:
            want, name = (0, 0, 0, (1, frame)), "skips"
        else:
            want, name = (1, 0, 1, None), "extend"
            assert self.timer_room, "no room for timers"
            self.pulses["extend"] = frame
        notified = (skip["counted"], skip["next"]) if skip["valid"] else None
        done = want[0] or want[1]
        assert (got["extend"], got["ends"], got["done"], notified) == (want[0], want[1], done, want[3]), name
        if notified:
            self.pulses["next"] = notified[1]
        self.seen[name] += 1

    def board_numbers(self, one, got, skip, reply):
        self.only(got, skip, reply, "tracked", "done")
        self.pulses["tracked"] = one["op"] == BOARD and not one["old"]  # SOB received

    def close(self, one, got, skip, reply):
        """Close a burst: the timers receive one pulse; the command completes when they finish."""
        self.only(got, skip, reply, "done" if self.closed else "close")
        if not self.closed:
            self.pulses["closes"] = True
        self.closed = True

    def answer(self, one, got, skip, reply):
        assert {name for name, value in got.items() if value} == {"done"} and not skip["valid"]
        again = one["as"] in (USED, ADMIT)
        assert (reply["valid"], reply["again"]) == (not again, again)
        assert reply["first"] and reply["channel"] == self.asked["channel"] and not reply["keeps"]
        if again:
            assert reply["admit"] == (one["as"] == ADMIT)
        else:
            want = {"counted": 1, "as": one["as"], "ended": 1, "serial": self.asked["serial"]}
            assert want.items() <= reply.items()
        self.asked["answered"] = self.now
        self.seen[f"again {again}"] += 1


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), seed=range(2))
async def commands_are_carried_out_in_order(dut, pace, seed):
    bench = Bench(dut, PACES[pace], seed)
    await bench.start()
    mixture = ["burst", "last", "seen", "restart", "board", "watch", "close", "ends: nothing is owed"]
    mixture += ["joined at its last frame", "skips", "extend"]
    if PACES[pace].steps:
        mixture += ["again False", "again True"]
    await ClockCycles(dut.clk, 1000)
    await wait(dut, lambda: all(bench.seen[name] for name in mixture), 20_000)


def command(op, **fields):
    return dict.fromkeys((name for name, _ in COMMAND), 0) | {"op": op} | fields


async def after(dut, *commands):
    """Send commands to the idle module and return the results."""
    bench = Bench(dut, Pace(commands=0.0))
    bench.burst_waits = (0,)
    bench.plan.extend(commands)
    await bench.start()
    await wait(dut, lambda: len(bench.done_at) == len(commands), 5000)
    return bench


@cocotb.test()
async def a_command_takes_five_cycles_and_one_comes_every_eight(dut):
    bench = await after(dut, command(BURST_BEGINS), command(LAST), command(LAST), command(SEEN))
    assert bench.effect_at == [5] * 4
    assert [b - a for a, b in zip(bench.taken, bench.taken[1:], strict=False)] == [8] * 3


@cocotb.test()
@cocotb.parametrize(gap=[0, 1, GAP, GAP + 1, FRAMES - 1])
async def a_gap_is_pending_unless_it_is_too_long(dut, gap):
    bench = await after(dut, command(BURST_BEGINS, flag=1), command(LAST, flag=1, frame=gap))
    assert (bench.seen["skips"], bench.seen["extend"]) == (gap > GAP, 1)


@cocotb.test()
async def a_burst_is_joined_at_the_last_frame_that_a_header_can_name(dut):
    bench = await after(dut, command(BURST_BEGINS), command(LAST, flag=1, frame=FRAMES - 1))
    await ClockCycles(dut.clk, 2)
    assert bench.next == FRAMES and bench.seen["joined at its last frame"] == 1


@cocotb.test()
async def reset_forgets_commands_and_questions(dut):
    bench = Bench(dut, PACES["everything"], resets=0.02)
    await bench.start()
    await wait(dut, lambda: bench.seen["reset"] > 60)
    bench.resets = 0.0
    done = bench.seen["last"]
    await wait(dut, lambda: bench.seen["last"] > done + 5)


def test_clop_commands():
    simulate("clop_commands", "test_clop_commands")
