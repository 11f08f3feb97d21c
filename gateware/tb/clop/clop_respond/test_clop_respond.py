# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_respond: answers and counts each packet once; the channel's write fence follows."""

import os
import random
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

CHANNELS = int(os.environ.get("NANET_CHANNELS", "2"))
SERIALS = 1 << 24
USED, LATE, DUPLICATE, REPLAYED, OVERRUN, OVERFLOW, MARKER, JUMP, WRONG_BURST, ADMIT = (
    0,
    1,
    2,
    3,
    5,
    6,
    7,
    8,
    9,
    10,
)
OPENED = (("valid", 1), ("ok", 1), ("last", 1), ("packet", 1), ("uses", 1), ("closes", 1))
OPENED += (("n", 64), ("frame", 25), ("after", 25), ("stamp", 64))
VERDICT = (
    ("looked", 1),
    ("ends", 1),
    ("waits", 1),
    ("escalates", 1),
    ("lost", 1),
    ("shifts", 1),
    ("known", 1),
)
VERDICT += (("uses", 1), ("expires", 1), ("closes", 2))
ACT = (("accept", 1), ("defer", 1), ("trusted", 1), ("as", 4), ("channel", 3), ("board", 2), ("serial", 24))
ACT += (("hits", 16), ("events", 8), ("stamp", 64), ("frame", 24), ("burst", 8))
ACT += (("n", 32), ("started", 1))
ACT += (("timed_out", 1), ("placed", 1), ("fits_alone", 1), ("closes_alone", 1), ("done_alone", 1))
ACT += (("retimed", 1), ("slot", 99), ("part", 46))
ANSWER = (("valid", 1), ("keeps", 1), ("again", 1), ("admit", 1), ("first", 1), ("channel", 3))
ANSWER += (("counted", 1), ("as", 4), ("ended", 1), ("serial", 24))


def packed(layout, fields):
    value = 0
    for name, width in layout:
        value = value << width | int(fields[name])
    return value


def unpacked(layout, value):
    out = {}
    for name, width in reversed(layout):
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


class Bench(Stepped):
    """Module behind the steps, the opener and the firmware; one source at a time, the others random."""

    def __init__(self, dut, seed=0, rate=1.0, resets=0.0):
        self.dut, self.rate, self.resets = dut, rate, resets
        self.rng = random.Random(f"{cocotb.RANDOM_SEED} {seed}")
        self.now, self.at, self.seen = 0, 0, Counter()
        self.tickets, self.ended = [0] * CHANNELS, set()
        # Serials of completed packets, near the fence or anywhere; channels whose fence lies behind them.
        self.done, self.behind, self.wanders = [0] * CHANNELS, set(range(CHANNELS)), True
        self.now_notified = self.next_notified = None  # to the channels: channel, accept, defer
        self.due = self.next_due = ({}, None)  # answer and count that are due
        self.shown = list(self.tickets)
        layouts = (dut.act, ACT), (dut.opened, OPENED), (dut.verdict, VERDICT), (dut.firmware, ANSWER)
        assert all(len(port) == sum(width for _, width in layout) for port, layout in layouts)

    async def start(self):
        start_clock(self.dut)
        self.dut.done_serial.value = 0
        self.put(self.some(ACT))
        await reset(self.dut)
        cocotb.start_soon(self.run())

    def some(self, layout, **given):
        rng = self.rng
        return {name: rng.getrandbits(width) for name, width in layout} | given

    def some_act(self, **given):
        serial = self.rng.choice([SERIALS - 1, self.rng.randrange(SERIALS)])
        return self.some(ACT, channel=self.rng.randrange(CHANNELS), serial=serial) | given

    def put(self, act=None, verdict=(), opened=None, firmware=None, rst=0):
        """Drive one cycle; the decision is held until the next one, other inputs are random."""
        dut, rng = self.dut, self.rng
        if act:
            dut.act.value = packed(ACT, act)
        dut.rst.value = rst
        dut.verdict.value = packed(VERDICT, {name: name in verdict for name, _ in VERDICT})
        dut.opened.value = packed(OPENED, opened) if opened else rng.getrandbits(len(dut.opened) - 1)
        dut.firmware.value = packed(ANSWER, firmware) if firmware else rng.getrandbits(len(dut.firmware) - 3)

    def answered(self, act, name, later=False, keeps=0, accept=0, defer=0, ended=True, counted=None):
        """Expect an answer to the channel and clop_issue; `counted` is the packet's count."""
        notified = act["channel"], accept, defer
        if later:
            self.next_notified = notified
        else:
            self.now_notified = notified
        due = {"valid": 1, "again": 0, "keeps": keeps, "channel": act["channel"]}
        fields = [act[key] for key in ("hits", "events", "frame", "burst")]
        self.next_due = due, (counted, fields) if counted is not None else None
        if ended:
            self.tickets[act["channel"]] = (act["serial"] + 1) % SERIALS
            self.ended.add(act["channel"])
        self.seen[name] += 1

    def classified_again(self, act, name, first, admit):
        due = {"valid": 0, "again": 1, "first": first, "admit": admit, "channel": act["channel"]}
        self.next_due = due, None
        self.seen[name] += 1

    # ------------------------------------------------------------------ packet outcomes

    def looked(self):
        act = self.some_act()
        self.put(act, ["looked"])
        keeps, name = 1 - act["defer"], f"looked, deferred {act['defer']}"
        self.answered(act, name, keeps=keeps, accept=act["accept"], defer=act["defer"], ended=False)

    def unsound(self):
        """Unsound packet: its payload is written but not committed; another module counts it."""
        act = self.some_act()
        self.put(act, ["ends"])
        self.answered(act, "unsound")

    def lost(self):
        act = self.some_act()
        act["as"] = self.rng.choice([LATE, DUPLICATE, REPLAYED])
        self.put(act, ["ends", "lost"])
        self.answered(act, "lost", counted=act["as"])

    def known(self):
        """Packet of an existing frame: it has its place, or found none."""
        act, uses = self.some_act(), self.rng.getrandbits(1)
        act["as"] = USED if uses else self.rng.choice([OVERRUN, OVERFLOW])
        closes = uses and self.rng.getrandbits(1)
        self.put(act, ["ends", "known", *["uses"] * uses, *["closes"] * closes])
        self.answered(act, f"known, used {uses}", accept=uses, counted=act["as"])

    def waits(self):
        act = self.some_act()
        self.put(act, ["waits"])
        self.classified_again(act, "waits", 0, act["trusted"])

    def shifts(self):
        """Frames are skipped: the packet is classified again at once."""
        act = self.some_act()
        self.put(act, ["shifts"])
        self.classified_again(act, "shifts", 1, act["trusted"])

    def silent(self):
        """No answer yet: firmware request, frame to be opened, or a timer's frame closed."""
        self.put(self.some_act(), self.rng.choice([["escalates"], [], ["expires", "closes"]]))
        self.seen["silent"] += 1

    def owed(self):
        """Frame before the packet's, or one that the firmware names."""
        last = self.rng.getrandbits(1)
        self.put(opened=self.some(OPENED, valid=1, last=last, packet=1 - last, uses=0, closes=0))
        self.seen["tx_pending"] += 1

    def opened(self):
        act, rng = self.some_act(), self.rng
        ok = rng.random() < 0.8
        uses = ok and act["fits_alone"] and act["placed"]
        closes = uses and rng.getrandbits(1)
        opened = self.some(OPENED, valid=1, ok=ok, last=1, packet=1, uses=uses, closes=closes)
        self.put(act, opened=opened)
        # The look found no buffer, none is available now, or the segment has no room.
        counted = USED if uses else OVERFLOW if ok and not act["fits_alone"] else OVERRUN
        self.answered(act, f"opened {ok} {counted}", later=True, accept=uses, counted=counted)

    # ------------------------------------------------------------------ firmware, for another packet

    def firmware(self):
        rng, of = self.rng, self.some_act()
        counted = rng.choice([LATE, DUPLICATE, REPLAYED, MARKER, JUMP, WRONG_BURST])
        answer = self.some(ANSWER, valid=1, again=0, keeps=0, counted=1, ended=1, **{"as": counted})
        self.put(firmware=answer | {"channel": of["channel"], "serial": of["serial"]})
        self.answered(of, "firmware", later=True, counted=counted)
        self.next_due = self.next_due[0], (counted, None)

    def firmware_again(self):
        of, admit = self.some_act(), self.rng.getrandbits(1)
        answer = self.some(ANSWER, valid=0, again=1, admit=admit, first=1, channel=of["channel"], keeps=0)
        self.put(firmware=answer | {"as": ADMIT if admit else USED, "counted": 1, "ended": 1})
        self.classified_again(of, f"firmware again {admit}", 1, admit)

    # ------------------------------------------------------------------ every cycle

    def drive(self):
        rng = self.rng
        self.due, self.now_notified, self.shown = self.next_due, self.next_notified, list(self.tickets)
        self.next_due, self.next_notified = ({}, None), None
        self.ended = set()
        if self.wanders:
            near = [(ticket + rng.randint(-4, 4)) % SERIALS for ticket in self.tickets]
            self.done = [rng.choice([one, rng.randrange(SERIALS)]) for one in near]
        self.dut.done_serial.value = sum(done << 24 * c for c, done in enumerate(self.done))
        if rng.random() < self.resets:
            # No trace remains of a packet answered in this cycle.
            self.opened()
            self.dut.rst.value, self.next_due, self.next_notified = 1, ({}, None), None
            self.tickets, self.behind, self.ended = list(self.done), set(), set(range(CHANNELS))
            self.seen["reset"] += 1
        elif self.now - self.at > 1 and rng.random() < self.rate:
            what = [self.looked, self.unsound, self.lost, self.known, self.waits, self.shifts, self.silent]
            rng.choice([*what, self.owed, self.opened, self.opened, self.firmware, self.firmware_again])()
            self.at = self.now
        else:
            self.put()
        # Completed packets need no wait: an older fence follows them if no packet is decided.
        for c in self.behind - self.ended:
            self.tickets[c] = self.done[c]
            self.seen["followed"] += 1
        self.behind = {c for c in range(CHANNELS) if self.reached(c)} - self.ended

    def reached(self, c):
        """Check that the fence covers no completed packet."""
        return (self.done[c] - self.shown[c]) % SERIALS < SERIALS // 2

    def look(self):
        dut, (answer, counted) = self.dut, self.due
        if self.now_notified:
            channel, accept, defer = self.now_notified
            assert int(dut.placed_valid.value) == 1 << channel
            got = int(dut.placed_accept.value), int(dut.placed_defer.value)
            assert got[1] == defer and (defer or got[0] == accept)
        else:
            assert int(dut.placed_valid.value) == 0, "answer without a request"
        got = unpacked(ANSWER, int(dut.response.value))
        assert (answer or {"valid": 0, "again": 0}).items() <= got.items(), f"{got}, not {answer}"
        if counted:
            as_, fields = counted
            assert int(dut.counted.value) and int(dut.counted_as.value) == as_
            # Slow-path packets have no counted hits.
            if fields is not None:
                ports = (dut.counted_hits, dut.counted_events, dut.counted_frame, dut.counted_burst)
                assert [int(port.value) for port in ports] == fields
        else:
            assert not int(dut.counted.value)
        got = int(dut.write_fence.value)
        assert [got >> 24 * c & SERIALS - 1 for c in range(CHANNELS)] == self.shown


@cocotb.test()
@cocotb.parametrize(seed=range(2), rate=[0.2, 1.0])
async def everybody_is_answered_and_counted(dut, seed, rate):
    bench = Bench(dut, seed, rate)
    await bench.start()
    await ClockCycles(dut.clk, 800)
    mixture = [
        "looked, deferred 0",
        "looked, deferred 1",
        "unsound",
        "lost",
        "known, used 0",
        "known, used 1",
    ]
    mixture += ["waits", "shifts", "silent", "tx_pending", "firmware", "firmware again 0", "firmware again 1"]
    mixture += [
        f"opened True {USED}",
        f"opened True {OVERFLOW}",
        f"opened True {OVERRUN}",
        f"opened False {OVERRUN}",
    ]
    await wait(dut, lambda: all(bench.seen[name] for name in mixture), 20_000)


@cocotb.test()
async def packets_refused_without_a_look_leave_no_fence_behind(dut):
    """Two full laps of serials without a decision: earlier packets stay completed."""
    bench = Bench(dut, rate=0.0)
    bench.wanders = False
    await bench.start()
    for step in range(128):
        bench.done = [(step + c << 18) % SERIALS for c in range(CHANNELS)]
        await ClockCycles(dut.clk, 3)
        assert bench.shown == bench.done
    assert bench.seen["followed"] >= 120 * CHANNELS


@cocotb.test()
async def reset_gives_no_answer(dut):
    bench = Bench(dut, resets=0.1)
    await bench.start()
    await wait(dut, lambda: bench.seen["reset"] > 60)


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_clop_respond(channels):
    simulate(
        "clop_respond", "test_clop_respond", {"CHANNELS": channels}, env={"NANET_CHANNELS": str(channels)}
    )
