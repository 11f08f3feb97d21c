# SPDX-License-Identifier: SHL-2.1
"""Bench base of the sender and the send path: pending numbers, and a consumer that posts by the contract."""

from __future__ import annotations

import random

import cocotb
import golden_vectors
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from dma_model import Event, Memory, MemorySlave
from handshake import reset
from transmit_model import TO_IP, TO_PORT, endpoint

ENTRIES, BUFFERS, STRIDE = 16, 16, 1472
RING, SEND, BUS = 0x4_0000_0000, 0x7F12_3456_0000, 0x9_0000_0000
DEADLINE = 3000
STREAM, SEND_DONE, LATE = 5, 2, 0x10
LATE_PACKET = golden_vectors.read("mtp_late")[1]


def late_packet(frame: int) -> bytes:
    """Return a header-only MTP packet with sub ID 0xFF: the golden one with another frame (24 bits)."""
    return frame.to_bytes(3, "little") + LATE_PACKET[3:]


def pending_word(n: int, frame: int, stamp: int, count: int = 1, overrun: int = 0) -> int:
    """Return a packed tx_pending_t."""
    return stamp | n << 64 | frame << 128 | count << 160 | overrun << 192


class SendBench:
    """Module with a sender, its memory, its clock, and a consumer that posts by the contract.

    Subclasses supply `sent`, the transmitted packets.
    """

    def __init__(self, dut, rng: random.Random, rate: float = 1.0, latency: tuple[int, int] = (5, 40)):
        self.dut, self.rng = dut, rng
        self.devices = len(dut.ev_valid)
        self.memory = Memory()
        self.rate, self.latency = rate, latency
        self.now = 1000
        self.events: list[tuple[int, Event]] = []
        self.counts = dict.fromkeys(
            ["out", "answered", "late", "bad_descriptor", "after_deadline", "read_error"], 0
        )
        self.owed: list[int] = []
        self.bells: list[int] = []
        self.ev_rate = 1.0

    @property
    def sent(self) -> list:
        """Return the transmitted packets."""
        raise NotImplementedError

    async def start(self, deadline: int = DEADLINE, poll: int = 0) -> None:
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        pack = lambda values: sum(v << 64 * i for i, v in enumerate(values))  # noqa: E731
        dut.enable.value = 0
        dut.stream.value = STREAM
        dut.log2_devices.value = self.devices.bit_length() - 1
        dut.log2_descriptors.value = ENTRIES.bit_length() - 1
        dut.ring_base.value = pack(RING + (d << 20) for d in range(self.devices))
        dut.send_base.value = pack(SEND + (d << 24) for d in range(self.devices))
        dut.send_bus.value = pack(BUS + (d << 24) for d in range(self.devices))
        dut.send_bytes.value = BUFFERS * STRIDE
        dut.deadline.value = deadline
        dut.poll_cycles.value = poll
        dut.late_template.value = int.from_bytes(late_packet(0), "little")
        dut.late_destination.value = 0
        dut.destinations.value = endpoint() | endpoint(TO_IP + 1, TO_PORT + 1) << 97
        dut.tx_pending_valid.value = dut.bell_valid.value = dut.rd_data_valid.value = 0
        dut.now.value = self.now
        cocotb.start_soon(self._run())
        dut.rd_ready.value = 0
        await reset(dut)
        # Starts after the reset, because it would serve requests from before it.
        self.slave = MemorySlave(
            dut, self.memory, rate=self.rate, latency=self.latency, rng=self.rng, write=False
        )
        dut.enable.value = 1
        for _ in range(140):  # clearing of the late-answer table
            await RisingEdge(dut.clk)

    async def _run(self) -> None:
        dut = self.dut
        offering = False
        while True:
            self.now += 1
            dut.now.value = self.now
            offering = bool(self.owed) and (offering or self.rng.random() < 0.7)
            dut.tx_pending_valid.value = int(offering)
            if offering:
                dut.tx_pending.value = self.owed[0]
            dut.bell_valid.value = int(bool(self.bells))
            if self.bells:
                dut.bell_n.value = self.bells.pop(0) & 0xFFFFFFFF
            ready = (1 << self.devices) - 1 if self.rng.random() < self.ev_rate else 0
            dut.ev_ready.value = ready
            await FallingEdge(dut.clk)
            await ReadOnly()
            for name in self.counts:
                self.counts[name] += int(getattr(dut, f"count_{name}").value)
            taken = int(dut.ev_valid.value) & ready
            for device in range(self.devices):
                if taken >> device & 1:
                    event = Event.unpack(int(dut.ev.value).to_bytes(32, "little"))
                    self.events.append((device, event))
            if offering and int(dut.tx_pending_ready.value):
                self.owed.pop(0)
                offering = False
            await RisingEdge(dut.clk)

    def owe(self, n: int, frame: int, stamp: int | None = None, count: int = 1, overrun: int = 0) -> None:
        self.owed.append(pending_word(n, frame, self.now if stamp is None else stamp, count, overrun))

    def post(self, n: int, payload: bytes, destination: int = 0, token: int = 0, **wrong: int) -> None:
        """Write send buffer, descriptor and doorbell, in contract order."""
        device, slot = n % self.devices, (n // self.devices) % ENTRIES
        at = (device << 24) + slot * STRIDE
        self.memory.write(BUS + at, payload)
        address = wrong.get("address", SEND + at)
        length = wrong.get("bytes", len(payload))
        lap = n // (self.devices * ENTRIES) + 1
        fields = (address, 8), (length, 4), (destination, 4), (token, 4), (0, 8), (lap & 0xFFFFFFFF, 4)
        descriptor = b"".join(value.to_bytes(size, "little") for value, size in fields)
        self.memory.write(RING + (device << 20) + 32 * slot, descriptor)
        if not wrong.get("silent"):
            self.bells.append(n)

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def until(self, numbers: int, limit: int = 60_000) -> None:
        for _ in range(limit):
            if self.counts["out"] >= numbers and len(self.sent) >= numbers:
                break
            await RisingEdge(self.dut.clk)
        await self.cycles(150)
        assert self.counts["out"] == numbers and len(self.sent) == numbers


async def random_answers(bench: SendBench, rng: random.Random) -> list[tuple[bytes, int]]:
    """Post answers in any order: early, late, wrong or none; check events and counters.

    Returns the expected packets as (payload, destination).
    """
    dut = bench.dut
    await bench.start(deadline=600)
    bench.ev_rate = 0.3
    base = rng.choice([0, 1, 2**32 - 40, 2**40 + 3])
    want: dict[int, tuple[int, bytes, int]] = {}
    first: dict[int, int] = {}
    posts: list[tuple[int, int]] = []  # (time, n)
    kinds: dict[int, str] = {}
    total, n, frame, released = 120, base, 77, 0
    overruns = []
    posted: set[int] = set()
    order: list[int] = []
    passed_at: list[int] = []
    while released < total or bench.counts["out"] < len(order):
        # A number reuses a buffer and its descriptor only after the previous user is passed and its answer is
        # posted or given up (return slots). Late numbers are looked up once more. A real ring outlasts that
        # second look; this one does not.
        reach = ENTRIES * bench.devices
        passed_at += [bench.now] * (bench.counts["out"] - len(passed_at))
        young = sum(at > bench.now - 1000 for at in passed_at)
        blocked = [m for _, m in posts] + order[bench.counts["out"] - young :]
        if released < total and n + 8 - min(blocked, default=n) < reach and rng.random() < 0.1:
            gap = rng.choice([0, 0, 0, 5])  # numbers without an owed answer
            n, frame = n + gap, frame + gap
            if rng.random() < 0.1:
                count = rng.randint(1, 3)
                bench.owe(n, frame, count=count, overrun=1)
                overruns += [(n + i, frame + i) for i in range(count)]
                order += range(n, n + count)
                for i in range(count):
                    kinds[n + i] = "overrun"
                    want[n + i] = (frame + i, b"", 0)
                n, frame, released = n + count, frame + count, released + count
                continue
            stamp = bench.now
            bench.owe(n, frame, stamp)
            kind = rng.choice(["early", "early", "early", "late", "never", "wrong", "any"])
            payload = rng.randbytes(rng.choice([8, 12, 40, rng.randint(0, 1472)]))
            want[n], first[n], kinds[n] = (frame, payload, rng.randint(0, 1)), stamp, kind
            delay = {"early": (0, 60), "late": (900, 1500), "any": (0, 1200), "wrong": (0, 60)}.get(kind)
            if delay:
                posts.append((stamp + rng.randint(*delay), n))
            order.append(n)
            n, frame, released = n + 1, frame + 1, released + 1
        for post in [p for p in posts if p[0] <= bench.now]:
            posts.remove(post)
            m = post[1]
            posted.add(m)
            _, payload, destination = want[m]
            wrong = {}
            if kinds[m] == "wrong":
                wrong = rng.choice(
                    [
                        {"address": SEND - 4},
                        {"address": SEND + BUFFERS * STRIDE},
                        {"bytes": 1473},
                        {"address": 2},
                    ]
                )
                if rng.random() < 0.2:
                    wrong, destination = {}, 3
                    want[m] = (want[m][0], payload, 3)
            bench.post(m, payload or b"", destination, token=m & 0xFFFF, **wrong)
        await RisingEdge(dut.clk)
    while posts:
        await bench.cycles(1)
        for post in [p for p in posts if p[0] <= bench.now]:
            posts.remove(post)
            posted.add(post[1])
            bench.post(post[1], want[post[1]][1])
    await bench.until(len(order))
    await bench.cycles(600)

    events = {event.n: (device, event) for device, event in bench.events}
    owed = [m for m in order if kinds[m] != "overrun"]
    assert [event.n for _, event in bench.events] == [m & 0xFFFFFFFF for m in owed]
    late = 0
    packets: list[tuple[bytes, int]] = []
    for m in order:
        frame_number, payload, destination = want[m]
        if kinds[m] == "overrun":
            packets.append((late_packet(frame_number), 0))
            late += 1
            continue
        device, event = events[m & 0xFFFFFFFF]
        assert device == m % bench.devices
        assert (event.kind, event.stream, event.frame) == (SEND_DONE, STREAM, frame_number)
        is_late = bool(event.flags & LATE)
        late += is_late
        if is_late:
            assert event.bytes == 8
            packets.append((late_packet(frame_number), 0))
            assert kinds[m] in ("wrong", "late", "never", "any") or event.stamp >= first[m] + 600
        else:
            assert kinds[m] not in ("wrong", "never", "late")
            packets.append((payload, destination))
            assert event.buffer == m & 0xFFFF and event.bytes == len(payload)
    counts = bench.counts
    assert counts["late"] == late and counts["answered"] == len(order) - late and counts["out"] == len(order)
    after = sum(1 for m in owed if events[m & 0xFFFFFFFF][1].flags & LATE and m in posted)
    assert counts["after_deadline"] == after
    assert counts["read_error"] == 0
    assert counts["answered"] > 5 and counts["bad_descriptor"] > 0
    assert int(dut.sender_next.value) == order[-1] + 1
    return packets
