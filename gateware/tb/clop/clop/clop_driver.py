# SPDX-License-Identifier: SHL-2.1
"""Driver of clop in gather mode `frame`: neighbouring modules, reference model, comparison.

The model takes each packet when clop answers it, so both channels may be busy at once. The cycle decides
whether a frame finds a buffer; the bench determines that itself and passes it to the model.
"""

import os
import random
from collections import deque
from dataclasses import dataclass, field

import clop_firmware
import cocotb
import mgp
import reference_mgp
from clop_model import ClopModel
from cocotb.triggers import RisingEdge
from handshake import Stepped, reset, signed_words, start_clock

CHANNELS, BUFFERS, SEGMENT = 2, 32, 2048
DEVICES = int(os.environ.get("NANET_DEVICES", "1"))
FIRST_N = 0xFFFF_FFD0  # the low word wraps during the test
BASE = [0x7F00_1234_0000 + (device << 32) for device in range(DEVICES)]
UNITS = (64 + 4 * SEGMENT) // 64
LOOK, COMMIT, BOTH = range(3)
PLACED = ["used", "late", "duplicate", "replayed", "", "overrun", "overflow", "marker", "jump", "wrong_burst"]
DONE, ERROR, BEGINS, ENDS = 1, 3, 4, 5


@dataclass
class Pace:
    """Activity rates and delays of the neighbouring modules."""

    requests: float = 1.0
    rest: int = 1  # largest delay in cycles from a look's answer to the packet's end
    owed: float = 1.0
    notices: float = 1.0
    firmware: tuple[int, int] = (10, 60)
    returned: tuple[int, int] = (20, 60)
    sender: float = 1.0
    scarce: float = 0.0  # fraction of time in which the event queue is nearly full
    timeout: int = 0
    loss: float = 0.0


PACES = {
    "nothing_waits": Pace(),
    "packets_come_late": Pace(requests=0.05, rest=60),
    "the_sender_is_slow": Pace(owed=0.03, sender=0.01),
    "news_are_taken_late": Pace(notices=0.02),
    "buffers_come_back_late": Pace(returned=(500, 3000)),
    "the_event_queue_is_short_of_room": Pace(scarce=0.5),
    "frames_time_out": Pace(requests=0.1, rest=80, timeout=900, loss=0.2),
    "everything_pauses": Pace(0.3, 60, 0.3, 0.3, (1, 300), (1, 900), 0.2, 0.2, 2500, 0.05),
}


@dataclass
class Packet:
    """Request of a channel."""

    data: bytes
    sound: bool
    stamp: int
    hits: int
    serial: int
    kind: int = BOTH
    looked: bool = False
    accepted: bool = False
    vaddr: int = 0
    asked_at: int = 0


class Model(ClopModel):
    """Reference model with inputs of the bench: buffer availability by frame, and the answer to a look."""

    def __init__(self):
        super().__init__(BUFFERS, SEGMENT, base=FIRST_N)
        self.found: dict[int, bool] = {}
        self.bears = True

    def n_of(self, h):
        """Return the number of a packet's frame."""
        burst = self.old if self.old and h["burst"] == self.old.number else self.current
        return burst.base + h["frame"] if burst else 0

    def end_of(self, h):
        """Return the number of bytes of the packet's board in its frame."""
        frame = self.frames.get(self.n_of(h))
        part = frame and frame.boards.get(h["board"])
        return part.end if part else 0

    def _free(self, n):
        return self.found[n]

    def _place(self, burst, n, b, h, data):
        if self.bears or not self.frames[n].buffer:
            return super()._place(burst, n, b, h, data)
        part = self.frames[n].boards.get(b)
        fits = (part.end if part else 0) + -(-h["length"] // 16) * 16 <= SEGMENT
        return "overrun" if fits else "overflow"


@dataclass
class Owner:
    """Latest user of a buffer."""

    n: int
    returned_at: int | None = None
    passed_at: int | None = None


@dataclass
class Notice:
    """Unpacked clop_notice_t with the frame's board memory at that time."""

    kind: int
    index: int
    n: int
    frame: int
    count: int
    timed_out: int
    complete: int
    there: int
    start: int
    channel: int
    tickets: list[int]
    parts: list[int] = field(default_factory=list)

    @staticmethod
    def unpack(value, tickets):
        out = []
        for width in (3, 32, 4, 4, 1, 32, 24, 64, 16, 8):
            out.append(value & (1 << width) - 1)
            value >>= width
        return Notice(*reversed(out), tickets)


class Bench(Stepped):
    """Module with channels, event queue, clop_close, consumer, sender and firmware."""

    def __init__(self, dut, pace):
        self.dut, self.pace = dut, pace
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.model, self.firmware = Model(), clop_firmware.Firmware()
        self.now = (3 << 32) - 5000  # the low word wraps
        self.queues = [deque() for _ in range(CHANNELS)]
        self.packets: list[Packet | None] = [None] * CHANNELS
        self.serial = [0] * CHANNELS
        self.place, self.valid, self.ready, self.placed = [0] * CHANNELS, 0, 0, 0
        self.answers, self.names, self.counted = [], [], []  # by packet
        self.took: list[int] = []  # cycles from request to answer
        self.notices: list[Notice] = []
        self.back: list[tuple[int, int]] = []  # (time, n)
        self.owed, self.owed_before, self.passed, self.done = [], False, 0, set()
        self.owners: dict[int, Owner] = {}
        self.room, self.short_at, self.promises, self.skipped = 1000, 0, [0] * DEVICES, 0
        self.pending, self.woken, self.closing_at = [], None, 0
        self.opened_by: dict[int, int] = {}  # frame to time stamp
        self.used: dict[int, list[tuple[int, int]]] = {}  # frame to channels and serials
        self.answered_at: list[int] = []

    async def start(self, sob=True):
        dut = self.dut
        start_clock(dut)
        for name, value in {
            "enable": 0,
            "log2_buffers": (BUFFERS // DEVICES).bit_length() - 1,
            "log2_devices": DEVICES.bit_length() - 1,
            "base_vaddr": sum(base << 64 * device for device, base in enumerate(BASE)),
            "buffer_units": UNITS,
            "segment_bytes": SEGMENT,
            "expected": 0xF,
            "timeout_cycles": self.pace.timeout,
            "grace_cycles": 50,
            "close_burst": 0,
            "close_frames": 0,
            "window_frames": 0,
            "board_read_index": 0,
            "done_serial": 0,
            "sender_next": FIRST_N,
            "room": sum(1000 << 16 * device for device in range(DEVICES)),
            "half_free": (1 << DEVICES) - 1,
            "place_valid": 0,
            "place": 0,
            "now": self.now,
        }.items():
            getattr(dut, name).value = value
        await reset(dut)
        dut.enable.value = 1
        self.channels = [self.channel(c) for c in range(CHANNELS)]
        self.closer = self.close()
        cocotb.start_soon(self.run())
        while not int(dut.ready.value):
            await RisingEdge(dut.clk)
        if sob:
            await self.begin(0)

    async def begin(self, number):
        self.put(mgp.marker(board, reference_mgp.SOB, burst=number) for board in range(4))
        await self.quiet()

    async def end(self, number, frame, sequences):
        for board in range(4):
            self.put([mgp.marker(board, reference_mgp.EOB, frame, sequences[board], number)])
            await self.quiet()

    def put(self, packets, channel=None):
        for data in packets:
            c = self.rng.randrange(CHANNELS) if channel is None else channel
            self.queues[c].append(data)

    async def quiet(self, cycles=200_000):
        """Wait until all packets are decided and only open frames remain."""
        calm = 0
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
            busy = any(self.queues) or any(self.packets) or self.pending or self.woken or self.back
            calm = 0 if busy or not int(self.dut.idle.value) or int(self.dut.notice_valid.value) else calm + 1
            if calm > 20:
                return
        raise AssertionError("the module does not become idle")

    # ------------------------------------------------------------ once per cycle

    def chance(self, rate):
        return self.rng.random() < rate

    def drive(self):
        dut, pace = self.dut, self.pace
        for channel in self.channels:
            next(channel)
        next(self.closer)
        dut.now.value = self.now
        dut.tx_pending_ready.value = int(self.chance(pace.owed))
        dut.slowpath_ready.value = int(self.chance(0.5))
        dut.command_valid.value = int(bool(self.pending))
        if self.pending:
            dut.command.value = self.pending[0]
        if self.now % 200 == 0 and pace.scarce:
            self.room = 3 if self.chance(pace.scarce) else 1000
            dut.room.value = sum(self.room << 16 * device for device in range(DEVICES))
            dut.half_free.value = ((1 << DEVICES) - 1) * (self.room > 3)
        if pace.scarce and self.room == 3:
            self.short_at = self.now
        self.give_back()

    def give_back(self):
        """Return buffers in any order; the sender passes numbers in order."""
        dut = self.dut
        if self.passed < len(self.owed) and self.chance(self.pace.sender):
            n, overrun = self.owed[self.passed]
            if overrun or n in self.done:
                self.passed += 1
                dut.sender_next.value = n + 1
                if not overrun and self.owners[n % BUFFERS].n == n:
                    self.owners[n % BUFFERS].passed_at = self.now
        due = [item for item in self.back if item[0] <= self.now]
        dut.return_valid.value = int(bool(due))
        if due:
            self.back.remove(due[0])
            n = due[0][1]
            dut.return_index.value, dut.return_value.value = n % BUFFERS, n + 1 & 0xFFFFFFFF
            self.owners[n % BUFFERS].returned_at = self.now

    def look(self):
        dut = self.dut
        self.ready, self.placed = int(dut.place_ready.value), int(dut.placed_valid.value)
        if self.placed:
            assert self.placed in (1, 2)
            self.answer = [int(s.value) for s in (dut.placed_accept, dut.placed_defer, dut.placed_vaddr)]
        self.check_pending()
        if self.placed:
            self.decided(self.placed.bit_length() - 1)
        if int(dut.counted.value):
            name = PLACED[int(dut.counted_as.value)]
            used = name == "used"
            self.counted.append(
                (name, int(dut.counted_hits.value) * used, int(dut.counted_events.value) * used)
            )
            at = len(self.counted) - 1
            assert self.names[at] == self.counted[at]
        if int(dut.closing.value):
            self.closing_at = self.now
        if int(dut.closed.value) and int(dut.closed_timed_out.value):
            self.timed_out(int(dut.closed_n.value))
        if int(dut.slowpath_valid.value) and int(dut.slowpath_ready.value):
            assert self.woken is None and not self.pending, "one request at a time"
            self.woken = self.now + self.rng.randint(*self.pace.firmware)
            self.rare = clop_firmware.Rare.unpack(int(dut.slowpath.value))
        if self.pending and int(dut.command_valid.value) and int(dut.command_ready.value):
            self.pending.pop(0)
        if self.woken is not None and self.woken <= self.now:
            self.woken = None
            self.pending = self.firmware.decide(self.rare)
        promised = int(dut.promise.value)
        for device in range(DEVICES):
            self.promises[device] += promised >> device & 1
        if int(dut.skipped_valid.value):
            self.skipped += int(dut.skipped.value)
        self.notice_there = int(dut.notice_valid.value)

    def check_pending(self):
        """Check the buffer decision of the frame opened in the previous cycle."""
        dut = self.dut
        valid = int(dut.tx_pending_valid.value)
        if valid and not self.owed_before:
            value = int(dut.tx_pending.value)
            overrun, n = value >> 192, value >> 64 & (1 << 64) - 1
            assert value >> 160 & 0xFFFFFFFF == 1 and (not self.owed or n > self.owed[-1][0])
            self.owed.append((n, bool(overrun)))
            owner = self.owners.get(n % BUFFERS)
            since = self.now if owner else 0
            if owner and owner.returned_at is not None and owner.passed_at is not None:
                since = max(owner.returned_at, owner.passed_at)
            if overrun:
                assert self.now - since < 500 or self.now - self.short_at < 500, (
                    "frame without a buffer, though its buffer was back"
                )
            else:
                assert since < self.now, "frame with a buffer that was not back"
                self.owners[n % BUFFERS] = Owner(n)
            self.model.found[n] = not overrun
            self.opened_by[n] = value & (1 << 64) - 1
        self.owed_before = bool(valid and not int(dut.tx_pending_ready.value))

    # ------------------------------------------------------------ channel: requests of rx_writer

    def channel(self, c):
        while True:
            while not self.queues[c] or not self.chance(self.pace.requests):
                yield
            data = self.queues[c].popleft()
            sound = mgp.mgp.refusal(data) is None
            one = Packet(data, sound, self.now & 0xFFFFFFFF, self.rng.getrandbits(16), self.serial[c])
            one.asked_at = self.now
            self.packets[c] = one
            if len(data) > 80 and self.chance(0.7):
                yield from self.ask(c, LOOK)
                accept, defer, vaddr = self.answer
                one.looked, one.accepted, one.vaddr = not defer, bool(accept and not defer), vaddr
                for _ in range(self.rng.randrange(self.pace.rest)):
                    yield
            if sound or one.looked:
                yield from self.ask(c, COMMIT if one.looked else BOTH)
            self.packets[c] = None
            self.serial[c] = self.serial[c] + 1 & 0xFFFFFF
            yield  # back-to-back requests; rx_writer needs this long to find the next packet

    def ask(self, c, kind):
        one = self.packets[c]
        one.kind, at = kind, self.now
        value = kind << 202 | one.sound << 201 | (one.accepted and kind == COMMIT) << 200
        value |= one.serial << 176 | one.hits << 160 | one.stamp << 128
        self.place[c] = value | int.from_bytes((one.data + bytes(16))[:16], "little")
        self.valid |= 1 << c
        self.dut.place.value = sum(value << 204 * c for c, value in enumerate(self.place))
        self.dut.place_valid.value = self.valid
        yield
        while not self.ready >> c & 1:
            yield
        self.valid &= ~(1 << c)
        self.dut.place_valid.value = self.valid
        while not self.placed >> c & 1:
            yield
        self.took.append(self.now - 1 - at)

    def decided(self, c):
        """Pass an answered packet to the model."""
        one, model = self.packets[c], self.model
        accept, defer, vaddr = self.answer
        self.answered_at.append(self.now)
        if one.kind == LOOK:
            return
        assert not defer
        if not one.sound:
            assert not accept
            return
        h = reference_mgp.header(one.data)
        model.bears = one.kind == BOTH or one.accepted
        name = model.packet(one.data)
        self.names.append((name, one.hits * (name == "used"), one.data[6] * (name == "used")))
        assert bool(accept) == (name == "used"), f"{name}, frame {h['frame']} board {h['board']}"
        if name != "used":
            return
        n = model.n_of(h)
        at = BASE[n % DEVICES] + (n % BUFFERS // DEVICES) * UNITS * 64 + 64 + h["board"] * SEGMENT
        assert (vaddr if one.kind == BOTH else one.vaddr) == at + model.end_of(h) - -(-h["length"] // 16) * 16
        self.used.setdefault(n, []).append((c, one.serial))

    def timed_out(self, low):
        """Close the model's frames when clop's timers close them, between packets.

        Frames closed by the firmware close in the model with the packet that caused it.
        """
        if self.now - self.closing_at < 10:
            return
        for n, frame in self.model.frames.items():
            if n & 0xFFFFFFFF == low and frame.open and frame.buffer:
                age = self.now - self.opened_by[n]
                assert self.pace.timeout and age >= self.pace.timeout + 50, f"{n} closed at age {age}"
                self.model.close(n, True)
                return

    # ------------------------------------------------------------ clop_close: takes notifications, reads the
    # board memory

    def close(self):
        dut = self.dut
        while True:
            dut.notice_ready.value = 0
            yield
            if not self.notice_there or not self.chance(self.pace.notices):
                continue
            notice = self.newest()
            if notice.kind == DONE:
                for board in range(4):
                    dut.board_read_index.value = notice.index << 2 | board
                    yield
                    yield
                    yield
                    notice.parts.append(int(dut.board_read.value) if notice.there >> board & 1 else 0)
            parts, notice.parts = notice.parts, []
            assert self.newest() == notice, "a notification was withdrawn or changed"
            notice.parts = parts
            dut.notice_ready.value = 1
            yield
            self.record_notice(notice)

    def newest(self):
        tickets = int(self.dut.notice_fence.value)
        return Notice.unpack(
            int(self.dut.notice.value), [tickets >> 24 * c & 0xFFFFFF for c in range(CHANNELS)]
        )

    def record_notice(self, notice):
        self.notices.append(notice)
        if notice.kind != DONE:
            return
        n = next(n for n, overrun in self.owed if not overrun and n & 0xFFFFFFFF == notice.n)
        assert notice.index == n % BUFFERS and n not in self.done
        for c, serial in self.used.get(n, []):
            assert (notice.tickets[c] - serial - 1) % (1 << 24) < 1 << 23, (
                "the fence does not cover a packet of the frame"
            )
        assert all((self.serial[c] + 1 - notice.tickets[c]) % (1 << 24) < 1 << 23 for c in range(CHANNELS))
        self.done.add(n)
        self.back.append((self.now + self.rng.randint(*self.pace.returned), n))

    # ------------------------------------------------------------ final comparison

    def compare(self, all_closed=True):
        model, dut = self.model, self.dut
        assert self.counted == self.names
        assert self.owed == model.owed
        closed = [notice.n for notice in self.notices if notice.kind == DONE]
        assert closed == [n & 0xFFFFFFFF for n in model.closed]
        for n, notice in zip(
            model.closed, [notice for notice in self.notices if notice.kind == DONE], strict=True
        ):
            self.compare_frame(n, model.frames[n], notice)
        said = [(n + DEVICES * i) & 0xFFFFFFFF for n, count in self.overruns() for i in range(count)]
        assert sorted(said) == sorted(n & 0xFFFFFFFF for n, overrun in model.owed if overrun)
        bursts = [
            ("begins" if e.kind == BEGINS else "ends", e.n & 0xFFFFFFFF) for e in self.notices if e.kind > 3
        ]
        assert bursts == [(what, n & 0xFFFFFFFF) for what, n in model.bursts]
        for device in range(DEVICES):
            assert self.promises[device] == sum(not o and n % DEVICES == device for n, o in model.owed)
        assert signed_words(dut.missing) == [model.missing(b) for b in range(4)]
        assert self.skipped == model.skipped
        assert int(dut.idle.value)
        assert not all_closed or not any(frame.open and frame.buffer for frame in model.frames.values())

    def compare_frame(self, n, frame, notice):
        assert (notice.frame, notice.timed_out, notice.complete) == (
            frame.number,
            frame.timed_out,
            frame.complete,
        )
        assert notice.there == sum(1 << b for b in frame.boards)
        for board, got in enumerate(notice.parts):
            part = frame.boards.get(board)
            want = part.end // 16 << 13 | part.packets << 8 | part.flags if part else 0
            assert got == want, f"{n}, board {board}: {got:x} for {want:x}"

    def overruns(self):
        return [(notice.n, notice.count) for notice in self.notices if notice.kind == ERROR]
