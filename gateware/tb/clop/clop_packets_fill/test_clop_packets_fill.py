# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_packets_fill: fills returned buffers slot by slot; promises, closes and reports each."""

import random
from collections import Counter, deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from handshake import Stepped, reset, start_clock, wait
from simulate import simulate

FIRST_N = (7 << 32) - 3  # the low word wraps
LOW, ALL = (1 << 32) - 1, (1 << 64) - 1
AFTER = 3  # cycles from a number or a status change to the buffer's availability
STEPS = 7  # clop_packets' cycles from the choice of a payload to `place`
ROOM = 4  # entries needed in the event queue
USED, OVERRUN, OVERFLOW = 0, 5, 6  # placed_e
CLOSING = (("overrun", 1), ("n", 32), ("buffer", 16), ("device", 8), ("frame", 24), ("bytes", 32))
CLOSING += (("empty", 13), ("vaddr", 64), ("start", 32), ("channel", 3))
TX_PENDING = (("overrun", 1), ("count", 32), ("frame", 32), ("n", 64), ("stamp", 64))


def unpack(value, fields):
    out = {}
    for name, width in reversed(fields):
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


class Bench(Stepped):
    """Module with clop_packets' steps, consumers, event queues and the sender."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.devices, self.most = len(dut.promise), 1 << len(dut.return_index)
        self.now, self.task = self.rng.getrandbits(63), None
        self.met, self.sizes = Counter(), []  # sizes of the next payloads in bytes, for directed tests
        # Rates: an operation, a close among them, extreme sizes, accepted pending numbers, returns by the
        # consumer, numbers passed by the sender, changes of room.
        self.work = self.close = self.odd = 0.0
        self.takes = self.consumer = self.sender = self.changes = 1.0

    async def start(self, packets, slot_bytes, log2_devices=0):
        """Restart the module with all its buffers."""
        dut, rng = self.dut, self.rng
        if self.task:
            self.task.cancel()
        else:
            start_clock(dut)
        self.packets, self.slot_bytes, self.used_devices = packets, slot_bytes, 1 << log2_devices
        self.bases = [rng.getrandbits(64) for _ in range(self.devices)]
        self.units = packets * slot_bytes // 64 + 1
        dut.log2_devices.value = log2_devices
        dut.log2_buffers.value = self.most.bit_length() - 1 - log2_devices
        dut.base_vaddr.value = sum(base << 64 * d for d, base in enumerate(self.bases))
        dut.buffer_units.value, dut.packets.value, dut.slot_bytes.value = self.units, packets, slot_bytes
        dut.place.value = dut.close.value = 0
        dut.sender_next.value = dut.return_value.value = FIRST_N & LOW
        dut.rst.value = dut.return_valid.value = 1
        for index in range(self.most):
            dut.return_index.value = index
            await RisingEdge(dut.clk)
        dut.return_valid.value = 0
        await reset(dut)
        self.n = self.passed = FIRST_N
        self.open, self.back, self.out, self.owed = None, set(), [], None
        self.room, self.place_at = [9] * self.devices, 0
        self.placing = self.closes = self.had = False
        self.start_, self.channel, self.driven = 0, 0, {}
        self.closed, self.promised = None, 0  # expected in this cycle
        self.free_at, self.history = self.now + 2 * AFTER, deque(maxlen=AFTER + 1)
        self.task = cocotb.start_soon(self.run())

    # ------------------------------------------------------------ expected state

    @property
    def device(self):
        return self.n % self.used_devices

    @property
    def buffer(self):
        return self.n % self.most // self.used_devices

    def address(self, slot):
        return self.bases[self.device] + self.buffer * self.units * 64 + slot * self.slot_bytes & ALL

    def is_back(self):
        before = self.n - self.most
        return before < FIRST_N or (before in self.back and self.passed > before)

    # ------------------------------------------------------------ cycle by cycle

    def drive(self):
        dut, rng = self.dut, self.rng
        self.closes, self.placing = False, self.place_at == self.now
        if self.now == self.place_at - 1:
            self.request()
        elif self.now >= self.free_at and self.now > self.place_at and rng.random() < self.work:
            if rng.random() < self.close:
                self.closes = True
                self.free_at = self.now + 2
            else:
                self.place_at = self.now + STEPS
        elif self.now == self.place_at + 1:
            dut.request.value = rng.getrandbits(len(dut.request))
        if self.placing or self.closes or self.closed:
            self.start_, self.channel = rng.getrandbits(32), rng.getrandbits(3)
        self.takes_owed = rng.random() < self.takes
        for d in range(self.devices):
            if rng.random() < self.changes:
                self.room[d] = rng.choice([0, 3, 4, 40000])
        if rng.random() < self.sender:
            self.passed += self.passed < self.n - (self.owed is not None)
        returns = bool(self.out) and rng.random() < self.consumer
        self.put(place=self.placing, close=self.closes, start=self.start_, channel=self.channel, now=self.now)
        self.put(tx_pending_ready=self.takes_owed, sender_next=self.passed & LOW, return_valid=returns)
        self.put(room=sum(room << 16 * d for d, room in enumerate(self.room)))
        if returns:
            n = self.out.pop(rng.randrange(len(self.out)))
            self.back.add(n)
            dut.return_index.value, dut.return_value.value = n % self.most, n + 1 & LOW

    def put(self, **values):
        """Drive changed inputs only; most do not change."""
        for name, value in values.items():
            if self.driven.get(name) != value:
                getattr(self.dut, name).value = self.driven[name] = int(value)

    def request(self):
        """Request a payload in the cycle before its placement."""
        rng, most = self.rng, min(self.slot_bytes, 0xFFFF)
        length = rng.randint(16, most)
        if rng.random() < self.odd:
            length = rng.choice([most, most - 1, min(self.slot_bytes + 1, 0xFFFF), 0xFFFF])
        if self.sizes:
            length = self.sizes.pop(0)
        self.length, self.frame = length, rng.getrandbits(24)
        header = rng.getrandbits(128) & ~(0xFFFF << 32 | 0xFFFFFF << 96) | length << 32 | self.frame << 96
        self.dut.request.value = rng.getrandbits(len(self.dut.request) - 128) << 128 | header

    def look(self):
        dut = self.dut
        assert int(dut.n.value) == self.n & LOW
        assert int(dut.promise.value) == self.promised
        self.check_pending()
        self.promised, fills, closed = 0, False, self.closed is not None
        self.look_at_closed()
        if self.placing:
            fills = self.look_at_place()
        else:
            assert not int(dut.opens.value) and not int(dut.fills.value)
        self.had = not closed and self.look_at_has()
        if fills or (self.closes and self.open):
            self.closed = self.open
            self.free_at = self.now + 1000  # until its number is pending
        elif self.placing:
            self.free_at = self.now + 1

    def look_at_has(self):
        has = bool(int(self.dut.has.value))
        if self.open:
            assert has or self.placing
            return has
        self.history.append((self.is_back(), self.room[self.device] >= ROOM))
        if len(self.history) > AFTER:
            back, room = zip(*self.history, strict=True)
            assert (any(back) and any(room)) if has else not (all(back) and all(room))
            assert int(self.dut.device.value) == self.device
            self.met[f"has {has:d}, is back {back[-1]:d}, room {room[-1]:d}"] += 1
        return has

    def look_at_place(self):
        dut, opens = self.dut, self.had and not self.open
        fits = self.length <= self.slot_bytes
        what = OVERRUN if not self.had else USED if fits else OVERFLOW
        if opens:
            self.open = {"filled": 0, "bytes": 0, "frame": self.frame}
            self.promised = 1 << self.device
        fills = what == USED and self.open["filled"] + 1 == self.packets
        assert [int(s.value) for s in (getattr(dut, "as"), dut.opens, dut.fills)] == [what, opens, fills]
        self.met[what, "opens" if opens else ""] += 1
        if what == USED:
            assert int(dut.vaddr.value) == self.address(self.open["filled"])
            self.open["filled"] += 1
            self.open["bytes"] += self.length
        return fills

    def look_at_closed(self):
        assert int(self.dut.closed.value) == (self.closed is not None)
        if self.closed is None:
            return
        got, filled = unpack(int(self.dut.closing.value), CLOSING), self.closed["filled"]
        want = {"overrun": 0, "n": self.n & LOW, "buffer": self.buffer, "device": self.device}
        want |= {"frame": self.closed["frame"], "bytes": self.closed["bytes"], "empty": self.packets - filled}
        want |= {"vaddr": self.address(filled), "start": self.start_, "channel": self.channel}
        assert got == want
        self.owed = {"overrun": 0, "count": 1, "frame": self.closed["frame"], "n": self.n, "stamp": self.now}
        self.met["closed empty" if not filled else "closed full" if filled == self.packets else "closed"] += 1
        self.out.append(self.n)
        self.n += 1
        self.open = self.closed = None
        self.history.clear()

    def check_pending(self):
        assert int(self.dut.tx_pending_valid.value) == (
            self.owed is not None
        )  # two cycles after the last payload
        if self.owed:
            assert unpack(int(self.dut.tx_pending.value), TX_PENDING) == self.owed
            if self.takes_owed:
                self.owed, self.free_at = None, self.now + 1


PACES = {  # work, close, odd, takes, consumer, sender, changes
    "nothing_waits": (1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0),
    "odd_sizes_and_closes": (1.0, 0.3, 0.7, 1.0, 1.0, 1.0, 0.0),
    "consumers_are_slow": (1.0, 0.1, 0.1, 1.0, 0.01, 1.0, 0.0),
    "the_sender_is_slow": (1.0, 0.1, 0.1, 0.3, 1.0, 0.006, 0.0),
    "the_event_queues_are_short_of_room": (1.0, 0.1, 0.1, 1.0, 1.0, 1.0, 0.03),
    "everything_pauses": (0.2, 0.2, 0.3, 0.2, 0.08, 0.08, 0.02),
}


def set_pace(bench, pace):
    bench.work, bench.close, bench.odd = PACES[pace][:3]
    bench.takes, bench.consumer, bench.sender, bench.changes = PACES[pace][3:]


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def buffers_are_filled_one_by_one(dut, pace):
    bench = Bench(dut)
    for run, (packets, slot_bytes) in enumerate(((1, 480), (3, 1472), (4, 32))):
        set_pace(bench, pace)
        await bench.start(packets, slot_bytes, run % bench.devices.bit_length())
        await wait(dut, lambda: bench.n >= FIRST_N + bench.most + 8 and not bench.owed)
    met = bench.met
    assert met["closed full"] and met[USED, ""] and met[USED, "opens"]
    if bench.close > 0.2:
        assert met["closed"] and met[OVERFLOW, "opens"] and met[OVERFLOW, ""] and met["closed empty"]
    if pace in ("consumers_are_slow", "the_sender_is_slow"):
        assert met["has 0, is back 0, room 1"] and met[OVERRUN, ""]
    if bench.changes == 0.03:
        assert met["has 0, is back 1, room 0"] and met[OVERRUN, ""]


async def one(bench, kind):
    """Place one payload or close the buffer."""
    bench.work, bench.close = 1.0, float(kind == "close")
    await wait(bench.dut, lambda: bench.closes or bench.place_at > bench.now, 100)
    bench.work = 0.0
    done = lambda: bench.now > max(bench.place_at, bench.free_at) + 12 and not bench.owed  # noqa: E731
    await wait(bench.dut, done, 2000)


@cocotb.test()
@cocotb.parametrize(packets=[1, 2, 4095, 4096])
async def the_largest_buffers(dut, packets):
    """Large slots and large buffers, with one payload or thousands."""
    bench = Bench(dut)
    bench.changes, bench.odd = 0.0, 1.0
    await bench.start(packets, 0x10000 if packets < 3 else 480)
    for _ in range(2):
        await one(bench, "payload")
        await one(bench, "close")
    assert bench.met["closed full" if packets == 1 else "closed"] + bench.met["closed empty"] == 2
    assert bench.met[OVERRUN, ""] == 0


@cocotb.test(skip=True)  # only on request: a payload takes eight cycles
async def the_largest_buffer_is_full_at_last(dut):
    bench = Bench(dut)
    await bench.start(4096, 16)
    bench.changes, bench.work = 0.0, 1.0
    await wait(dut, lambda: bench.met["closed full"])
    assert bench.met[USED, ""] == 4095 and bench.met[USED, "opens"] == 1


@cocotb.test()
async def without_an_open_buffer_nothing_is_closed(dut):
    bench = Bench(dut)
    bench.changes = 0.0
    await bench.start(4, 480)
    for _ in range(3):
        await one(bench, "close")
    assert bench.n == FIRST_N
    await one(bench, "payload")
    for _ in range(3):
        await one(bench, "close")
    assert bench.n == FIRST_N + 1 and bench.met["closed"] == 1


@cocotb.test()
async def a_reset_forgets_everything(dut):
    """A reset clears a pending number and an open buffer."""
    bench = Bench(dut)
    bench.changes = bench.takes = 0.0
    await bench.start(2, 480)
    bench.work = 1.0
    await wait(dut, lambda: bench.owed, 200)
    bench.work, bench.takes = 0.0, 1.0
    await bench.start(2, 480)
    await one(bench, "payload")
    assert bench.open
    await bench.start(2, 480)
    await one(bench, "close")
    assert bench.n == FIRST_N
    set_pace(bench, "nothing_waits")
    await wait(dut, lambda: bench.n > FIRST_N + 2 * bench.most, 2000)


@cocotb.test()
async def what_does_not_fit_takes_no_slot(dut):
    bench = Bench(dut)
    bench.changes = 0.0
    for slot_bytes in (480, 1472, 0xFFF0):
        await bench.start(2, slot_bytes)
        bench.met.clear()
        bench.sizes = [slot_bytes + 1, slot_bytes, 0xFFFF, slot_bytes]
        for _ in range(4):
            await one(bench, "payload")
        # The first payload opens the buffer; two more that fit fill it.
        assert bench.met[OVERFLOW, "opens"] == bench.met[OVERFLOW, ""] == 1
        assert bench.met[USED, ""] == 2 and bench.n == FIRST_N + 1


@cocotb.test()
async def four_entries_of_room_are_enough(dut):
    """Four free entries suffice for a new buffer; an open one needs none; other queues are ignored."""
    bench = Bench(dut)
    bench.changes = 0.0
    log2_devices = bench.devices.bit_length() - 1
    await bench.start(2, 480, log2_devices)
    for device in range(bench.devices):
        while bench.device != device:
            await one(bench, "payload")
        bench.room[device], bench.sizes = ROOM - 1, [0xFFFF]  # an overrun, whatever its size
        before = bench.met[OVERRUN, ""]
        await one(bench, "payload")
        assert bench.met[OVERRUN, ""] == before + 1 and not bench.open
        bench.room = [0] * bench.devices
        bench.room[device] = ROOM
        await one(bench, "payload")
        assert bench.open
        bench.room[device] = 0
        await one(bench, "payload")
        assert not bench.open and bench.met[OVERRUN, ""] == before + 1
        bench.room = [9] * bench.devices


@pytest.mark.parametrize(("most", "devices"), [(2, 1), (8, 4)])
def test_clop_packets_fill(most, devices):
    run(most, devices)


def test_clop_packets_fill_of_thousands():
    run(2, 1, "the_largest_buffer_is_full_at_last")


def run(most, devices, testcase=None):
    parameters = {"MAX_BUFFERS": most, "DEVICES": devices, "FIRST_N": f"64'd{FIRST_N}"}
    simulate("clop_packets_fill", "test_clop_packets_fill", parameters, testcase=testcase)
