# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_open: opens each frame up to the requested one, once, in order, with a buffer if returned."""

import os
import random
from collections import Counter, deque
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

DEVICES = int(os.environ.get("NANET_DEVICES", "1"))
FRAMES = 1 << 24  # range of the frame number in a header
OPENED = (("valid", 1), ("ok", 1), ("last", 1), ("packet", 1), ("uses", 1), ("closes", 1))
OPENED += (("n", 64), ("frame", 25), ("after", 25), ("stamp", 64))
TX_PENDING = (("overrun", 1), ("count", 32), ("frame", 32), ("n", 64), ("stamp", 64))
# Relevant fields of clop_burst_t and clop_act_t; all others are random.
BURST = (("state", 9), ("base", 64), ("next", 25), ("rest", 60))
ACT = (("first", 190), ("placed", 1), ("fits_alone", 1), ("closes_alone", 1), ("rest", 147))


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
    """Activity rates of the neighbouring modules and of requests."""

    requests: float = 1.0
    owed: float = 1.0
    timers: float = 1.0
    notices: float = 1.0


PACES = {
    "nothing_waits": Pace(),
    "the_sender_is_slow": Pace(owed=0.05),
    "timers_are_full": Pace(0.5, timers=0.1),
    "news_wait": Pace(0.5, notices=0.1),
    "everything_pauses": Pace(0.2, 0.3, 0.4, 0.4),
}


@dataclass
class Request:
    """Frames up to `last`, for a packet or for the firmware; its time, and whether it is opened at once."""

    at: int
    last: int
    packet: bool
    stamp: int
    at_once: bool
    act: dict


class Bench(Stepped):
    """Module with clop's steps, bursts, buffers, timers, notifications, event queues and sender."""

    def __init__(self, dut, pace=None, seed=0, window=False, devices=DEVICES, resets=0.0):
        self.dut, self.pace, self.window, self.devices = dut, pace or Pace(), window, devices
        self.rng, self.resets = random.Random(f"{cocotb.RANDOM_SEED} {seed}"), resets
        self.now, self.clock, self.seen, self.plan = 0, 1 << 40, Counter(), deque()
        self.base, self.next, self.end_n = (1 << 33) - 30, 0, 0
        self.request, self.free_at = None, 0  # operation in flight; earliest time of the next one
        # return time of a buffer by number, and of room by device; None: never
        self.buffers, self.room_at = {}, [0] * DEVICES
        self.held, self.asked, self.may_look = set(), deque([None] * 3, maxlen=3), []
        self.opened_at, self.since, self.taken, self.pulses, self.owed = [], 0, None, (0, 0, 0), None
        assert len(dut.act) == sum(width for _, width in ACT)

    async def start(self):
        start_clock(self.dut)
        self.dut.window.value, self.dut.log2_devices.value = self.window, self.devices.bit_length() - 1
        self.dut.opens.value = self.dut.extend.value = 0
        await reset(self.dut)
        cocotb.start_soon(self.run())

    # ------------------------------------------------------------------ state that the frames meet

    def device(self, n):
        return n % self.devices

    def has_room(self, n):
        at = self.room_at[self.device(n)]
        return at is not None and self.now >= at

    def is_back(self, n):
        at = self.buffers[n]
        return at is not None and self.now >= at

    def ask(self, count, packet):
        """Choose the conditions of the next frames and request them."""
        rng, dut, window = self.rng, self.dut, self.window
        for device in range(DEVICES):
            late = self.now + rng.randrange(60) if window else None
            self.room_at[device] = 0 if rng.random() < 0.8 else late
        for n in range(self.base + self.next, self.base + self.next + count):
            # Buffer returned, returned later in a replay, or never: in a replay, held by an open frame.
            kind = rng.choices(["back", "late", "held"], (7, 1, 1))[0]
            self.buffers[n] = {"back": 0, "late": self.now + rng.randrange(60) if window else None}.get(kind)
            (self.held.add if kind == "held" else self.held.discard)(n)
        last, n = self.next + count - 1, self.base + self.next + count - 1
        stamp = self.clock if not packet else rng.getrandbits(64)
        usable = self.is_back(n) and self.has_room(n)
        dut.opens.value, dut.extend.value, dut.usable.value = packet, not packet, usable
        if packet:
            dut.opens_next.value = count == 1
            dut.opens_frame.value, dut.opens_stamp.value = last, stamp
        else:
            dut.extend_frame.value = last
        at_once = packet and count == 1 and self.timers and (not window or usable)
        act = {name: rng.random() < 0.8 for name in ("placed", "fits_alone", "closes_alone")}
        self.request = Request(self.now, last, packet, stamp, bool(at_once), act)
        self.since = self.now + 1
        self.seen["at once" if at_once else "a packet's" if packet else "tx_pending"] += 1
        self.seen["several"] += count > 1

    # ------------------------------------------------------------------ every cycle

    def drive(self):
        dut, rng, pace = self.dut, self.rng, self.pace
        self.clock += 1
        dut.end_n.value = self.end_n = (self.base + self.next) % (1 << 64)  # one cycle behind `next`
        if self.taken:
            self.next += 1
        finished = self.taken and self.taken["last"]
        if finished:
            self.request, self.free_at = None, self.now + 4
            if self.next >= FRAMES or rng.random() < 0.02:
                self.base, self.next = rng.getrandbits(64) % (1 << 63), rng.choice([0, FRAMES - 3])
        self.timers, self.notices = rng.random() < pace.timers, rng.random() < pace.notices
        dut.timer_room.value, dut.notice_accepts_new.value = self.timers, self.notices
        dut.now.value, dut.rst.value, dut.opens.value, dut.extend.value = self.clock, 0, 0, 0
        dut.current.value = packed(rng, BURST, base=self.base, next=self.next)
        act = self.request.act if self.request else {}
        dut.act.value = packed(rng, ACT, **act)
        for name, width in (("opens_next", 1), ("usable", 1), ("opens_frame", 24), ("extend_frame", 24)):
            getattr(dut, name).value = rng.getrandbits(width)
        dut.opens_stamp.value = rng.getrandbits(64)
        if not self.request and self.now >= self.free_at:
            if self.plan:
                self.ask(*self.plan.popleft())
            elif rng.random() < pace.requests:
                count = min(rng.choice([1, 1, 1, 2, 3, 12]), FRAMES - self.next)
                self.ask(count, rng.random() < 0.8)
        # Buffer status as clop_lookup returns it, three cycles after the request; before, that of another
        # number.
        numbers = set(self.asked)
        known = len(numbers) == 1 and self.asked[0] in self.buffers and self.request
        n = self.asked[0]
        dut.back.value = self.is_back(n) if known else rng.getrandbits(1)
        dut.held.value = n in self.held if known else rng.getrandbits(1)
        dut.room.value = sum(self.has_room(device) << device for device in range(DEVICES))
        self.willing = rng.random() < pace.owed
        dut.tx_pending_ready.value = self.willing
        if rng.random() < self.resets:
            dut.rst.value = 1

    def look(self):
        dut, opened = self.dut, unpacked(OPENED, int(self.dut.opened.value))
        self.asked.append(int(dut.n.value))
        under_way = self.request is not None and self.now > self.request.at
        assert int(dut.busy.value) == under_way, "busy"
        got = int(dut.promise.value), int(dut.frame_in.value), int(dut.frame_overrun.value)
        assert got == self.pulses
        self.pulses, self.taken = (0, 0, 0), None
        # Frames of the previous cycle are offered to the sender until it accepts them.
        assert int(dut.tx_pending_valid.value) == (self.owed is not None)
        if self.owed:
            assert unpacked(TX_PENDING, int(dut.tx_pending.value)) == self.owed
        if opened["valid"]:
            assert under_way and self.owed is None and int(dut.now_open.value)
            self.check(opened)
        elif under_way and self.timers and self.notices:
            self.may_look.append(self.now)
        if self.owed and self.willing:
            self.owed = None
        if opened["valid"]:
            self.owed = {"overrun": 1 - opened["ok"], "count": 1, "frame": opened["frame"]}
            self.owed |= {"n": opened["n"], "stamp": opened["stamp"]}
            self.pulses = opened["ok"] << self.device(opened["n"]), 1, 1 - opened["ok"]
        if int(dut.rst.value):
            self.request = self.owed = self.taken = None
            self.pulses, self.free_at = (0, 0, 0), self.now + 2
            self.seen["reset"] += 1

    def check(self, opened):
        one, act, n = self.request, self.request.act, self.base + self.next
        back, room, held = self.is_back(n), self.has_room(n), n in self.held
        last = self.next == one.last
        if self.window:
            # A replay waits for a buffer that will return, but not for one held by an open frame.
            assert opened["ok"] == back and room and (back or held), "a replay waits for its buffers"
        else:
            assert opened["ok"] == (back and room)
        uses = one.packet and last and opened["ok"] and act["fits_alone"] and act["placed"]
        want = {"valid": 1, "ok": opened["ok"], "last": last, "packet": one.packet, "uses": uses}
        want |= {"closes": uses and act["closes_alone"], "n": n, "frame": self.next, "after": self.next + 1}
        assert opened == want | {"stamp": one.stamp}
        if not one.at_once:
            # The buffer is checked four cycles after timer and notification have room.
            assert any(self.since <= at <= self.now - 4 for at in self.may_look), (
                "no room for timer or notification"
            )
        self.opened_at.append(self.now - one.at)
        self.seen[f"ok {opened['ok']} back {int(back)} room {int(room)}"] += 1
        self.seen["waited for its buffer"] += opened["ok"] and self.buffers[n] > one.at
        self.seen[f"uses {int(uses)} closes {int(want['closes'])}"] += 1
        self.taken, self.since, self.may_look = opened, self.now + 1, []


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), window=[False, True])
async def frames_are_opened_in_order(dut, pace, window):
    bench = Bench(dut, PACES[pace], window=window)
    await bench.start()
    await ClockCycles(dut.clk, 1000)
    mixture = [
        "at once",
        "a packet's",
        "tx_pending",
        "several",
        "uses 0 closes 0",
        "uses 1 closes 0",
        "uses 1 closes 1",
    ]
    mixture += ["ok 1 back 1 room 1", "ok 0 back 0 room 1"]
    mixture += ["waited for its buffer"] if window else ["ok 0 back 1 room 0", "ok 0 back 0 room 0"]
    await wait(dut, lambda: all(bench.seen[name] for name in mixture), 30_000)


@cocotb.test()
@cocotb.parametrize(seed=range(2), window=[False, True], devices=sorted({1, DEVICES // 2 or 1, DEVICES}))
async def numbers_go_round_the_devices_that_are_used(dut, seed, window, devices):
    bench = Bench(dut, Pace(owed=0.8), seed=seed, window=window, devices=devices)
    await bench.start()
    await wait(dut, lambda: len(bench.opened_at) > 150)


@cocotb.test()
async def the_packets_own_frame_at_once_and_others_every_five_cycles(dut):
    bench = Bench(dut, Pace(requests=0.0))
    await bench.start()
    for count, packet, want in (
        (1, True, [1]),
        (1, False, [5]),
        (4, True, [5, 10, 15, 20]),
        (2, False, [5, 10]),
    ):
        bench.opened_at.clear()
        bench.plan.append((count, packet))
        await wait(dut, lambda: not bench.plan and not bench.request, 100)
        assert bench.opened_at == want
        await ClockCycles(dut.clk, 10)


@cocotb.test()
@cocotb.parametrize(packet=[True, False])
async def up_to_the_last_frame_that_a_header_can_name(dut, packet):
    bench = Bench(dut, Pace(requests=0.0))
    bench.next = FRAMES - 3
    await bench.start()
    bench.plan.append((3, packet))
    await wait(dut, lambda: not bench.plan and not bench.request, 100)
    assert len(bench.opened_at) == 3


@cocotb.test()
async def the_longest_pending_gap(dut):
    bench = Bench(dut, Pace(requests=0.0))
    await bench.start()
    bench.plan.append((1024, True))
    await wait(dut, lambda: not bench.plan and not bench.request, 6000)
    assert len(bench.opened_at) == 1024


@cocotb.test()
async def reset_opens_nothing_more(dut):
    bench = Bench(dut, Pace(owed=0.5), resets=0.03)
    await bench.start()
    await wait(dut, lambda: bench.seen["reset"] > 60)


@pytest.mark.parametrize("devices", [1, 4])
def test_clop_open(devices):
    simulate("clop_open", "test_clop_open", {"DEVICES": devices}, env={"NANET_DEVICES": str(devices)})
