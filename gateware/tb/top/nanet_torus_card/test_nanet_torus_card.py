# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_torus_card: messages of a node to itself, all set up and served through registers."""

import random

import cocotb
import rdma_model as model
import reference_torus as torus
from cocotb.triggers import ClockCycles
from dma_model import Event, Memory, MemorySlave
from handshake import reset, start_clock
from rdma_host import EVENTS, FINISHED, GETS, PUTS
from register_map import RegisterBus
from simulate import simulate

DOMAIN, BASE, SLOTS = 0x0123, 0x40_0000_0000, 0x50_0000_0000
LOG2_PUTS = 4


class Card:
    """Card with its host: memory, rings, and the driver's answers to misses."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.bus, self.memory, self.posted, self.read_events = None, Memory(), 0, 0
        self.buffer = model.Buffer(DOMAIN, BASE + 5, 0x8000 - 5, model.READ | model.WRITE)
        self.misses = {"key": 0, "page": 0}

    @staticmethod
    def physical(at: int) -> int | None:
        """Bus address of an address of the domain: pages in another order; one page has none."""
        page = at >> 12
        return None if page == (BASE >> 12) + 7 else (page ^ 0x5A5) << 12 | at & 0xFFF

    def load(self, at: int, size: int) -> bytes:
        """Memory of the domain."""
        return b"".join(self.memory.read(self.physical(at + i), 1) for i in range(size))

    def store(self, at: int, data: bytes) -> None:
        """Write memory of the domain."""
        for i, byte in enumerate(data):
            self.memory.write(self.physical(at + i), bytes([byte]))

    async def start(self) -> None:
        """Reset the node through its register, then set rings, slots and tables up."""
        dut = self.dut
        start_clock(dut)
        self.bus = bus = RegisterBus(dut, "nanet_torus_regs")
        for name in ("bus_master", "channel_up", "tx_ready", "rx_valid", "rx_control", "rx_data"):
            getattr(dut, name).value = 0
        await reset(dut)
        self.slave = MemorySlave(dut, self.memory, rate=0.8, latency=(2, 20), rng=self.rng, done_rate=0.7)
        assert await bus.read("id") == int.from_bytes(b"NTRS", "little")
        await bus.write("control", reset=1)
        while await bus.read("status", "resetting"):
            pass
        await bus.write_pair("put.base", PUTS)
        await bus.write("put.log2", LOG2_PUTS)
        await bus.write_pair("get.base", GETS)
        await bus.write("get.log2", 4)
        await bus.write_pair("event_queue.base", EVENTS)
        await bus.write("event_queue.log2", 8)
        await bus.write_pair("event_queue.finished", FINISHED)
        await bus.write("event_queue.poll_cycles", 20)
        await bus.write("slots[2].low", SLOTS & 0xFFFFFFFF)
        await bus.write("slots[2].domain", DOMAIN)
        await bus.write("slots[2].shape", high=SLOTS >> 32, log2_stride=12, log2_slots=1, enable=1)
        await bus.write("slots[2].posted", 1)
        await bus.write("control", enable=1)

    async def post(self, **given: int | bytes) -> None:
        """Post a descriptor to this node."""
        d = model.Descriptor(node=(0, 0, 0), remote_domain=DOMAIN, local_domain=DOMAIN, port=2, **given)
        for part in d.entries(self.posted, LOG2_PUTS):
            self.memory.write(PUTS + 64 * (self.posted % (1 << LOG2_PUTS)), part)
            self.posted += 1
        await self.bus.write("put.posted", self.posted)

    async def serve(self) -> None:
        """Answer the misses that the status names."""
        bus = self.bus
        status = await bus.read("status")
        if status >> 16 & 1:
            self.misses["key"] += 1
            high, low = await bus.read("key_miss.high"), await bus.read("key_miss.low")
            size, b = await bus.read("key_miss.bytes"), self.buffer
            domain, address = high >> 16, (high & 0xFFFF) << 32 | low
            found = b.holds(domain, address, size)
            reason = model.OUT_OF_RANGE if domain == b.domain else model.BAD_DOMAIN
            await bus.write_pair("key.first", b.address)
            await bus.write_pair("key.limit", b.address + b.size)
            await bus.write("key.low", low)
            await bus.write("key.high", high)
            await bus.write("key.fill", answer=1, found=int(found), rights=b.rights, reason=reason)
        if status >> 17 & 1:
            self.misses["page"] += 1
            at = await bus.read_pair("page_miss")
            assert at >> 48 == DOMAIN
            bus_address = self.physical(at & ~0xFFF & (1 << 48) - 1)
            await bus.write_pair("page.address", at)
            await bus.write_pair("page.bus", bus_address or 0)
            await bus.write("page.fill", answer=1, ok=int(bus_address is not None))

    async def events(self, count: int) -> list[Event]:
        """The next events, in order of their message."""
        found = []
        for _ in range(600):
            if int(self.dut.miss.value):
                await self.serve()
            e = Event.unpack(self.memory.read(EVENTS + 32 * self.read_events, 32))
            if e.lap == 1:
                found.append(e)
                self.read_events += 1
            if len(found) == count:
                return sorted(found, key=lambda e: (e.n, e.kind))
            await ClockCycles(self.dut.clk, 10)
        raise AssertionError(f"{len(found)} of {count} events: {found}")


@cocotb.test()
async def messages(dut):
    card = Card(dut)
    await card.start()
    data = card.rng.randbytes(9000)
    card.store(BASE + 0x1003, data)
    ends = {"flags": model.EVENT | model.ACK}
    await card.post(type=torus.PUT, bytes=5000, remote=BASE + 0x4011, local=BASE + 0x1003, message=1, **ends)
    await card.post(type=torus.SEND, bytes=100, payload=data[:100], flags=ends["flags"] | 1, message=2)
    first = await card.events(3)
    assert [(e.n, e.kind) for e in first] == [
        (1, model.COMPLETED),
        (2, model.SEND_ARRIVED),
        (2, model.COMPLETED),
    ]
    assert card.load(BASE + 0x4011, 5000) == data[:5000]
    assert card.load(SLOTS, 100) == data[:100]
    # A GET; a slot that was not posted; a page without translation; another domain's key.
    await card.post(
        type=torus.GET, bytes=300, remote=BASE + 0x1013, local=BASE + 0x6001, flags=model.EVENT, message=3
    )
    await card.post(type=torus.SEND, bytes=1, payload=b"x", flags=ends["flags"] | 1, message=4)
    await card.post(
        type=torus.PUT, bytes=4, payload=b"page", remote=BASE + 0x7010, flags=ends["flags"] | 1, message=5
    )
    await card.post(
        type=torus.PUT, bytes=4, payload=b"key!", remote=BASE + 0x8000, flags=ends["flags"] | 1, message=6
    )
    second = await card.events(4)
    assert [(e.n, e.kind, e.flags) for e in second] == [
        (3, model.COMPLETED, 0),
        (4, model.FAILED, model.NO_SLOT),
        (5, model.FAILED, model.OUT_OF_RANGE),
        (6, model.FAILED, model.OUT_OF_RANGE),
    ]
    assert card.load(BASE + 0x6001, 300) == data[0x10 : 0x10 + 300]
    assert card.misses["key"] >= 2 and card.misses["page"] >= 4
    # The slot is posted: the next SEND finds it.
    await card.bus.write("slots[2].posted", 2)
    await card.post(type=torus.SEND, bytes=2, payload=b"ok", flags=ends["flags"] | 1, message=7)
    assert len(await card.events(2)) == 2
    assert card.load(SLOTS + 4096, 2) == b"ok"
    while not await card.bus.read("status", "idle"):
        pass
    names = ["untranslated", "bad_descriptors", "events_lost", "astray", "overflow"]
    assert [await card.bus.read(name) for name in names] == [1, 0, 0, 0, 0]
    refused = [await card.bus.read(f"refused[{k}]") for k in range(13)]
    assert (refused[model.NO_SLOT], refused[model.OUT_OF_RANGE]) == (1, 2)


@cocotb.test()
async def a_stopped_card_forgets(dut):
    """Stopped with a message under way: ring and queue start at entry 0, without an event of it."""
    card = Card(dut)
    await card.start()
    # Its key is never answered.
    await card.post(
        type=torus.PUT,
        bytes=4,
        payload=b"lost",
        remote=BASE + 0x10,
        flags=model.EVENT | model.ACK | 1,
        message=9,
    )
    for _ in range(200):
        if int(dut.miss.value):
            break
        await ClockCycles(dut.clk, 10)
    assert await card.bus.read("status", "idle") == 0
    await card.bus.write("control", enable=0)
    await card.bus.write("put.posted", 0)
    while await card.bus.read("status", "key_miss"):
        await card.serve()
    await ClockCycles(dut.clk, 400)
    assert await card.bus.read("status", "idle") == 1
    card.posted = 0
    card.memory.write(PUTS, bytes(64 << LOG2_PUTS))
    await card.bus.write("control", enable=1)
    await card.post(
        type=torus.PUT,
        bytes=3,
        payload=b"new",
        remote=BASE + 0x20,
        flags=model.EVENT | model.ACK | 1,
        message=1,
    )
    assert [(e.n, e.kind) for e in await card.events(1)] == [(1, model.COMPLETED)]
    await ClockCycles(dut.clk, 300)
    assert card.memory.read(EVENTS + 32, 32) == bytes(32)


def test_nanet_torus_card():
    simulate("nanet_torus_card", "test_nanet_torus_card")
