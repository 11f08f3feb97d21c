# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_update: memory writes of each packet, opened frame and timer, and no others."""

import os
import random
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

BUFFERS = int(os.environ.get("NANET_BUFFERS", "16"))
NUMBERS = 4 * BUFFERS  # numbers with a known overrun status
SLOT = (("used", 1), ("open", 1), ("seen", 1), ("present", 4), ("complete", 4), ("n", 32), ("frame", 24))
SLOT += (("first", 32),)
PART = (("has_last", 1), ("last", 4), ("indices", 16), ("units", 12), ("packets", 5), ("flags", 8))
STATUS = (("overrun", 1), ("tag", 15))
CLOSED = (("valid", 1), ("timed_out", 1), ("start", 32), ("channel", 3))
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
ACT += (("hits", 16), ("events", 8), ("stamp", 64), ("frame", 24), ("burst", 8), ("n", 32), ("started", 1))
ACT += (("timed_out", 1), ("placed", 1), ("fits_alone", 1), ("closes_alone", 1), ("done_alone", 1))
ACT += (("retimed", 1), ("slot", 99), ("part", 46))
LOW = (1 << 32) - 1


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


def noise(rng, layout, **given):
    return {name: rng.getrandbits(width) for name, width in layout} | given


def nothing(layout):
    return dict.fromkeys((name for name, _ in layout), 0)


class Bench(Stepped):
    """Module behind the steps and the opener; one operation at a time, other inputs random."""

    def __init__(self, dut, seed=0, buffers=BUFFERS, rate=0.5, resets=0.0):
        self.dut, self.rate, self.resets, self.mask = dut, rate, resets, buffers - 1
        self.rng = random.Random(f"{cocotb.RANDOM_SEED} {seed}")
        self.now, self.script, self.seen = 0, [], Counter()
        self.want = self.due = {}  # expected writes of the next cycle and of this one
        for port, layout in ((dut.slot, SLOT), (dut.act, ACT), (dut.opened, OPENED), (dut.verdict, VERDICT)):
            assert len(port) == sum(width for _, width in layout)

    async def start(self):
        start_clock(self.dut)
        self.dut.index_mask.value = self.mask
        self.put()
        await reset(self.dut)
        cocotb.start_soon(self.run())

    def put(self, act=None, verdict=None, opened=None, now_open=0, clear=0, clear_addr=0, rst=0):
        dut, rng = self.dut, self.rng
        dut.act.value = packed(ACT, act or self.some_act())
        dut.verdict.value = packed(VERDICT, nothing(VERDICT) | (verdict or {}))
        dut.opened.value = packed(OPENED, opened or noise(rng, OPENED, valid=0))
        dut.now_open.value, dut.clear.value, dut.clear_addr.value = now_open, clear, clear_addr
        dut.rst.value = rst

    def some_act(self, **given):
        rng = self.rng
        return noise(rng, ACT, timed_out=0) | given

    # ------------------------------------------------------------------ operations; `after` holds the
    # expected writes

    def slot_of(self, n, slot):
        return {"slot_we": (n & self.mask, slot)}

    def packet(self):
        """Packet with a place in an existing frame, which closes or stays open."""
        rng = self.rng
        closes, board, n = rng.getrandbits(1), rng.randrange(4), rng.getrandbits(32)
        slot, part = noise(rng, SLOT, open=1 - closes, n=n, used=1, seen=1), noise(rng, PART)
        act = self.some_act(n=n, board=board, slot=packed(SLOT, slot), part=packed(PART, part))
        self.put(act, {"ends": 1, "known": 1, "uses": 1, "closes": closes << rng.getrandbits(1)})
        after = self.slot_of(n, slot) | {"board_we": ((n & self.mask) << 2 | board, part)}
        if act["retimed"]:
            after["timer_push"] = (n, act["stamp"] & LOW)
        if closes:
            after["closed"] = {"timed_out": 0, "start": act["stamp"] & LOW, "channel": act["channel"]}
        self.seen[f"packet closes {closes} retimed {act['retimed']}"] += 1
        return after

    def timer(self):
        rng = self.rng
        slot = noise(rng, SLOT, open=0, n=rng.getrandbits(32), used=1)
        act = self.some_act(n=slot["n"], slot=packed(SLOT, slot), timed_out=1)
        self.put(act, {"expires": 1, "closes": rng.choice([1, 2])})
        self.seen["timer"] += 1
        closed = {"timed_out": 1, "start": act["stamp"] & LOW, "channel": act["channel"]}
        return self.slot_of(slot["n"], slot) | {"closed": closed}

    def opened(self, kind=None):
        """Frame pending before the packet's or for the firmware, or the packet's own frame."""
        rng = self.rng
        kind = kind or rng.choice(["tx_pending", "packet", "packet", "overrun", "found no place"])
        n, frame, board = (
            rng.getrandbits(64),
            rng.choice([rng.getrandbits(24), (1 << 24) - 1]),
            rng.randrange(4),
        )
        part, stamp, uses = noise(rng, PART), rng.getrandbits(64), kind == "packet"
        alone, done = (uses and rng.random() < 0.4), rng.random() < 0.5
        own = kind != "tx_pending"
        act = self.some_act(board=board, part=packed(PART, part), done_alone=alone or done)
        # A frame opened before the packet's, or for the firmware, has another number.
        act["n"] = n & LOW if own else n + rng.randrange(1, 2000) & LOW
        if uses:
            act["stamp"] = stamp
        if kind == "tx_pending" and rng.getrandbits(1):
            act["timed_out"] = 1  # the last operation in the steps was a timer's frame
        opened = {"valid": 1, "ok": kind != "overrun", "last": own, "packet": own, "uses": uses}
        opened |= {"closes": alone, "n": n, "frame": frame, "after": frame + 1, "stamp": stamp}
        if kind == "tx_pending" and rng.random() < 0.3:
            opened["ok"] = 0
        self.put(act, None, opened, now_open=1)
        ok = opened["ok"]
        after = {"status_we": (n % NUMBERS, {"overrun": 1 - ok, "tag": n // NUMBERS % (1 << 15)})}
        if ok:
            bit = uses << board
            complete = bit if act["done_alone"] else 0
            slot = {"used": 1, "open": not alone, "seen": own, "present": bit, "complete": complete}
            after |= self.slot_of(n, slot | {"n": n & LOW, "frame": frame, "first": stamp & LOW})
            after["timer_push"] = (n & LOW, stamp & LOW)
        if uses:
            after["board_we"] = ((n & self.mask) << 2 | board, part)
        if alone:
            after["closed"] = {"timed_out": 0, "start": stamp & LOW, "channel": act["channel"]}
        self.seen[f"{kind} {int(ok)} {int(alone)} {act['timed_out']}"] += 1
        return after

    def would_be_opened(self):
        """The sender has not accepted the previous number; the frame is not opened yet."""
        self.put(None, None, noise(self.rng, OPENED, valid=0), now_open=1)
        self.seen["would be"] += 1
        return {}

    def nothing_written(self):
        """Packet outcomes without a memory write."""
        kind = self.rng.choice(["looked", "ends", "waits", "escalates", "lost", "shifts", "known", "none"])
        self.put(verdict={kind: 1} if kind != "none" else {})
        return {}

    def forget(self, at):
        self.put(clear=1, clear_addr=at)
        return {"forgotten": at}

    # ------------------------------------------------------------------ every cycle

    def drive(self):
        rng, self.due = self.rng, self.want
        many = [self.packet, self.timer, self.opened, self.opened] * 2
        if self.script:
            self.want = self.script.pop(0)()
        elif rng.random() < self.resets:
            self.opened("packet")
            self.dut.rst.value, self.want = 1, None
            self.seen["reset"] += 1
        elif rng.random() < self.rate:
            self.want = rng.choice([*many, self.would_be_opened, self.nothing_written])()
        else:
            self.put()
            self.want = {}

    def look(self):
        dut, due = self.dut, self.due
        closed = unpacked(CLOSED, int(dut.closed.value))
        if due is None:  # reset: open frames neither close nor expire
            assert not closed["valid"] and not int(dut.timer_push.value)
            return
        got = {
            "slot_we": (int(dut.slot_addr.value), unpacked(SLOT, int(dut.slot.value))),
            "status_we": (int(dut.status_addr.value), unpacked(STATUS, int(dut.status.value))),
            "board_we": (int(dut.board_addr.value), unpacked(PART, int(dut.board.value))),
            "timer_push": (int(dut.timer_n.value), int(dut.timer_first.value)),
        }
        got = {name: value for name, value in got.items() if int(getattr(dut, name).value)}
        if closed.pop("valid"):
            got["closed"] = closed
        if "forgotten" in due:
            at = due["forgotten"]
            assert set(got) == {"slot_we", "status_we"}
            assert (got["slot_we"][0], got["status_we"][0]) == (at % BUFFERS, at)
            assert not got["slot_we"][1]["used"] and not got["slot_we"][1]["open"]
            # The first numbers are not overrun.
            assert not got["status_we"][1]["overrun"] or got["status_we"][1]["tag"] > 1 << 14
        else:
            assert got == due


@cocotb.test()
@cocotb.parametrize(seed=range(2), rate=[0.3, 1.0], buffers=[BUFFERS, BUFFERS // 4, 1])
async def everything_is_written_where_it_belongs(dut, seed, rate, buffers):
    bench = Bench(dut, seed, buffers, rate)
    await bench.start()
    await ClockCycles(dut.clk, 600)
    mixture = [f"packet closes {closes} retimed {retimed}" for closes in (0, 1) for retimed in (0, 1)]
    mixture += [
        "timer",
        "would be",
        "tx_pending 1 0 0",
        "tx_pending 1 0 1",
        "tx_pending 0 0 0",
        "packet 1 0 0",
        "packet 1 1 0",
    ]
    mixture += ["overrun 0 0 0", "found no place 1 0 0"]
    await wait(dut, lambda: all(bench.seen[name] for name in mixture), 20_000)


@cocotb.test()
async def everything_is_forgotten_word_by_word(dut):
    bench = Bench(dut)
    await bench.start()
    addresses = range(NUMBERS) if NUMBERS < 1000 else bench.rng.sample(range(NUMBERS), 500)
    bench.script = [lambda at=at: bench.forget(at) for at in addresses]
    await wait(dut, lambda: not bench.script)
    await ClockCycles(dut.clk, 100)


@cocotb.test()
async def reset_closes_nothing(dut):
    bench = Bench(dut, rate=0.9, resets=0.1)
    await bench.start()
    await wait(dut, lambda: bench.seen["reset"] > 40)


@pytest.mark.parametrize("buffers", [16, 2048])
def test_clop_update(buffers):
    env = {"NANET_BUFFERS": str(buffers)}
    simulate("clop_update", "test_clop_update", {"MAX_BUFFERS": buffers}, env=env)
