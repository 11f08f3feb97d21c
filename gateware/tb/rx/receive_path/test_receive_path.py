# SPDX-License-Identifier: SHL-2.1
"""Bench of receive_path: from frames on the wire to headers and events in memory, against clop_model.py."""

import os
import random
from collections import Counter

import clop_firmware
import cocotb
import mgp
import pytest
import reference_mgp
from clop_model import ClopModel
from clop_traffic import hostile, traffic
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import MemorySlave
from frames import FILTER_BITS, VERDICTS, Filter, Host, udp_frame
from handshake import reset, signed_words, start_clock
from simulate import simulate

CHANNELS = 2
SLOTS = 256  # buffers of all devices
DEVICES = int(os.environ.get("NANET_DEVICES", "1"))
FIRST_N = (1 << 33) + 7  # number of the first frame
HOST = Host(filters=[Filter(), Filter(enable=0)])
BASE = [0x7F00_1234_0000 + (device << 32) for device in range(DEVICES)]
SEGMENT = 8192
UNITS = (64 + 4 * SEGMENT) // 64
PLACED = ["used", "late", "duplicate", "replayed", "", "overrun", "overflow", "marker", "jump", "wrong_burst"]


class Bench:
    """Receive path with MACs, memory, firmware, consumer and sender."""

    def __init__(self, dut, segment=SEGMENT, returns=True, timeout=0, max_payload=1472, log2=12, window=0):
        self.dut, self.segment, self.returns, self.timeout = dut, segment, returns, timeout
        self.max_payload, self.log2, self.window = max_payload, log2, window
        self.model = ClopModel(SLOTS, segment, base=FIRST_N, window=window)
        self.model.returns = returns
        self.firmware = clop_firmware.Firmware(replay=bool(window))
        self.wakes = (10, 60)  # cycles from a request to its commands
        self.units = (64 + 4 * segment) // 64
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.pages, self.events, self.snapshots = {}, [], []
        self.counts, self.verdicts = Counter(), Counter()
        self.owed, self.passed, self.profiles = [], 0, []
        self.cycle, self.last_in, self.event_at = 0, [0] * CHANNELS, []
        self.names = []  # packet outcomes by the model
        self.misses = self.requests = self.skipped = 0

    async def start(self, memory_rate=1.0, tlb=1, sob=True):
        dut = self.dut
        start_clock(dut)
        rules = ((0x1C << 4 | 0xF) << 16 | self.max_payload) << 25 | 751_500
        for name, value in {
            "enable": 0,
            "host": (HOST.mac << 32 | HOST.ip) * (1 | 1 << 80),
            "filter": sum(f.pack() << FILTER_BITS * i for i, f in enumerate(HOST.filters)),
            "rules": rules,
            "log2_buffers": (SLOTS // DEVICES).bit_length() - 1,
            "log2_devices": DEVICES.bit_length() - 1,
            "window_frames": self.window,
            "base_vaddr": sum(base << 64 * device for device, base in enumerate(BASE)),
            "buffer_units": self.units,
            "segment_bytes": self.segment,
            "timeout_cycles": self.timeout,
            "grace_cycles": 0,
            "tlb_enable": tlb,
            "log2_page": self.log2,
            "tlb_flush": 0,
            "now": 0,
            "ttc_stamp": 0,
            "s_axis_rx_tvalid": 0,
            "s_axis_rx_tuser": 0,
            "m_axis_arp_tready": 3,
            "arp_answers": 3,
            "return_valid": 0,
            "sender_next": FIRST_N,
            "room": sum(1000 << 16 * device for device in range(DEVICES)),
            "half_free": (1 << DEVICES) - 1,
            "wr_done_valid": 0,
        }.items():
            getattr(dut, name).value = value
        await reset(dut)
        dut.enable.value = 1
        self.memory = MemorySlave(dut, rate=memory_rate, rng=self.rng, read=False)
        self.fills, self.pending, self.back, self.done, self.woken = [], [], [], set(), None
        cocotb.start_soon(self.run())
        while not int(dut.ready.value):
            await RisingEdge(dut.clk)
        if sob:
            await self.paced([on_wire(self.take(mgp.marker(board, reference_mgp.SOB))) for board in range(4)])

    def take(self, data):
        """Pass a packet to the model before it is sent."""
        self.names.append(self.model.packet(data, max_payload=self.max_payload))
        return data

    async def run(self):
        """Environment of the path, once per cycle: samples in the middle, drives at the end."""
        dut = self.dut
        dut.slowpath_ready.value = dut.tx_pending_ready.value = dut.miss_ready.value = 1
        dut.ev_ready.value = (1 << DEVICES) - 1
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.miss_valid.value):
                vaddr = int(dut.miss_vaddr.value)
                self.fills.append((vaddr, self.physical(vaddr >> self.log2 << self.log2)))
                self.misses += 1
            if self.fills and int(dut.fill_valid.value) and int(dut.fill_ready.value):
                self.fills.pop(0)
            if self.pending and int(dut.command_valid.value) and int(dut.command_ready.value):
                self.pending.pop(0)
            if int(dut.slowpath_valid.value):
                assert self.woken is None and not self.pending, "one request at a time"
                self.requests += 1
                self.woken = self.cycle + self.rng.randrange(*self.wakes)
                rare = clop_firmware.Rare.unpack(int(dut.slowpath.value))
            if self.woken is not None and self.cycle >= self.woken:
                self.woken = None
                self.pending += self.firmware.decide(rare)
            self.count()
            if int(dut.ev_valid.value):
                self.event(int(dut.ev.value), int(dut.ev_valid.value))
            if int(dut.tx_pending_valid.value):
                value = int(dut.tx_pending.value)
                self.owed.append((value >> 64 & (1 << 64) - 1, bool(value >> 192)))
            await RisingEdge(dut.clk)
            self.cycle += 1
            dut.now.value = self.cycle
            dut.fill_valid.value = int(bool(self.fills))
            if self.fills:
                dut.fill_vaddr.value, dut.fill_paddr.value = self.fills[0]
                dut.fill_ok.value = 1
            dut.command_valid.value = int(bool(self.pending))
            if self.pending:
                dut.command.value = self.pending[0]
            self.give_back()

    def physical(self, vaddr):
        page = vaddr >> self.log2
        if page not in self.pages:
            self.pages[page] = (3 * len(self.pages) + 100_000) << self.log2
        return self.pages[page] | vaddr & (1 << self.log2) - 1

    def read(self, vaddr, length):
        out = b""
        while len(out) < length:
            part = min(length - len(out), 4096 - (vaddr + len(out)) % 4096)
            out += self.memory.memory.read(self.physical(vaddr + len(out)), part)
        return out

    def count(self):
        dut = self.dut
        if int(dut.counted.value):
            self.counts[PLACED[int(dut.counted_as.value)]] += 1
        refused, verdicts = int(dut.refused.value), int(dut.verdict_valid.value)
        for c in range(CHANNELS):
            if refused >> c & 1:
                self.counts[mgp.REFUSALS[int(dut.refusal.value) >> 5 * c & 31]] += 1
            if verdicts >> c & 1:
                self.verdicts[VERDICTS[int(dut.verdict.value) >> 4 * c & 15]] += 1
        profiled = int(dut.profile_valid.value)
        for c in range(CHANNELS):
            if profiled >> c & 1:
                value = int(dut.profile.value) >> 128 * c
                self.profiles.append([value >> 32 * i & 0xFFFFFFFF for i in range(4)])
        if int(dut.overflow.value):
            self.verdicts["overflow"] += 1
        if int(dut.skipped_valid.value):
            self.skipped += int(dut.skipped.value)

    def event(self, value, devices):
        """Accept an event, and check the frame's memory at that time."""
        event = {
            "kind": value & 255,
            "flags": value >> 16 & 0xFFFF,
            "buffer": value >> 32 & 0xFFFFFFFF,
            "bytes": value >> 64 & 0xFFFFFFFF,
            "frame": value >> 96 & 0xFFFFFFFF,
            "n": value >> 192 & 0xFFFFFFFF,
        }
        self.events.append(event)
        everybody = (1 << DEVICES) - 1
        assert devices == (everybody if event["kind"] in (4, 5) else 1 << event["n"] % DEVICES)
        self.event_at.append(self.cycle)
        if event["kind"] == 1:
            at = BASE[event["n"] % DEVICES] + event["buffer"] * self.units * 64
            header = self.read(at, 64)
            parts = []
            for board in range(4):
                size = int.from_bytes(header[8 + 4 * board : 10 + 4 * board], "little")
                parts.append(self.read(at + 64 + board * self.segment, size))
            self.snapshots.append((event, header, parts))
            self.done.add(event["n"])
            self.back.append(event)

    def give_back(self):
        """The sender answers in order of n; buffers return in any order."""
        while self.passed < len(self.owed):
            n, overrun = self.owed[self.passed]
            if not overrun and n & 0xFFFFFFFF not in self.done:
                break
            self.passed += 1
        if not self.returns:
            return
        if self.passed:
            self.dut.sender_next.value = self.owed[self.passed - 1][0] + 1
        self.dut.return_valid.value = int(bool(self.back))
        if self.back:
            event = self.back.pop(self.rng.randrange(len(self.back)))
            self.dut.return_index.value = event["buffer"] * DEVICES + event["n"] % DEVICES
            self.dut.return_value.value = event["n"] + 1 & 0xFFFFFFFF

    async def send(self, frames):
        """Send (channel, frame) pairs on both MACs at once, at the line rate of 10 GbE."""
        queues = [[f for c, f in frames if c == channel] for channel in range(CHANNELS)]
        state = [(None, 0)] * CHANNELS
        due = [0.0] * CHANNELS  # cycle of the next frame's first word
        dut, cycle = self.dut, 0
        while any(queues) or any(s[0] is not None for s in state):
            valid = data = keep = last = 0
            for c in range(CHANNELS):
                frame, at = state[c]
                if frame is None and due[c] <= cycle and queues[c]:
                    frame, at = queues[c].pop(0), 0
                    due[c] += (len(frame) + 4 + 20) / 8  # FCS; preamble and gap
                if frame is None:
                    continue
                part = frame[at : at + 8]
                valid |= 1 << c
                data |= int.from_bytes(part, "little") << 64 * c
                keep |= ((1 << len(part)) - 1) << 8 * c
                state[c] = (frame, at + 8)
                if at + 8 >= len(frame):
                    last |= 1 << c
                    self.last_in[c] = self.cycle
                    state[c] = (None, 0)
            dut.s_axis_rx_tvalid.value = valid
            dut.s_axis_rx_tdata.value = data
            dut.s_axis_rx_tkeep.value = keep
            dut.s_axis_rx_tlast.value = last
            await RisingEdge(dut.clk)
            cycle += 1
        dut.s_axis_rx_tvalid.value = 0

    async def paced(self, frames):
        """Send frames one at a time, each after the decision on the previous one."""
        for frame in frames:
            before = sum(self.counts.values())
            await self.send([frame])
            while sum(self.counts.values()) == before:
                await RisingEdge(self.dut.clk)
            name = self.names[before]
            assert self.counts[name] == self.names[: before + 1].count(name), (
                f"packet {before}, {frame[1][42:58].hex()}: {name}, {self.counts}"
            )

    def compare(self):
        """Compare memory, counters and bursts with the model."""
        model = self.model
        assert self.counts == model.counts, f"{self.counts} for {model.counts}"
        got = {event["n"]: (event, header, parts) for event, header, parts in self.snapshots}
        assert len(got) == len(self.snapshots)
        assert set(got) == {n & 0xFFFFFFFF for n in model.closed}
        for n in model.closed:
            event, header, parts = got[n & 0xFFFFFFFF]
            frame = model.frames[n]
            assert header == model.header(n), f"{n}: {header.hex()}"
            assert event["flags"] == int.from_bytes(header[6:8], "little")
            assert event["frame"] == frame.number and event["buffer"] == n % SLOTS // DEVICES
            assert event["bytes"] == sum(board.end for board in frame.boards.values())
            for board, part in enumerate(parts):
                want = bytes(frame.boards[board].data) if board in frame.boards else b""
                assert _without_gaps(part, want), f"frame {frame.number} board {board}"
        assert self.owed == model.owed
        assert self.skipped == model.skipped
        for board in range(4):
            assert signed_words(self.dut.missing)[board] == model.missing(board)
        bursts = [
            ("begins" if e["kind"] == 4 else "ends", e["n"]) for e in self.events if e["kind"] in (4, 5)
        ]
        assert bursts == [(what, n & 0xFFFFFFFF) for what, n in model.bursts]
        assert len(self.profiles) == model.counts["used"]
        for start, controller, placed, written in self.profiles:
            assert start < controller and start < placed < written and controller < written


def _without_gaps(got, want):
    """Compare payloads; bytes that pad a payload to 16 are arbitrary."""
    at = 0
    while at < len(want):
        length = int.from_bytes(want[at + 4 : at + 6], "little")
        if got[at : at + length] != want[at : at + length]:
            return False
        at += -(-length // 16) * 16
    return len(got) == len(want)


def on_wire(data, channel=None):
    channel = reference_mgp.header(data)["board"] % 2 if channel is None and len(data) > 1 else channel or 0
    return channel, udp_frame(data, HOST)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def whole_frames_on_both_channels(dut):
    bench = Bench(dut)
    await bench.start()
    packets = [bench.take(data) for data in traffic(bench.rng, 40)]
    await bench.send([on_wire(data) for data in packets])
    await ClockCycles(dut.clk, 400)
    bench.compare()
    assert bench.verdicts == {"udp": len(packets) + 4}
    assert bench.events[0]["kind"] == 4 and bench.requests == 5, "the first SOB causes two requests"
    assert int(dut.idle.value)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def hostile_traffic_on_one_channel(dut):
    """All slow-path cases: bad packets, duplicates, replays, other bursts, jumps, late packets, restarts."""
    bench = Bench(dut, segment=2048)
    await bench.start(memory_rate=0.7, sob=False)
    packets = [bench.take(data) for data in hostile(random.Random(cocotb.RANDOM_SEED))]
    await bench.paced([on_wire(data, 0) for data in packets])
    await ClockCycles(dut.clk, 1500)
    bench.compare()
    counts = bench.model.counts
    for name in ("used", "late", "duplicate", "replayed", "overflow", "marker", "jump", "wrong_burst"):
        assert counts[name], f"{name} did not occur: {counts}"
    assert bench.skipped and len(bench.model.bursts) > 1


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def hostile_traffic_in_a_replay(dut):
    """Frames close by number; packets without a free buffer wait for one."""
    bench = Bench(dut, segment=2048, window=100)
    await bench.start(memory_rate=0.7, sob=False)
    packets = [bench.take(data) for data in hostile(bench.rng, bursts=4, blocks=4)]
    await bench.paced([on_wire(data, 0) for data in packets])
    await ClockCycles(dut.clk, 1500)
    bench.compare()
    assert any(frame.timed_out for frame in bench.model.frames.values())
    assert not bench.model.counts["overrun"] and bench.skipped


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_flood_of_rare_packets_leaves_the_other_channel_alone(dut):
    """Slow-path packets on channel 1 arrive faster than they are decided; channel 0 is unaffected."""
    bench = Bench(dut)
    await bench.start()
    bench.wakes = (200, 300)
    rare = [mgp.marker(1, reference_mgp.SOB, burst=77 + number % 50) for number in range(40)]
    packets = [data for data in traffic(bench.rng, 20, room=(200,), packets=(1,)) if data[1] in (0, 2)]
    for data in packets:
        bench.take(data)
    rare = [on_wire(data) for data in rare]
    await bench.send([part for pair in zip(rare, map(on_wire, packets), strict=True) for part in pair])
    await ClockCycles(dut.clk, 200)
    assert bench.counts["used"] == len(packets) == bench.model.counts["used"]
    assert 0 < bench.counts["marker"] - 4 < 8, "decided one by one"
    while int(dut.idle.value) == 0:
        await ClockCycles(dut.clk, 100)
    decided = sum(bench.counts[name] for name in ("marker", "wrong_burst", "late", "jump"))
    assert decided + bench.verdicts["overflow"] == 4 + len(rare)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def frames_time_out(dut):
    bench = Bench(dut, timeout=3000)
    await bench.start()
    model = bench.model
    packets = [bench.take(data) for data in traffic(bench.rng, 12) if bench.rng.random() < 0.8]
    timed_out = [n for n, frame in model.frames.items() if frame.open]
    assert timed_out
    await bench.send([on_wire(data) for data in packets])
    await ClockCycles(dut.clk, 4000)
    for n in timed_out:
        model.close(n, True)
    bench.compare()
    late = traffic(bench.rng, 1, model.frames[timed_out[0]].number, [900] * 4)
    for data in late:
        assert model.packet(data) == "late"
    await bench.send([on_wire(data) for data in late])
    await ClockCycles(dut.clk, 200)
    assert bench.counts == model.counts


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def consumer_stalls(dut):
    """No buffer returns: overruns once all are used, used buffers are not written; then it recovers."""
    bench = Bench(dut, returns=False, log2=21)
    await bench.start()
    model, sequences = bench.model, [1, 1, 1, 1]
    packets = traffic(bench.rng, SLOTS + 12, 0, sequences, room=(16,), packets=(1,))
    for data in packets:
        model.packet(data)
    await bench.send([on_wire(data) for data in packets])
    await ClockCycles(dut.clk, 600)
    bench.compare()
    assert model.counts["overrun"] == 4 * 12
    errors = [event for event in bench.events if event["kind"] == 3]
    assert sum(event["bytes"] for event in errors) == 12
    assert all(event["flags"] == 8 for event in errors) and errors[0]["frame"] == SLOTS
    bench.returns = True
    await ClockCycles(dut.clk, SLOTS + 100)
    model.returned = {FIRST_N + number for number in range(SLOTS)}
    for data in traffic(bench.rng, 4, SLOTS + 12, sequences):
        model.packet(data)
        await bench.send([on_wire(data)])
    await ClockCycles(dut.clk, 300)
    bench.compare()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def minimum_size_frames_on_one_channel(dut):
    """14.88 million packets per second with the minimum gap: no backlog."""
    bench = Bench(dut, log2=21)
    await bench.start()
    packets = [bench.take(data) for data in traffic(bench.rng, 50, room=(16,), packets=(1,))]
    assert bench.model.counts["used"] == len(packets)
    await bench.send([on_wire(data, 0) for data in packets])
    await ClockCycles(dut.clk, 100)
    assert bench.counts == bench.model.counts
    await ClockCycles(dut.clk, 60)
    bench.compare()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def line_rate_of_small_frames_on_both_channels(dut):
    """No backlog: the last packet is decided as soon after eight frames as after 32."""
    bench = Bench(dut, log2=21)
    await bench.start()
    sequences, behind, number = [1, 1, 1, 1], {}, 0
    for size in (16, 32, 48, 64, 80, 81, 88, 96, 112, 160):
        for length in (8, 32):
            packets = []
            for data in traffic(bench.rng, length, number, sequences, room=(size,), packets=(1,)):
                data = data[:3] + bytes([data[3] | reference_mgp.PADDED]) + data[4:]
                packets.append(bench.take(data + bytes(size - len(data))))
            number += length
            total = sum(bench.counts.values()) + len(packets)
            await bench.send([on_wire(data) for data in packets])
            last = bench.cycle
            while sum(bench.counts.values()) < total:
                await RisingEdge(dut.clk)
            behind[size + 46, length] = bench.cycle - last
            await ClockCycles(dut.clk, 300)
    dut._log.info("last word in to last decision, cycles by size on the wire and frames: %s", behind)
    assert max(behind.values()) <= 50
    bench.compare()
    assert bench.verdicts == {"udp": sum(bench.counts.values())}


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def line_rate_of_jumbo_frames(dut):
    bench = Bench(dut, segment=16384, max_payload=8972)
    await bench.start()
    rng = bench.rng
    packets = []
    for frame in range(3):
        for board in range(4):
            data = mgp.packet(rng, board, frame, frame + 1, 0, True, 124, reference_mgp.FIXED, room=8972)
            data = data[:3] + bytes([data[3] | reference_mgp.PADDED]) + data[4:]
            packets.append(bench.take(data + bytes(8972 - len(data))))
    assert bench.model.counts["used"] == len(packets)
    await bench.send([on_wire(data) for data in packets])
    await ClockCycles(dut.clk, 800)
    bench.compare()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def latency_from_last_byte_to_event(dut):
    """Idle card, translations hit: pages of 2 MB, of which the first frames use only the first."""
    bench = Bench(dut, log2=21)
    await bench.start()
    cycles = {}
    for number, size in enumerate((16, 16, 48, 70, 80, 81, 256, 272, 600, 1440)):
        number *= DEVICES
        for board in range(4):
            data = mgp.packet(bench.rng, board, number, number + 1, 0, True, 100, 0, room=size)
            data = data[:3] + bytes([data[3] | reference_mgp.PADDED]) + data[4:]
            await bench.send([on_wire(data + bytes(size - len(data)))])
            await ClockCycles(dut.clk, 60 if board < 3 else 150)
        if number:
            cycles[size] = bench.event_at[-1] - bench.last_in[1]
    dut._log.info("last byte in to event offered, cycles by size: %s", cycles)
    assert bench.misses == 1
    assert max(cycles.values()) <= 60, "latency limit; the event queue adds four cycles"
    assert max(cycles.values()) - min(cycles.values()) <= 8


SHORT = [
    "whole_frames_on_both_channels",
    "frames_time_out",
    "consumer_stalls",
    "minimum_size_frames_on_one_channel",
    "latency_from_last_byte_to_event",
]
DEALT_OUT = ["whole_frames_on_both_channels", "hostile_traffic_in_a_replay"]


@pytest.mark.parametrize(
    ("devices", "cases"), [(1, SHORT), (1, None), (2, DEALT_OUT)], ids=["short", "1", "2"]
)
def test_receive_path(devices, cases):
    parameters = {"CHANNELS": CHANNELS, "TLB_SETS": 16, "MAX_BUFFERS": SLOTS, "DEVICES": devices}
    parameters["FIRST_N"] = f"64'd{FIRST_N}"
    simulate(
        "receive_path",
        "test_receive_path",
        parameters,
        env={"NANET_DEVICES": str(devices)},
        testcase=cases,
    )
