# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_card: driver, consumer and real firmware around the card, from input to output frames."""

import random
from collections import Counter

import cocotb
import mgp
import pytest
import reference_mgp
from card_host import (
    BURST_BEGINS,
    BURST_ENDS,
    ERROR,
    LATE,
    RECEIVE_DONE,
    SEND_DONE,
    Answer,
    CardHost,
    RegisterBus,
    Setup,
    Window,
    account,
)
from card_wire import Wire
from cocotb.triggers import ClockCycles
from dma_model import Memory, MemorySlave
from firmware_model import Card as Model
from frames import Host, arp_frame, judge, malformed, udp_frame
from handshake import reset, start_clock
from microcontroller import Microcontroller
from simulate import simulate
from transmit_model import IP, MAC, TO_IP, TO_PORT, frame_of

N = 64  # number of buffers


class Bench:
    """One stream of the card with its environment, and a reference that gets the same packets.

    `beside`: bench of the card's first stream, which owns the shared parts.
    """

    HOST = CardHost

    def __init__(
        self,
        dut,
        setup=None,
        memory_rate=1.0,
        latency=(4, 30),
        tx_rate=1.0,
        wake=0,
        think=0,
        stream=0,
        beside=None,
        layout=None,
    ):
        self.dut, self.setup, self.beside = dut, setup or Setup(buffers=N), beside
        if beside:
            self.rng, self.memory, self.wire = beside.rng, beside.memory, beside.wire
            self.bus = Window(beside.bus, stream)
        else:
            self.rng = random.Random(cocotb.RANDOM_SEED)
            start_clock(dut)
            dut.bus_master.value, dut.unsupported.value = 1, 0
            self.memory = MemorySlave(dut, Memory(), rate=memory_rate, latency=latency, rng=self.rng)
            self.wire = Wire(dut, self.rng, tx_rate)
            self.bus = RegisterBus(dut)
        self.firmware = Microcontroller(dut, wake, think, stream, beside and beside.firmware)
        wait = lambda n: ClockCycles(dut.clk, n)  # noqa: E731
        self.host = self.HOST(self.bus, self.memory.memory, wait, self.rng, self.setup, layout)
        self.model = self.fresh_model()
        self.sent = 0  # number of datagrams
        self.before: Counter[str] = Counter()  # counters at the start

    def fresh_model(self):
        s = self.setup
        return Model(s.boards, s.devices * s.buffers, s.segment, s.timeout, s.silence, bool(s.window))

    async def start(self):
        if not self.beside:
            await reset(self.dut)
        await self.host.configure()
        await self.host.start()

    async def again(self):
        """Restart after a stop: all state is new, the counters continue."""
        self.before = Counter(await self.host.counters())
        self.model, self.sent = self.fresh_model(), 0
        own = set(map(id, self.own()))
        self.wire.out[0][:] = [frame for frame in self.wire.out[0] if id(frame) not in own]
        await self.host.configure()
        await self.host.start()

    async def counters(self):
        """Return the counters since the start."""
        return {name: value - self.before[name] for name, value in (await self.host.counters()).items()}

    async def send(self, packets, gap=3, channel=None, to_model=True):
        """Send payloads, each on its board's channel, and pass the sound ones to the model."""
        for data in packets:
            if to_model:
                self.tell(data)
        await self.wire.send([self.on_wire(data, channel) for data in packets], gap)
        self.sent += len(packets)

    def on_wire(self, data, channel=None):
        """Return (channel, frame) of a payload to this stream, by default on its board's channel."""
        channel = (data[1] if len(data) > 1 else 0) % 2 if channel is None else channel
        host = Host(mac=MAC + channel, ip=self.setup.ip + channel)
        return channel, udp_frame(data, host, dst_port=self.setup.port)

    def own(self):
        """Return the datagrams that the card has sent for this stream."""
        port = self.setup.port.to_bytes(2, "big")
        return [frame for frame in self.wire.out[0] if frame[12:14] == b"\x08\0" and frame[34:36] == port]

    def tell(self, data):
        name = reference_mgp.refusal(data, self.setup.boards, self.setup.max_payload)
        if name is None:
            self.model.packet(data, self.wire.cycle)
        else:
            self.model.counts[name] = self.model.counts.get(name, 0) + 1

    async def decided(self):
        """Wait until no packet remains between the MACs and memory."""
        await ClockCycles(self.dut.clk, 100)
        while not await self.host.read("status") & 8:
            await ClockCycles(self.dut.clk, 100)

    async def finish(self, every=40):
        """Consume until all owed numbers are sent and their send-done events are read."""
        owed = self.model.counts["frames_in"]
        ends = sum(event.kind == BURST_ENDS for event in self.model.events)
        overrun = self.model.counts["frames_overrun"]

        def done():
            kinds = [event.kind for event in self.host.events]
            return (
                len(self.own()) >= owed
                and kinds.count(SEND_DONE) >= owed - overrun
                and kinds.count(BURST_ENDS) >= ends
            )

        await self.host.consume(done, every)

    async def compare(self, late=()):
        """Compare events, buffers, sent frames and counters with the model."""
        model, host = self.model, self.host
        want = {event.n: event for event in model.events if event.kind == RECEIVE_DONE}
        assert set(host.frames) == set(want)
        for n, frame in host.frames.items():
            ref, event = want[n], frame.event
            got = (event.flags, event.buffer, event.bytes, event.frame)
            buffer = ref.buffer // self.setup.devices
            assert got == (ref.flags, buffer, ref.bytes, ref.frame), f"{n}: {event} for {ref}"
            assert same(frame.contents, ref.contents), f"{n}: {frame.contents.hex()}"
        assert edges(host.events) == edges(model.events)
        assert sorted(edges(host.others)) == sorted(edges(model.events) * (self.setup.devices - 1))
        lost = sum(event.bytes for event in model.events if event.kind == ERROR)
        assert sum(event.bytes for event in host.events if event.kind == ERROR) == lost
        counters = await self.counters()
        for name, (left, right) in account(counters).items():
            assert left == right, f"{name}: {left}, {right} of {counters}"
        assert sum(counters[f"verdicts[{c}].udp"] for c in range(2)) == self.sent
        groups = ("frames", "lost", "bad_packets")
        want = {f"{group}.{name}": value for group in groups for name, value in model.counts.items()}
        want = {name: value for name, value in want.items() if name in counters}
        differing = {name: (counters[name], value) for name, value in want.items() if counters[name] != value}
        assert not differing, f"card, reference: {differing}"
        assert sum(counters[f"lost.missing[{b}]"] for b in range(4)) == model.missing()
        assert counters["frames.frames_late"] == len(late) + model.counts["frames_overrun"]
        return counters

    async def measured(self, counters):
        """Check the latency counters: each stage counts every used packet once."""
        histogram = await self.host.histogram()
        assert sum(histogram.values()) == counters["frames.packets_used"] > 0, histogram

    def answers(self, late=()):
        """Return the expected output frames in the order of n."""
        frames = {event.n: event.frame for event in self.model.events if event.kind == RECEIVE_DONE}
        for event in self.model.events:
            if event.kind == ERROR:
                frames |= {event.n + i: event.frame + i for i in range(event.bytes)}
        out = []
        for n in sorted(frames):
            if n in self.host.posted and n not in late:
                answer = self.host.posted[n]
                out.append(self.frame_of(answer.payload, answer.destination))
            else:
                out.append(self.frame_of(self.host.late_packet(frames[n])))
        return out

    def frame_of(self, payload, destination=0):
        """Return a datagram of this stream to one of its destinations."""
        return frame_of(payload, TO_IP + destination, TO_PORT + destination, self.setup.ip, self.setup.port)


def edges(events):
    """Return the begin and end events of bursts."""
    return [(e.kind, e.buffer, e.bytes, e.frame, e.n) for e in events if e.kind in (BURST_BEGINS, BURST_ENDS)]


def same(got, want):
    """Compare header and payloads; bytes that pad a payload to 16 are arbitrary."""
    if got[:64] != want[:64] or len(got) != len(want):
        return False
    at = 64
    while at < len(want):
        length = int.from_bytes(want[at + 4 : at + 6], "little")
        if got[at : at + length] != want[at : at + length]:
            return False
        at += -(-length // 16) * 16
    return True


def burst(rng, number, frames, room=(40, 200, 1000), packets=(1, 1, 2), markers=True, boards=range(4)):
    """Return the packets of a burst in order: SOB, whole frames, EOB of every board."""
    sequences = dict.fromkeys(boards, 1)
    out = [mgp.marker(b, reference_mgp.SOB, 0, 0, number) for b in boards] if markers else []
    for frame in range(frames):
        for b in boards:
            count = rng.choice(packets)
            for index in range(count):
                flags = rng.choice([0, 0, reference_mgp.TRUNCATED, reference_mgp.FIXED])
                last, size = index == count - 1, rng.choice(room)
                out.append(mgp.packet(rng, b, frame, sequences[b], index, last, 24, flags, number, room=size))
                sequences[b] += 1
    if markers:
        out += [mgp.marker(b, reference_mgp.EOB, frames - 1, sequences[b], number) for b in boards]
    return out


def random_answer(rng):
    """Consumer with answers of all sizes."""

    def answer(frame):
        size = rng.choice([8, 12, 16, 40, 255, 600, 1472])
        return Answer(rng.randbytes(size), rng.randrange(2))

    return answer


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def two_bursts(dut):
    """Two bursts from SOB to EOB on both channels: events, buffers, answers on the wire, counters."""
    setup = Setup(buffers=N, stage=6)
    bench = Bench(dut, setup, memory_rate=0.8, latency=(10, 60), tx_rate=0.9, wake=100, think=20)
    await bench.start()
    bench.host.answer = random_answer(bench.rng)
    asked = 0
    for number in (7, 8):
        await bench.send(burst(bench.rng, number, 8), gap=20)
        asked += 3
        await bench.wire.send([(c, arp_frame(host_of(c))) for c in (0, 1, 0, 1, 0, 1)], gap=60)
        await bench.finish()
    arp = [[frame for frame in out if frame[12:14] == b"\x08\x06"] for out in bench.wire.out]
    assert [len(frames) for frames in arp] == [asked, asked]
    for out in bench.wire.out:
        out[:] = [frame for frame in out if frame[12:14] != b"\x08\x06"]
    assert bench.wire.out == [bench.answers(), []]
    counters = await bench.compare()
    assert counters["frames.burst_markers"] == 16
    assert counters["frames.tlb_misses"] > 8 and counters["frames.untranslated"] == 0
    assert await bench.host.read("sender_next.low") == 16
    # Firmware reports of both bursts, and stages of the last packet.
    reports = [await bench.host.read(f"burst_report[{i}]") for i in range(2)]
    assert reports == [0xFF << 16 | 8, 0xFF << 16 | 7]
    for channel in range(2):
        stages = ("start", "controller", "placed", "written")
        start, controller, placed, written = [
            await bench.host.read(f"profile[{channel}].{stage}") for stage in stages
        ]
        assert start < controller < written and start < placed < written
    # First word to event: every frame counts once, and none is faster than the path.
    histogram = await bench.host.histogram()
    assert sum(histogram.values()) == 16 and min(histogram) > 16


def host_of(channel):
    return Host(mac=MAC + channel, ip=IP + channel)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def frames_of_all_kinds(dut):
    """Foreign frames, ARP and refused packets on both channels in the same cycles."""
    bench = Bench(dut, tx_rate=0.7)
    await bench.start()
    rng, want, frames = bench.rng, Counter(), []
    for _ in range(60):
        seed, kind = rng.random(), rng.random()
        bad = mgp.broken(rng, rng.randrange(4))
        while not reference_mgp.refusal(bad):
            bad = mgp.broken(rng, rng.randrange(4))
        for c in range(2):
            frame = malformed(random.Random(seed), host_of(c)) if kind < 0.5 else udp_frame(bad, host_of(c))
            frames.append((c, frame))
            judged = judge(frame, host_of(c))
            want[f"verdicts[{c}].{judged.verdict}"] += 1
            if judged.verdict == "udp":
                want["frames.packets_in"] += 1
                want[f"bad_packets.{reference_mgp.refusal(judged.payload)}"] += 1
    await bench.wire.send(frames)
    questions = [(c, arp_frame(host_of(c))) for c in range(2)]
    await bench.wire.send(questions, gap=30)
    for c in range(2):
        want[f"verdicts[{c}].arp"] += 1
    await ClockCycles(dut.clk, 100)
    got = {name: value for name, value in (await bench.host.counters()).items() if value}
    assert got == want
    for c in range(2):
        assert len(bench.wire.out[c]) == 1 and len(bench.wire.out[c][0]) == 60
        own = (MAC + c).to_bytes(6, "big") + (IP + c).to_bytes(4, "big")
        assert bench.wire.out[c][0][20:32] == b"\0\2" + own
    # Off: no input is accepted, even within a frame; on again: from the next whole frame.
    await bench.host.stop()
    bench.wire.put([(0, udp_frame(bytes(1000), host_of(0))), (1, arp_frame(host_of(1)))])
    await bench.host.write("control", 7)
    while not await bench.host.read("status") & 2:
        bench.wire.put([(0, udp_frame(bytes(300), host_of(0)))])
        await ClockCycles(dut.clk, 480 // bench.wire.lanes)
    await bench.wire.idle.wait()
    await bench.wire.send(questions, gap=30)
    await ClockCycles(dut.clk, 100)
    after = await bench.host.counters()
    assert after["verdicts[1].arp"] == 2 and after["verdicts[0].arp"] == 2
    taken = after["frames.packets_in"] - want["frames.packets_in"]
    assert after["bad_packets.bad_version"] - want["bad_packets.bad_version"] == taken < 6
    assert sum(after.values()) == sum(want.values()) + 2 + 3 * taken


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def hostile_traffic(dut):
    """Bad packets, duplicates, replays, jumps, other bursts, restarted boards; then drain."""
    bench = Bench(dut, setup=Setup(buffers=N, segment=1024, stage=1), wake=30)
    await bench.start()
    rng, sent = bench.rng, []
    for number in (1, 2):
        for data in burst(rng, number, 8, room=(40, 400), packets=(1, 1, 2, 4)):
            sent.append(data)
            way = rng.random()
            if way < 0.05:
                sent.append(data)
            elif way < 0.1:
                sent.append(mgp.broken(rng, rng.randrange(4)))
            elif way < 0.14:
                sent.append(rng.choice(sent))
            elif way < 0.16:
                sent.append(data[:15] + b"\xf0")
            elif way < 0.18:
                sent.append(mgp.packet(rng, 1, 5000 + len(sent), 900, burst=number))
            elif way < 0.2:
                sent.append(mgp.packet(rng, 1, 3, 9000 + len(sent), burst=number))
            elif way < 0.22:
                sent.append(mgp.marker(rng.randrange(4), rng.choice([1, 2]), 4, burst=number))
    await bench.send([bytes(data) for data in sent], gap=10, channel=0)
    await bench.decided()
    await bench.host.drain()
    bench.model.drain(bench.wire.cycle)
    await bench.finish()
    assert bench.wire.out[0] == bench.answers()
    counters = await bench.compare()
    for name in ("late", "duplicate", "replayed_sequence", "unconfirmed_jump", "segment_overflow"):
        assert counters[f"lost.{name}"], f"{name} did not occur"
    await bench.measured(counters)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def dealt_out_to_several_devices(dut):
    """Numbers alternate between four and between two devices with separate memories; all get burst events."""
    bench = Bench(dut, Setup(buffers=8, devices=4, stage=5), memory_rate=0.7, latency=(10, 60), wake=50)
    await bench.start()
    assert await bench.host.read("built") >> 16 & 0xF == 4
    for devices in (4, 2):
        if devices != 4:
            await bench.host.stop()
            bench.setup.devices, bench.setup.buffers, bench.setup.stage = devices, 16, 3
            await bench.again()
            await bench.host.write("control", 0x107)  # clears the histogram
        bench.host.answer = random_answer(bench.rng)
        numbers = (7, 8) if devices == 4 else (7,)
        for number in numbers:
            await bench.send(burst(bench.rng, number, 13), gap=20)
            await bench.finish()
        assert bench.wire.out[0] == bench.answers()
        counters = await bench.compare()
        assert counters["frames.frames_in"] == 13 * len(numbers)
        assert counters["frames.bursts"] == len(numbers) and not counters["frames.frames_overrun"]
        await bench.measured(counters)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def consumer_stalls(dut):
    """No buffer returns: frames without one are overrun and answered header-only; then it recovers."""
    count = 32
    bench = Bench(dut, setup=Setup(buffers=count))
    await bench.start()
    host = bench.host
    host.stalled = True
    packets = burst(bench.rng, 3, count + 10, room=(16,), packets=(1,))
    await bench.send(packets[:4], to_model=False, gap=40)
    await bench.send(packets[4:-4], to_model=False, gap=20)
    await bench.decided()
    host.stalled = False
    await host.consume(lambda: len(bench.wire.out[0]) == count + 10)
    await bench.send(packets[-4:], to_model=False)
    await host.consume(lambda: any(event.kind == BURST_ENDS for event in host.events))
    errors = [event for event in host.events if event.kind == ERROR]
    assert sum(event.bytes for event in errors) == 10 and errors[0].frame == count
    want = [frame_of(host.posted[n].payload) for n in range(count)]
    want += [frame_of(host.late_packet(n)) for n in range(count, count + 10)]
    assert bench.wire.out[0] == want
    counters = await bench.counters()
    assert counters["frames.frames_overrun"] == counters["frames.frames_late"] == 10
    assert counters["lost.overrun"] == 40 and counters["frames.frames_answered"] == count
    assert all(left == right for left, right in account(counters).values())


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def unknown_pages(dut):
    """Short page list: packets without a page are dropped and counted, and the card continues."""
    bench = Bench(dut)
    await reset(dut)
    await bench.host.configure()
    await bench.host.write("pages_count", 4)
    await bench.host.start()
    await bench.send(burst(bench.rng, 1, 6, room=(200,)), gap=10)
    await bench.finish()
    assert bench.wire.out[0] == bench.answers()
    counters = await bench.counters()
    assert counters["frames.untranslated"] > 6 and counters["frames.frames_answered"] == 6
    assert all(left == right for left, right in account(counters).values())


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def late_answers(dut):
    """Frames time out and answers are late: header-only on time, late answers counted and dropped."""
    bench = Bench(dut, setup=Setup(buffers=N, timeout=600, deadline=3000))
    await bench.start()
    host, held = bench.host, {}

    def answer(frame):
        answer = Answer(bytes([frame.event.n]) * 30)
        if frame.event.n % 3 == 1:
            held[frame.event.n] = answer
            return None
        return answer

    host.answer = answer
    packets = burst(bench.rng, 5, 9, room=(40,), packets=(1,))
    missing = [data for data in packets if data[1] == 2 and data[12] in (4, 7) and not data[3] & 3]
    await bench.send([data for data in packets if data not in missing], to_model=False, gap=60, channel=0)
    await host.consume(lambda: len(bench.wire.out[0]) == 9)
    for n, late in held.items():
        await host.post(n, late)
    await ClockCycles(dut.clk, 300)
    await host.look()
    out = [host.late_packet(n) if n % 3 == 1 else bytes([n]) * 30 for n in range(9)]
    assert bench.wire.out[0] == [frame_of(payload) for payload in out]
    # Last word to event, for frames closed by a packet.
    histogram = await host.histogram()
    assert sum(histogram.values()) == 7 and min(histogram) > 16
    flags = {event.n: event.flags & ~4 for event in host.events if event.kind == RECEIVE_DONE}
    assert flags == {n: 2 | 4 << 8 if n in (4, 7) else 1 for n in range(9)}
    passed = {event.n: event.flags for event in host.events if event.kind == SEND_DONE}
    assert passed == {n: LATE if n % 3 == 1 else 0 for n in range(9)}
    counters = await bench.counters()
    assert counters["frames.frames_incomplete"] == 2 and counters["lost.missing[2]"] == 2
    assert counters["frames.frames_late"] == counters["frames.answers_after_deadline"] == 3
    assert all(left == right for left, right in account(counters).values())


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def restarts(dut):
    """Repeated stops at random times: no request is truncated, and the next run is complete."""
    bench = Bench(dut, memory_rate=0.3, latency=(20, 200), tx_rate=0.3)
    await bench.start()
    for run in range(3):
        bench.wire.put([bench.on_wire(data) for data in burst(bench.rng, 9, 4)])
        await ClockCycles(dut.clk, 300 + 150 * run)
        await bench.host.look()
        await bench.host.write("control", 0)
        while not await bench.host.read("status") & 4:
            await ClockCycles(dut.clk, 20)
        await bench.wire.idle.wait()
        # No further activity.
        writes, reads = len(bench.memory.writes), len(bench.memory.reads)
        await ClockCycles(dut.clk, 100)
        assert (writes, reads) == (len(bench.memory.writes), len(bench.memory.reads))
        await bench.again()
    await bench.send(burst(bench.rng, 4, 6), gap=10)
    await bench.finish()
    assert bench.wire.out[0] == bench.answers()
    await bench.compare()
    assert [event.n for event in bench.host.events if event.kind == BURST_BEGINS] == [0]


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def line_rate(dut):
    """10 GbE: the smallest frames with the minimum gap, on one channel and in bursts on both."""
    bench = Bench(dut, setup=Setup(buffers=N, stage=2))
    await bench.start()
    packets = burst(bench.rng, 6, 40, room=(16,), packets=(1,))
    await bench.send(packets[:4], gap=80, channel=0)
    await bench.send(packets[4:100], gap=2, channel=0)
    await ClockCycles(dut.clk, 200)
    await bench.send(packets[100:], gap=2)
    await bench.finish(every=100)
    assert bench.wire.out[0] == bench.answers()
    counters = await bench.compare()
    assert counters["lost.socket_overflow"] == 0
    await bench.measured(counters)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def one_gigabit(dut):
    """The smallest frames with the minimum gap (12 B, preamble, FCS), and ARP."""
    bench = Bench(dut)
    await bench.start()
    gap = 24 if bench.wire.lanes == 1 else 3
    packets = burst(bench.rng, 6, 10, room=(16, 60), packets=(1,))
    await bench.send(packets, gap=gap)
    await bench.wire.send([(c, arp_frame(host_of(c))) for c in range(2)], gap=gap)
    await bench.finish(every=100)
    assert [len(out) for out in bench.wire.out] == [11, 1]
    assert [frame for frame in bench.wire.out[0] if frame[12:14] == b"\x08\x00"] == bench.answers()
    await bench.compare()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def all_sizes(dut):
    """Back-to-back frames on both channels, from the smallest to jumbo frames of 9000 B."""
    bench = Bench(dut, setup=Setup(buffers=16, segment=16384, max_payload=8972, stage=4))
    await bench.start()
    sizes = (16, 17, 81, 270, 1472, 4096, 4112, 8972)
    packets = burst(bench.rng, 6, len(sizes), room=(16,), packets=(1,))
    head, tail = packets[:4], packets[-4:]
    for frame, size in enumerate(sizes):
        for board in range(4):
            data = mgp.packet(bench.rng, board, frame, frame + 1, 0, True, 120, 0, 6, room=size)
            data = data[:3] + bytes([data[3] | reference_mgp.PADDED]) + data[4:]
            head.append(data + bytes(size - len(data)))
    await bench.send(head + tail, gap=2)
    await bench.finish()
    assert bench.wire.out[0] == bench.answers()
    await bench.compare()
    assert sum((await bench.host.histogram()).values()) == 4 * len(sizes)


SHORT = ["frames_of_all_kinds", "late_answers", "line_rate"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("width", "cases"), [(64, SHORT), (64, None), (8, ["one_gigabit"])], ids=["short", "64", "8"]
)
def test_nanet_card(width, cases):
    parameters = {"MAX_BUFFERS": 256, "TLB_SETS": 16, "MAC_W": width, "DEVICES": 4 if width == 64 else 1}
    simulate("nanet_card", "test_nanet_card", parameters, testcase=cases)
