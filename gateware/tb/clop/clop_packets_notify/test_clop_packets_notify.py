# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_packets_notify: closed buffers in order, behind their payloads; overruns coalesced."""

import random
from collections import Counter, deque

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock, wait
from simulate import simulate

SERIAL = 1 << 24
AFTER = 3  # cycles from an input to its result
FULL = 13  # notifications in the queue, behind the one that is offered
FIELDS = (("overrun", 1), ("n", 32), ("buffer", 16), ("device", 8), ("frame", 24), ("bytes", 32))
FIELDS += (("empty", 13), ("vaddr", 64), ("start", 32), ("channel", 3))


def pack(notice):
    value = 0
    for name, width in FIELDS:
        value = value << width | notice[name]
    return value


def some_notice(rng):
    return {name: rng.getrandbits(width) for name, width in FIELDS} | {"overrun": 0}


def words(value, width, count):
    return [value >> width * i & (1 << width) - 1 for i in range(count)]


class Bench:
    """Module with placement, channel writers, event queues and clop_packets_close."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.devices, self.channels = len(dut.half_free), len(dut.done_serial) // 24
        self.now, self.met, self.waits = 0, Counter(), False  # waits: no decided packet is written
        # Rates: placement operations, accepted overruns, accepted notifications, changes of room.
        self.work = self.takes = self.closes = self.changes = 0.0

    async def start(self):
        self.begin()
        start_clock(self.dut)
        self.dut.done_serial.value = 0
        self.drive()
        await reset(self.dut)
        cocotb.start_soon(self.run())
        await RisingEdge(self.dut.clk)

    def begin(self):
        """Reset the bench; serials start shortly before their wrap."""
        self.plan, self.want, self.got_at, self.missed, self.out = deque(), deque(), [], None, False
        self.pushed_at, self.offered = self.now, 0
        self.tickets, self.serials = [0] * self.channels, [SERIAL - 5] * self.channels
        self.behind = set(range(self.channels))  # channels whose fence is behind the written packets
        self.n, self.full = self.rng.getrandbits(32), False
        self.room, self.half = [9] * self.devices, [1] * self.devices
        self.history = deque(maxlen=AFTER + 1)

    # ------------------------------------------------------------ placement, cycle by cycle

    def uses(self, channel, fills=False, step=None):
        """Place a payload: channel and serial are stable two cycles before; it may fill the buffer."""
        self.serials[channel] = (self.serials[channel] + (step or self.rng.choice([1, 1, 7]))) % SERIAL
        steady = {"channel": channel, "serial": self.serials[channel]}
        self.plan += [steady, {}, {"used": 1}, *([{"closed": 1}] if fills else [{}])]

    def misses(self):
        self.plan += [{}, {"missed": 1}, {}]

    def closes_buffer(self):
        self.plan += [{}, {"closed": 1}]

    def drive(self):
        dut, rng = self.dut, self.rng
        self.idle = False
        if not self.plan and not self.full and rng.random() < self.work:
            work = rng.choice(["use", "use", "fill", "miss", "close"])
            if work in ("use", "fill"):
                self.uses(rng.randrange(self.channels), work == "fill")
            elif work == "miss":
                self.misses()
            else:
                self.closes_buffer()
        elif not self.plan:
            self.idle = True
        self.step = self.plan.popleft() if self.plan else {}
        for name in ("channel", "serial"):
            if name in self.step:
                getattr(dut, name).value = self.step[name]
                setattr(self, name, self.step[name])
        for name in ("used", "missed", "closed"):
            getattr(dut, name).value = self.step.get(name, 0)
        if self.step or not self.now % 8:  # invalid fields change, too
            self.closing, self.frame = some_notice(rng), rng.getrandbits(24)
            dut.closing.value, dut.missed_n.value = pack(self.closing), self.n
            dut.missed_frame.value, dut.missed_device.value = self.frame, self.n % self.devices
            self.serial_done = [rng.getrandbits(24) for _ in range(self.channels)]
            if self.waits:
                self.serial_done = [(ticket - 1 - rng.getrandbits(9)) % SERIAL for ticket in self.tickets]
            dut.done_serial.value = sum(serial << 24 * c for c, serial in enumerate(self.serial_done))
        for d in range(self.devices):
            if rng.random() < self.changes:
                self.room[d], self.half[d] = rng.choice([(0, 1), (3, 0), (1, 1), (40000, 1), (0, 0)])
        dut.room.value = sum(room << 16 * d for d, room in enumerate(self.room))
        dut.half_free.value = sum(half << d for d, half in enumerate(self.half))
        self.take_now, self.close_now = rng.random() < self.takes, rng.random() < self.closes

    async def run(self):
        dut = self.dut
        while True:
            await FallingEdge(dut.clk)
            # Same-cycle responses of the neighbours.
            offered = int(dut.notice_valid.value)
            ready = offered & self.close_now
            # The wide signal is read only while it is offered.
            value = int(dut.notice.value) if offered and (ready or not self.offered) else None
            dut.notice_ready.value, dut.notice_done.value = ready, ready and value >> len(dut.notice) - 1
            self.offered = offered & (1 - ready)
            take = int(dut.overrun_due.value) & self.take_now & self.idle
            dut.take.value = take
            await ReadOnly()
            self.look(offered, value, ready, take)
            await RisingEdge(dut.clk)
            self.now += 1
            self.drive()

    # ------------------------------------------------------------ expected against actual state

    def look(self, offered, value, ready, take):
        dut = self.dut
        tell, self.full = bool(int(dut.overrun_due.value)), bool(int(dut.full.value))
        assert bool(int(dut.waiting.value)) == bool(self.want or self.missed)
        # Room is sampled later. Notifications sent or in flight are not repeated.
        queued = len(self.want) - 1 - (self.pushed_at == self.now - 1)
        to_tell = bool(self.missed and not self.out)
        had_room = [bool(room and half) for room, half in zip(self.room, self.half, strict=True)]
        self.history.append((to_tell, had_room, queued >= FULL, self.serial_done))
        were_to_tell, had_room, were_full, done = zip(*self.history, strict=True)
        if len(self.history) > AFTER:
            had_room = [rooms[self.missed["device"]] for rooms in had_room] if to_tell else [False]
            assert (to_tell and any(had_room)) if tell else not (all(were_to_tell) and all(had_room))
            assert self.full in were_full
            assert words(int(dut.done.value), 24, self.channels) in done
        self.met["full"] += self.full
        if offered:
            assert self.want, "unexpected notification"
            notice, tickets = self.want[0]
            if value is not None:
                assert value == pack(notice)
                assert words(int(dut.notice_fence.value), 24, self.channels) == tickets
            if ready:
                self.want.popleft()
                self.got_at.append(self.now)
                self.out &= not notice["overrun"]
        if self.step.get("closed") or take:
            self.pushed_at = self.now
        if self.step.get("closed"):
            self.want.append((self.closing, list(self.tickets)))
            self.n = self.n + 1 & 0xFFFFFFFF
        if take:
            count = self.missed["bytes"]
            self.met["one overrun" if count == 1 else "several overruns"] += 1
            self.want.append((self.missed, list(self.tickets)))
            self.missed, self.out = None, True
        if self.step.get("missed"):
            first = dict.fromkeys(dict(FIELDS), 0)
            first |= {"overrun": 1, "n": self.n, "frame": self.frame, "device": self.n % self.devices}
            self.missed = self.missed or first
            self.missed["bytes"] += 1
            self.met["overruns while another event waits"] += self.out
        # Written packets need no wait: an older fence follows them if no packet is decided.
        done, used = words(int(dut.done.value), 24, self.channels), self.step.get("used")
        behind = {c for c in range(self.channels) if (done[c] - self.tickets[c]) % SERIAL < SERIAL // 2}
        for c in self.behind - ({self.channel} if used else set()):
            self.tickets[c] = done[c]
        self.behind = behind - ({self.channel} if used else set())
        if used:
            self.tickets[self.channel] = (self.serial + 1) % SERIAL
            self.met["ticket 0"] += self.tickets[self.channel] == 0

    async def finish(self):
        """Let all notifications out."""
        self.work, self.changes, self.takes, self.closes = 0.0, 0.0, 1.0, 1.0
        self.room, self.half = [9] * self.devices, [1] * self.devices
        await wait(self.dut, lambda: not (self.plan or self.want or self.missed), 2000)
        await ClockCycles(self.dut.clk, 2 * AFTER)  # nothing more appears
        assert not int(self.dut.waiting.value)


PACES = {  # work, takes, closes, changes
    "nothing_waits": (1.0, 1.0, 1.0, 0.0),
    "news_are_taken_seldom": (1.0, 1.0, 0.04, 0.0),
    "the_event_queues_are_short_of_room": (0.5, 0.5, 0.5, 0.02),
    "everything_pauses": (0.2, 0.2, 0.1, 0.1),
}


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def notices_come_in_order(dut, pace):
    bench = Bench(dut)
    await bench.start()
    for channel in range(bench.channels):
        bench.uses(channel, step=4)  # its fence wraps
    bench.work, bench.takes, bench.closes, bench.changes = PACES[pace]
    await wait(dut, lambda: len(bench.got_at) >= 80)
    await bench.finish()
    assert bench.met["ticket 0"] == bench.channels
    assert bench.met["one overrun"] + bench.met["several overruns"]
    assert bench.met["full"] or pace != "news_are_taken_seldom"
    assert bench.met["overruns while another event waits"] or bench.closes == 1.0


@cocotb.test()
async def a_closed_buffer_waits_for_its_last_payload(dut):
    """Latency of three cycles; payloads of all channels up to the cycle before the pulse count."""
    bench = Bench(dut)
    await bench.start()
    bench.closes = 1.0
    for serial in (5, SERIAL - 2, SERIAL - 1):
        for channel in range(bench.channels):
            bench.serials[channel] = serial - 7 - 100 * channel
            bench.uses(channel, fills=True, step=7 + 100 * channel)
            last = len(bench.got_at)
            await wait(dut, lambda: not bench.plan, 20)
            closed_at = bench.now
            await wait(dut, lambda last=last: len(bench.got_at) > last, 20)
            assert bench.got_at[-1] == closed_at + AFTER
    await bench.finish()


@cocotb.test()
async def tickets_of_every_channel_are_their_own(dut):
    bench = Bench(dut)
    bench.waits = True
    await bench.start()
    for channel in range(bench.channels):
        bench.serials[channel] = 1000 * channel
        bench.uses(channel)
    bench.closes_buffer()
    await wait(dut, lambda: not bench.plan, 100)
    await ClockCycles(dut.clk, AFTER)
    assert len(set(bench.tickets)) == bench.channels and bench.want[0][1] == bench.tickets
    assert bench.tickets == [(serial + 1) % SERIAL for serial in bench.serials]
    await bench.finish()


@cocotb.test()
async def overruns_are_joined_while_room_is_short(dut):
    bench = Bench(dut)
    await bench.start()
    bench.takes = bench.closes = 1.0
    for device in range(bench.devices):
        for room, half in ((0, 1), (9, 0)):
            while bench.n % bench.devices != device:
                bench.closes_buffer()
                await ClockCycles(dut.clk, 8)
            bench.room[device], bench.half[device] = room, half  # room of other devices is irrelevant
            first = bench.n
            for _ in range(20):
                bench.misses()
            await ClockCycles(dut.clk, 80)
            assert not bench.want and bench.missed["bytes"] == 20
            bench.closes_buffer()  # a buffer's notification overtakes the overruns
            bench.misses()
            await ClockCycles(dut.clk, 20)
            assert not bench.want and bench.missed["bytes"] == 21 and bench.missed["n"] == first
            bench.room[device], bench.half[device] = 1, 1
            await ClockCycles(dut.clk, 20)
            assert not bench.want and not bench.missed
    assert bench.met["several overruns"] == 2 * bench.devices
    await bench.finish()


@cocotb.test()
async def one_event_of_overruns_at_a_time(dut):
    bench = Bench(dut)
    await bench.start()
    bench.takes = 1.0
    bench.misses()
    await ClockCycles(dut.clk, 20)
    for _ in range(3):
        bench.misses()
    await ClockCycles(dut.clk, 40)
    assert bench.out and bench.missed["bytes"] == 3 and len(bench.want) == 1
    bench.closes = 1.0
    await ClockCycles(dut.clk, 20)
    assert (bench.met["one overrun"], bench.met["several overruns"]) == (1, 1)
    await bench.finish()


@cocotb.test()
async def sixteen_wait_and_from_thirteen_on_it_is_full(dut):
    bench = Bench(dut)
    await bench.start()
    for count in range(1, FULL + 2):
        bench.closes_buffer()
        await ClockCycles(dut.clk, 2 * AFTER)
        assert bench.full == (count == FULL + 1)  # one is already offered
    bench.plan += [{"closed": 1}] * 3  # operations in flight
    await ClockCycles(dut.clk, 2 * AFTER)
    assert len(bench.want) == FULL + 4
    await bench.finish()


@cocotb.test()
async def a_reset_forgets_everything(dut):
    bench = Bench(dut)
    await bench.start()
    bench.takes = 1.0
    for _ in range(2):
        bench.uses(0, fills=True)
        bench.misses()
        await ClockCycles(dut.clk, 20)
    assert bench.out and bench.missed and len(bench.want) == 3
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    bench.begin()
    await RisingEdge(dut.clk)
    bench.begin()
    dut.rst.value = 0
    bench.misses()
    bench.closes_buffer()
    await ClockCycles(dut.clk, 20)
    assert bench.met["one overrun"] == 2
    await bench.finish()


@pytest.mark.parametrize(("channels", "devices"), [(1, 1), (2, 2), (3, 4)])
def test_clop_packets_notify(channels, devices):
    parameters = {"CHANNELS": channels, "DEVICES": devices}
    simulate("clop_packets_notify", "test_clop_packets_notify", parameters)
