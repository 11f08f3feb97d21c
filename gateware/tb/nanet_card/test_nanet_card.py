# SPDX-License-Identifier: SHL-2.1
"""nanet_card: a driver, a consumer and the real firmware around the card, from frames in to frames out."""

import random
from collections import Counter

import cocotb
import mgp
import reference_mgp
from card_host import (
    BURST_BEGINS,
    BURST_ENDS,
    ERROR,
    RECEIVE_DONE,
    SEND_DONE,
    Answer,
    CardHost,
    RegisterBus,
    Setup,
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

N = 64  # buffers


class Bench:
    """The card with everything around it, and the reference that is told the same packets."""

    def __init__(self, dut, setup=None, memory_rate=1.0, latency=(4, 30), tx_rate=1.0, wake=0, think=0):
        self.dut, self.setup = dut, setup or Setup(buffers=N)
        self.rng = random.Random(cocotb.RANDOM_SEED)
        start_clock(dut)
        dut.bus_master.value, dut.unsupported.value = 1, 0
        self.memory = MemorySlave(dut, Memory(), rate=memory_rate, latency=latency, rng=self.rng)
        self.wire = Wire(dut, self.rng, tx_rate)
        self.firmware = Microcontroller(dut, wake, think)
        self.bus = RegisterBus(dut)
        self.host = CardHost(
            self.bus, self.memory.memory, lambda n: ClockCycles(dut.clk, n), self.rng, self.setup
        )
        self.model = self.fresh_model()
        self.sent = 0  # datagrams

    def fresh_model(self):
        s = self.setup
        return Model(s.boards, s.buffers, s.segment, s.timeout, s.silence, bool(s.window))

    async def start(self):
        await reset(self.dut)
        await self.host.configure()
        await self.host.start()

    async def send(self, packets, gap=3, channel=None, told=True):
        """Send payloads, each on its board's channel, and tell the model the sound ones."""
        for data in packets:
            if told:
                self.tell(data)
        await self.wire.send([on_wire(data, channel) for data in packets], gap)
        self.sent += len(packets)

    def tell(self, data):
        name = reference_mgp.refusal(data, self.setup.boards, self.setup.max_payload)
        if name is None:
            self.model.packet(data, self.wire.cycle)
        else:
            self.model.counts[name] = self.model.counts.get(name, 0) + 1

    async def finish(self, every=40):
        """Consume until every owed number has been sent and its send-done event read."""
        owed = self.model.counts["frames_in"]
        ends = sum(event.kind == BURST_ENDS for event in self.model.events)
        overrun = self.model.counts["frames_overrun"]

        def done():
            kinds = [event.kind for event in self.host.events]
            return (
                len(self.wire.out[0]) >= owed
                and kinds.count(SEND_DONE) >= owed - overrun
                and kinds.count(BURST_ENDS) >= ends
            )

        await self.host.consume(done, every)

    async def compare(self, late=()):
        """Events, buffers, frames sent and counters against the model."""
        model, host = self.model, self.host
        want = {event.n: event for event in model.events if event.kind == RECEIVE_DONE}
        assert set(host.frames) == set(want)
        for n, frame in host.frames.items():
            ref, event = want[n], frame.event
            got = (event.flags, event.buffer, event.bytes, event.frame)
            assert got == (ref.flags, ref.buffer, ref.bytes, ref.frame), f"{n}: {event} for {ref}"
            assert same(frame.contents, ref.contents), f"{n}: {frame.contents.hex()}"
        assert edges(host.events) == edges(model.events)
        lost = sum(event.bytes for event in model.events if event.kind == ERROR)
        assert sum(event.bytes for event in host.events if event.kind == ERROR) == lost
        counters = await host.counters()
        for name, (left, right) in account(counters).items():
            assert left == right, f"{name}: {left}, {right} of {counters}"
        assert sum(counters[f"verdicts[{c}].udp"] for c in range(2)) == self.sent
        for name, value in model.counts.items():
            for key in (f"{group}.{name}" for group in ("frames", "lost", "bad_packets")):
                assert counters.get(key, value) == value, f"{key}: {counters[key]} for {value}"
        assert sum(counters[f"lost.missing[{b}]"] for b in range(4)) == model.missing()
        assert counters["frames.frames_late"] == len(late) + model.counts["frames_overrun"]
        return counters

    def answers(self, late=()):
        """The frames that have to go out, in the order of n."""
        frames = {event.n: event.frame for event in self.model.events if event.kind == RECEIVE_DONE}
        for event in self.model.events:
            if event.kind == ERROR:
                frames |= {event.n + i: event.frame + i for i in range(event.bytes)}
        out = []
        for n in sorted(frames):
            if n in self.host.posted and n not in late:
                answer = self.host.posted[n]
                out.append(frame_of(answer.payload, TO_IP + answer.destination, TO_PORT + answer.destination))
            else:
                out.append(frame_of(self.host.late_packet(frames[n])))
        return out


def edges(events):
    """The bursts' begins and ends among events."""
    return [(e.kind, e.buffer, e.bytes, e.frame, e.n) for e in events if e.kind in (BURST_BEGINS, BURST_ENDS)]


def same(got, want):
    """Header and payloads are equal; the bytes that round a payload up to 16 may be anything."""
    if got[:64] != want[:64] or len(got) != len(want):
        return False
    at = 64
    while at < len(want):
        length = int.from_bytes(want[at + 4 : at + 6], "little")
        if got[at : at + length] != want[at : at + length]:
            return False
        at += -(-length // 16) * 16
    return True


def on_wire(data, channel=None):
    channel = (data[1] if len(data) > 1 else 0) % 2 if channel is None else channel
    return channel, udp_frame(data, host_of(channel))


def burst(rng, number, frames, room=(40, 200, 1400), packets=(1, 1, 2), markers=True, boards=range(4)):
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
    """A consumer whose payloads have all sizes."""

    def answer(frame):
        size = rng.choice([8, 12, 16, 40, 255, 600, 1472])
        return Answer(rng.randbytes(size), rng.randrange(2))

    return answer


def host_of(channel):
    return Host(mac=MAC + channel, ip=IP + channel)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def frames_of_all_kinds(dut):
    """What is not for the card, ARP, refused packets: on both channels in the same cycles."""
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
    # Off: nothing is taken any more, not even in the middle of a frame; on again: from the next whole one on.
    await bench.host.stop()
    bench.wire.put([(0, udp_frame(bytes(1000), host_of(0))), (1, arp_frame(host_of(1)))])
    await bench.host.write("control", 7)
    while not await bench.host.read("status") & 2:
        bench.wire.put([(0, udp_frame(bytes(300), host_of(0)))])
        await ClockCycles(dut.clk, 60)
    await bench.wire.idle.wait()
    await bench.wire.send(questions, gap=30)
    await ClockCycles(dut.clk, 100)
    after = await bench.host.counters()
    assert after["verdicts[1].arp"] == 2 and after["verdicts[0].arp"] == 2
    taken = after["frames.packets_in"] - want["frames.packets_in"]
    assert after["bad_packets.bad_version"] - want["bad_packets.bad_version"] == taken < 6
    assert sum(after.values()) == sum(want.values()) + 2 + 3 * taken


def test_nanet_card():
    parameters = {"MAX_BUFFERS": 256, "TLB_SETS": 16}
    simulate("nanet_card", "test_nanet_card", parameters, optimise="-O0")
