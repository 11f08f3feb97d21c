# SPDX-License-Identifier: SHL-2.1
"""Surroundings of an RDMA network interface in a bench: router with two VCs, memory, firmware, consumer."""

from __future__ import annotations

import random
from collections import deque

import cocotb
import rdma_model as model
from cocotb.triggers import ClockCycles
from dma_model import Event, Memory, MemorySlave
from handshake import Sink, Source, Stepped, reset, start_clock

PUTS, GETS, EVENTS, FINISHED = 0x100_0000, 0x200_0000, 0x300_0000, 0x400_0000
LOG2_EVENTS = 9
COUNTERS = [
    *("read_errors", "bad_descriptors", "events_lost", "replies_lost", "datagrams_lost", "write_errors"),
    *("untranslated", "unexpected", "foreign", *(f"refused_{reason}" for reason in range(13))),
]


class Router(Stepped):
    """Injects packets with the whole-packet rule, collects those of the node, and returns credit."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0):
        self.dut, self.rng, self.rate, self.now = dut, rng, rate, 0
        self.send: list[deque[list[int]]] = [deque(), deque()]  # packets per VC
        self.word = [0, 0]  # next word of the front packet
        self.ready = [0, 0]  # earliest cycle of the next header
        self.space = 0
        self.open: list[list[int]] = [[], []]
        self.packets: list[list[list[int]]] = [[], []]  # of the node, per VC
        self.owed = [0, 0]
        self.freed = self.valid = 0  # as driven
        self.heads: list[list[int]] = [[], []]  # cycles, per VC
        self.tails: list[list[int]] = [[], []]
        self.holds = False  # set: no credit is returned
        self.datagram: list[int] = []
        self.datagrams: list[list[int]] = []
        self.chosen = None
        cocotb.start_soon(self.run())

    def look(self) -> None:
        """Sample the outputs."""
        dut = self.dut
        if any(self.send):
            self.space = int(dut.space.value)
        if int(dut.out_valid.value):
            vc, word = int(dut.out_vc.value), int(dut.out_word.value)
            assert bool(word >> 129) == (not self.open[vc]), "header within a packet, or a word outside"
            if not self.open[vc]:
                self.heads[vc].append(self.now)
            self.open[vc].append(word & (1 << 128) - 1)
            self.owed[vc] += 1
            if word >> 128 & 1:
                self.tails[vc].append(self.now)
                self.packets[vc].append(self.open[vc])
                self.open[vc] = []
        if int(dut.datagram_out_valid.value) and int(dut.datagram_out_ready.value):
            self.datagram.append(int(dut.datagram_out_data.value))
            if int(dut.datagram_out_last.value):
                self.datagrams.append(self.datagram)
                self.datagram = []

    def drive(self) -> None:
        """Offer a word; return credit."""
        dut, freed = self.dut, 0
        for vc in range(2):
            if self.owed[vc] and not self.holds and self.rng.random() < self.rate:
                self.owed[vc] -= 1
                freed |= 1 << vc
        if freed != self.freed:
            dut.out_freed.value = self.freed = freed
        if self.rate < 1:
            dut.datagram_out_ready.value = int(self.rng.random() < self.rate)
        if self.valid:
            dut.in_valid.value = self.valid = 0
        for vc in self.rng.sample((0, 1), 2) if self.send[0] and self.send[1] else (0, 1):
            if not self.send[vc] or self.rng.random() >= self.rate:
                continue
            packet = self.send[vc][0]
            if self.word[vc] == 0:
                data, header = self.space >> 18 * vc + 8 & 1023, self.space >> 18 * vc & 255
                if self.now < self.ready[vc] or header < 2 or data < len(packet) - 2:
                    continue
            at = self.word[vc]
            tail = at == len(packet) - 1
            dut.in_valid.value = self.valid = 1
            dut.in_vc.value = vc
            dut.in_word.value = int(at == 0) << 129 | int(tail) << 128 | packet[at]
            self.word[vc] += 1
            if tail:
                self.send[vc].popleft()
                self.word[vc] = 0
                self.ready[vc] = self.now + 2  # the space counts its words
            return

    def idle(self) -> bool:
        """Whether all packets are in the node."""
        return not any(self.send)


class Host:
    """Memory, firmware and rings of the node, with its reference model."""

    def __init__(self, dut, interface: model.Interface, seed: int, rate: float = 1.0):
        self.dut, self.model = dut, interface
        self.rng = random.Random(seed)
        self.memory = Memory()
        self.rate = rate
        self.posted = 0  # put ring entries
        self.log2_puts = 4
        self.router: Router | None = None
        self.written = 0  # cycle in which `settled` found the model's state
        self.read_events = 0
        self.misses = {"key": 0, "page": 0}

    async def start(self, timeout: int = 0, log2_gets: int = 4) -> None:
        """Clock, reset and all tasks of a network interface with its router."""
        dut, m = self.dut, self.model
        start_clock(dut)
        for name in ("out_freed", "datagram_room", "datagram_words", "datagram_vc"):
            getattr(dut, name).value = 0
        dut.datagram_out_ready.value = 1
        dut.datagram_header.value = dut.datagram_footer.value = 0
        dut.me.value = model.pack_node(m.me)
        dut.size.value = m.size[0] | m.size[1] << 7 | m.size[2] << 13
        self.configure(timeout, log2_gets)
        await reset(dut)
        self.router = Router(dut, self.rng, self.rate)
        self.begin()
        await ClockCycles(dut.clk, 80)  # the tables are cleared
        dut.enable.value = 1

    def configure(self, timeout: int = 0, log2_gets: int = 4) -> None:
        """Drive the configuration; not enabled."""
        dut, m = self.dut, self.model
        for name in ("key_flush", "tlb_flush", "enable", "now"):
            getattr(dut, name).value = 0
        dut.intra.value = m.port
        dut.put_base.value, dut.log2_puts.value, dut.put_posted.value = PUTS, self.log2_puts, 0
        dut.get_base.value, dut.log2_gets.value = GETS, log2_gets
        dut.event_base.value, dut.log2_events.value, dut.finished_addr.value = EVENTS, LOG2_EVENTS, FINISHED
        dut.poll_cycles.value, dut.timeout.value = 20, timeout
        dut.log2_page.value, dut.log2_granule.value = 12, 16
        self.set_slots()

    def receive(self, packet: list[int], vc: int = 0) -> None:
        """A packet from the torus, to the node and to its model."""
        self.model.receive(packet)
        self.router.send[vc].append(packet)

    def begin(self) -> None:
        """Start memory and firmware."""
        dut = self.dut
        self.slave = MemorySlave(
            dut, self.memory, rate=self.rate, latency=(2, 12), rng=self.rng, done_rate=self.rate
        )
        self.fill = Source(dut, "fill", ["vaddr", "paddr", "ok"])
        names = ["answer", "found", "reason", "domain", "address", "first", "limit", "rights"]
        self.key_fill = Source(dut, "key_fill", names)
        cocotb.start_soon(self.pages())
        cocotb.start_soon(self.keys())

    def set_slots(self) -> None:
        """Receive slots of the model."""
        value = 0
        for port, s in self.model.slots.items():
            one = (((1 << 16 | s.domain) << 48 | s.address) << 5 | s.log2_stride) << 4 | s.log2_slots
            value |= (one << 32 | s.posted) << 106 * port
        self.dut.slots.value = value

    async def pages(self) -> None:
        """Firmware: translations."""
        sink = Sink(self.dut, "miss", ["vaddr"], rng=self.rng)
        while True:
            vaddr = (await sink.take(1, 10**8))[0]["vaddr"]
            self.misses["page"] += 1
            found = self.model.physical(vaddr >> 48, vaddr & (1 << 48) - 1)
            self.fill.put([{"vaddr": vaddr, "paddr": found or 0, "ok": int(found is not None)}])

    async def keys(self) -> None:
        """Firmware: registered buffers."""
        sink = Sink(self.dut, "key_miss", ["domain", "address", "bytes"], rng=self.rng)
        while True:
            miss = (await sink.take(1, 10**8))[0]
            self.misses["key"] += 1
            found = [b for b in self.model.buffers if b.holds(miss["domain"], miss["address"], miss["bytes"])]
            reason = self.model.key(miss["domain"], miss["address"], miss["bytes"], 0)
            fill = {"answer": 1, "found": int(bool(found)), "reason": reason, "domain": miss["domain"]}
            fill |= {"address": miss["address"], "first": 0, "limit": 0, "rights": 0}
            if found:
                b = found[0]
                fill |= {"first": b.address, "limit": b.address + b.size, "rights": b.rights}
            self.key_fill.put([fill])

    # ------------------------------------------------------------------------------------------ rings

    def post(self, descriptor: model.Descriptor) -> None:
        """Write a descriptor and its inline payload, then the doorbell."""
        for part in descriptor.entries(self.posted, self.log2_puts):
            self.memory.write(PUTS + 64 * (self.posted % (1 << self.log2_puts)), part)
            self.posted += 1
        self.dut.put_posted.value = self.posted & 0xFFFFFFFF

    def events(self) -> list[model.Event]:
        """All events so far, without time and lap."""
        found = []
        for k in range(1 << LOG2_EVENTS):
            e = Event.unpack(self.memory.read(EVENTS + 32 * k, 32))
            if e.lap == 0:
                return found
            assert e.lap == 1
            found.append((e.kind, e.stream, e.flags, e.buffer, e.bytes, e.frame, e.n))
        raise AssertionError("the event queue is full")

    def counters(self) -> dict[str, int]:
        """Counters of the node that are not 0."""
        value = int(self.dut.counters.value)
        named = {name: value >> 32 * i & 0xFFFFFFFF for i, name in enumerate(COUNTERS)}
        return {name: count for name, count in named.items() if count}

    async def settled(self, packets: int, cycles: int = 6000) -> None:
        """Wait until the node has done what the model has, with `packets` packets sent."""
        m = self.model

        def done() -> bool:
            router = self.router
            if router and (not router.idle() or sum(map(len, router.packets)) < packets):
                return False
            expected = {name: count for name, count in m.counters.items() if count}
            return self.counters() == expected and len(self.events()) >= len(m.events)

        for _ in range(cycles // 20):
            if done():
                self.written = self.router.now if self.router else 0
                break
            await ClockCycles(self.dut.clk, 20)
        else:
            sent = [len(p) for p in self.router.packets] if self.router else []
            found = (self.counters(), sent, self.events())
            raise AssertionError(f"{found} and not {(dict(m.counters), packets, m.events)}")
        await ClockCycles(self.dut.clk, 30)  # nothing follows

    def compare(self) -> None:
        """Memory, events and counters equal the model's."""
        expected = {name: count for name, count in self.model.counters.items() if count}
        assert self.counters() == expected
        assert sorted(self.events()) == sorted(self.model.events)
        rings = range(PUTS, FINISHED + 4096)
        found = {}
        for at, data in self.slave.writes:
            if at not in rings:
                found.update({at + i: byte for i, byte in enumerate(data)})
        assert found == self.model.memory
        if self.router:
            assert self.router.datagrams == self.model.datagrams
