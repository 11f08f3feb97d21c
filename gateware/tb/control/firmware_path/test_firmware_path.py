# SPDX-License-Identifier: SHL-2.1
"""Bench of receive_path with firmware_port and the real firmware: bursts, jumps, restarted boards.

tb/control/firmware compares the model (firmware_model.py) with the socket card's receiver.
"""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import cocotb
import pytest
import reference_mgp as mgp
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from dma_model import Command, Memory
from dma_model import Event as RawEvent
from firmware_model import ERROR, RECEIVE_DONE, Card, Event
from firmware_traffic import Traffic
from frames import Filter, Host, udp_frame
from handshake import reset, signed_words, start_clock
from mgp import marker, packet
from microcontroller import Microcontroller
from simulate import simulate
from sources import modules

CHANNELS, BUFFERS, SEGMENT, LOG2_PAGE = 2, 2048, 960, 16
UNITS = (64 + 4 * SEGMENT) // 64
HOST = Host(filters=[Filter()])
BASE, PAGES = 0x7F00_0000_0000, 0x5000_0000_0000
PLACED = {0: "packets_used", 1: "late", 2: "duplicate", 3: "replayed_sequence", 5: "overrun"}
PLACED |= {6: "segment_overflow", 7: "burst_markers", 8: "unconfirmed_jump", 9: "wrong_burst"}
GRACE = 100


class Bench:
    """MACs, memory, consumer and microcontroller around the receive path."""

    def __init__(self, dut, wake=0, think=0):
        self.dut, self.wake, self.think = dut, wake, think
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.memory = Memory()
        self.events: list[Event] = []
        self.back: list[tuple[int, int]] = []

    async def start(self, boards=0xF, timeout=0, silence=0, window=0, tlb=1, first=0):
        dut = self.dut
        start_clock(dut)
        count = -(-BUFFERS * UNITS * 64 >> LOG2_PAGE)
        config = {"enable": 0, "host": (HOST.mac << 32 | HOST.ip) * (1 | 1 << 80), "filter": Filter().pack()}
        config |= {"rules": ((0x1C << 4 | boards) << 16 | 1472) << 25 | 751_500, "base_vaddr": BASE}
        config |= {"buffer_units": UNITS, "segment_bytes": SEGMENT, "timeout_cycles": timeout}
        config |= {"grace_cycles": GRACE, "window_frames": window, "silence_cycles": silence}
        config |= {"tlb_enable": tlb, "pages_base": PAGES, "pages_count": count, "drain": 0}
        config |= {"first": first, "rd_data_valid": 0, "return_valid": 0, "s_axis_rx_tvalid": 0}
        for name, value in config.items():
            getattr(dut, name).value = value
        await reset(dut)
        # The pages' physical order differs from their virtual order.
        for page in range(count):
            self.memory.write(PAGES + 8 * page, physical(page << LOG2_PAGE).to_bytes(8, "little"))
        for task in (self.write(), self.fetch(), self.consume(), self.give_back()):
            cocotb.start_soon(task)
        self.micro = Microcontroller(dut, self.wake, self.think)
        dut.enable.value = 1
        while not int(dut.ready.value):
            await ClockCycles(dut.clk, 20)

    async def write(self):
        """Accept the path's writes."""
        dut, at, data = self.dut, 0, b""
        while True:
            await RisingEdge(dut.wr_valid)
            await FallingEdge(dut.clk)
            while int(dut.wr_valid.value):
                command = Command.unpack(int(dut.wr_cmd.value))
                at = command.addr
                data += int(dut.wr_data.value).to_bytes(32, "little")
                if len(data) >= command.length:
                    self.memory.write(at, data[: command.length])
                    data = b""
                await FallingEdge(dut.clk)

    async def fetch(self):
        """Answer the port's reads."""
        dut = self.dut
        while True:
            await RisingEdge(dut.rd_valid)
            await FallingEdge(dut.clk)
            at = Command.unpack(int(dut.rd_cmd.value)).addr
            await ClockCycles(dut.clk, self.rng.randrange(20, 60))
            dut.rd_data.value = self.memory.word(at, 8)
            dut.rd_data_valid.value = 1
            await RisingEdge(dut.clk)
            dut.rd_data_valid.value = 0

    async def consume(self):
        """Read each event and the contents of its buffer at that time."""
        dut = self.dut
        while True:
            await RisingEdge(dut.ev_valid)
            await FallingEdge(dut.clk)
            raw = RawEvent.unpack(int(dut.ev.value).to_bytes(32, "little"))
            contents = b""
            if raw.kind == RECEIVE_DONE:
                at = raw.buffer * UNITS * 64
                contents = self.read(at, 64)
                for board in range(4):
                    size = int.from_bytes(contents[8 + 4 * board : 10 + 4 * board], "little")
                    contents += without_gaps(self.read(at + 64 + board * SEGMENT, size))
                self.back.append((raw.buffer, raw.n + 1 & 0xFFFFFFFF))
            self.events.append(Event(raw.kind, raw.flags, raw.buffer, raw.bytes, raw.frame, raw.n, contents))

    async def give_back(self):
        dut = self.dut
        while True:
            while not self.back:
                await ClockCycles(dut.clk, 5)
            dut.return_index.value, dut.return_value.value = self.back.pop(0)
            dut.return_valid.value = 1
            await RisingEdge(dut.clk)
            dut.return_valid.value = 0

    def read(self, at, length):
        inside = min(length, -at % (1 << LOG2_PAGE) or length)
        out = self.memory.read(physical(at), inside)
        return out + self.memory.read(physical(at + inside), length - inside)

    async def send(self, queues, gap=3):
        """Send payloads on all channels at once; one list for each channel."""
        dut = self.dut
        queues = [[udp_frame(data, HOST) for data in queue] for queue in queues]
        state = [(None, 0, 0)] * CHANNELS
        while any(queues) or any(frame is not None for frame, _, _ in state):
            valid = data = keep = last = 0
            for c in range(CHANNELS):
                frame, at, wait = state[c]
                if frame is None and wait == 0 and queues[c]:
                    frame, at = queues[c].pop(0), 0
                if frame is None:
                    state[c] = (None, 0, max(0, wait - 1))
                    continue
                part = frame[at : at + 8]
                valid |= 1 << c
                data |= int.from_bytes(part, "little") << 64 * c
                keep |= ((1 << len(part)) - 1) << 8 * c
                last |= int(at + 8 >= len(frame)) << c
                state[c] = (None, 0, gap) if at + 8 >= len(frame) else (frame, at + 8, 0)
            dut.s_axis_rx_tvalid.value = valid
            dut.s_axis_rx_tdata.value = data
            dut.s_axis_rx_tkeep.value = keep
            dut.s_axis_rx_tlast.value = last
            await RisingEdge(dut.clk)
        dut.s_axis_rx_tvalid.value = 0

    async def settled(self, cycles=20):
        """Wait until nothing is in flight and the microcontroller sleeps."""
        cycles += 2 * self.micro.think + self.micro.wake
        await ClockCycles(self.dut.clk, 5)
        while (left := cycles - int(self.dut.quiet.value)) > 0:
            await ClockCycles(self.dut.clk, left)

    async def one(self, data, channel):
        """Send a packet, wait for its decision and all its events; return its time stamp."""
        before, at = self.packets(), int(self.dut.now.value)
        queues = [[], []]
        queues[channel] = [data]
        await self.send(queues)
        for _ in range(3000):
            if self.packets() > before:
                break
            await ClockCycles(self.dut.clk, 20)
        else:
            raise AssertionError(f"no decision on packet {mgp.header(data)}")
        await self.settled()
        return at

    def packets(self):
        """Return the number of decided packets."""
        return int(self.dut.packets.value)

    def counts(self):
        """Return the counters by the model's names."""
        dut = self.dut
        by_kind = int(dut.counts.value)
        out = {name: by_kind >> 32 * kind & 0xFFFFFFFF for kind, name in PLACED.items()}
        out |= {"frames_in": int(dut.frames_in.value), "frames_skipped": int(dut.skips.value)}
        return out | {"frames_overrun": int(dut.overruns.value)}


def physical(at):
    """Return the bus address of an offset in the buffers."""
    page, inside = at >> LOG2_PAGE, at & (1 << LOG2_PAGE) - 1
    return 0x20_0000_0000 + (page * 7919 % 1009 << LOG2_PAGE | inside)


def without_gaps(data):
    """Zero the gaps between payloads, whose contents are arbitrary."""
    data, at = bytearray(data), 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        end = at + -(-length // 16) * 16
        data[at + length : end] = bytes(end - at - length)
        at = end
    return bytes(data)


def merged(events):
    """Merge consecutive overruns, as the card may do."""
    out = []
    for event in events:
        last = out[-1] if out else None
        if last and last.kind == event.kind == ERROR and last.n + last.bytes == event.n:
            out[-1] = replace(last, bytes=last.bytes + event.bytes)
        else:
            out.append(event)
    return out


def compare(bench, card, data=b"", ordered=True):
    """Compare counters, events and memory with the model."""
    said = f"{mgp.header(data)}" if data else ""
    have, events = merged(bench.events), merged(card.take())
    if not ordered:
        have, events = (sorted(some, key=lambda event: (event.n, event.kind)) for some in (have, events))
    for got, want in zip(have, events, strict=False):
        assert got == want, f"{got} for {want} {said}"
    assert len(have) == len(events), f"{len(have)} events for {len(events)} {said}"
    bench.events.clear()
    got, want = bench.counts(), {name: count for name, count in card.counts.items() if name != "bursts"}
    assert got == want, f"{got} for {want} {said}"
    got = signed_words(bench.dut.missing)
    assert sum(got) == card.missing(), f"{got} for {card.missing()} {said}"


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def decides_as_the_model_in_a_replay(dut):
    """Random traffic, packet by packet; frames close by number, so results do not depend on timing."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut)
    await bench.start(window=1024)
    card = Card(segment=SEGMENT, replay=True)
    card.waits = True
    traffic = Traffic(rng, [0, 1, 2, 3])
    while card.counts["bursts"] < 9 or card.counts["packets_used"] < 200:
        for data in traffic.step():
            channel = rng.randrange(CHANNELS)
            card.packet(data, await bench.one(data, channel))
            compare(bench, card, data)
    dut.drain.value = 1
    await ClockCycles(dut.clk, 300)
    await bench.settled()
    card.drain(int(dut.now.value))
    compare(bench, card)
    for name in ("burst_markers", "late", "replayed_sequence", "unconfirmed_jump", "frames_skipped"):
        assert card.counts[name], name
    dut._log.info("%s, %d requests", card.counts, bench.micro.steps)


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def decides_as_the_model_with_timeouts(dut):
    """Random traffic in bursts shorter than the timeout, with pauses in which all timers expire."""
    rng = random.Random(cocotb.RANDOM_SEED + 1)
    timeout, silence = 1 << 16, 1 << 17
    bench = Bench(dut)
    await bench.start(timeout=timeout, silence=silence, first=(1 << 32) - (1 << 17))
    card = Card(segment=SEGMENT, timeout=timeout, silence=silence)
    traffic = Traffic(rng, [0, 1, 2, 3])
    for _ in range(2):
        begun, taken = int(dut.now.value), 0
        while int(dut.now.value) < begun + timeout - 30_000 and taken < 150:
            for data in traffic.step():
                channel = rng.randrange(CHANNELS)
                card.packet(data, await bench.one(data, channel))
                compare(bench, card, data)
                taken += 1
        pause = rng.choice([timeout, silence]) + GRACE + 1000
        await ClockCycles(dut.clk, pause)
        await bench.settled()
        # The exact order of close events within some cycles is not modelled.
        for at in range(begun, int(dut.now.value) - GRACE, 1000):
            card.expire(at)
        compare(bench, card, ordered=False)
    dut._log.info("%s, %d requests", card.counts, bench.micro.steps)


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def whole_bursts_at_speed_with_a_slow_microcontroller(dut):
    """Two busy channels, consecutive bursts; wake-up and processing times of the original card."""
    rng = random.Random(cocotb.RANDOM_SEED + 2)
    bench = Bench(dut, wake=200, think=300)
    await bench.start(timeout=1 << 20, silence=1 << 20, tlb=0)
    sent = frames = 0
    for burst in range(4):
        sequence, queues = [1] * 4, [[], []]
        last = rng.randrange(8, 12)
        for board in range(4):
            queues[board % 2].append(marker(board, mgp.SOB, burst=burst))
        for frame in range(last + 1):
            for board in range(4):
                queues[board % 2].append(packet(rng, board, frame, sequence[board], events=3, burst=burst))
                sequence[board] += 1
        for board in range(4):
            queues[board % 2].append(marker(board, mgp.EOB, last, sequence[board], burst))
        sent += sum(map(len, queues))
        await bench.send(queues)
        frames += last + 1
    await bench.settled(2000)
    assert not int(dut.overflows.value), "receive buffer of a channel is full"
    counts = {name: count for name, count in bench.counts().items() if count}
    assert counts == {"packets_used": 4 * frames, "burst_markers": 32, "frames_in": frames}
    assert bench.packets() == sent
    kinds = Counter(event.kind for event in bench.events)
    assert kinds == {1: frames, 4: 4, 5: 4}
    done = [event.n for event in bench.events if event.kind == RECEIVE_DONE]
    assert sorted(done) == list(range(frames))
    assert all(event.flags == 1 for event in bench.events if event.kind == RECEIVE_DONE)
    bursts = [(event.kind, event.n) for event in bench.events if event.kind != RECEIVE_DONE]
    assert [kind for kind, _ in bursts] == [4, 5] * 4
    assert all(a[1] + 1 == b[1] for a, b in zip(bursts[1::2], bursts[2::2], strict=False))


SHORT = ["decides_as_the_model_in_a_replay"]


@pytest.mark.parametrize("cases", [SHORT, None], ids=["short", "all"])
def test_firmware_path(cases):
    bench = Path(__file__).with_name("firmware_path_bench.sv")
    simulate(
        "firmware_path_bench",
        "test_firmware_path",
        testcase=cases,
        optimise="-O1",
        extra=[bench, modules()["receive_path"], modules()["firmware_port"]],
    )
