# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_card in gather mode `packets`: registers, real firmware, consumer and sender."""

from collections import Counter
from dataclasses import dataclass

import cocotb
import mgp
import reference_mgp
from card_host import RECEIVE_DONE, SEND_DONE, CardHost, Frame, Setup, account
from firmware_packets_model import PacketCard
from simulate import simulate
from test_nanet_card import Bench, burst
from transmit_model import frame_of

N, SLOT, PACKETS = 8, 1472, 6


@dataclass
class PacketSetup(Setup):
    """Settings for payloads in fixed slots."""

    buffers: int = N

    @property
    def buffer_bytes(self) -> int:
        return -(-PACKETS * SLOT // 64) * 64


class PacketHost(CardHost):
    """Driver and consumer for gather mode `packets`."""

    async def configure(self) -> None:
        await super().configure()
        await self.write("gather", 1 | PACKETS << 16)
        await self.write("slot_bytes", SLOT)

    async def take(self, event):
        """Read the payloads, post an answer, return the buffer."""
        payloads = []
        for i in range(PACKETS):
            at = event.buffer * self.setup.buffer_bytes + i * SLOT
            length = int.from_bytes(self.clop(at + 4, 2), "little")
            payloads.append(self.clop(at, length))
        self.frames[event.n] = Frame(event, [payload for payload in payloads if payload])
        await self.post(event.n, self.answer(self.frames[event.n]))
        await self.bus.write(self.at["returned"] + 4 * event.buffer, event.n + 1)


class PacketBench(Bench):
    """The card with its environment, in gather mode `packets`."""

    HOST = PacketHost

    def __init__(self, dut, setup=None, **options):
        super().__init__(dut, setup or PacketSetup(), **options)

    def fresh_model(self):
        return PacketCard(PACKETS, boards=self.setup.boards, buffers=1 << 20, segment=SLOT)

    async def finish(self, every=40):
        """Consume until every opened buffer is answered."""

        def done():
            sent = Counter(event.kind for event in self.host.events)[SEND_DONE]
            return sent >= self.model.counts["frames_in"] and len(self.own()) >= sent

        await self.host.consume(done, every)

    def payloads(self):
        """Return the payloads of the consumer's buffers in the order of n."""
        return [payload for _, frame in sorted(self.host.frames.items()) for payload in frame.contents]

    def whole(self, sent):
        """Check that every payload is in a buffer once, in send order for each board."""
        got = self.payloads()
        assert Counter(got) == Counter(sent)
        for board in range(4):
            assert [p for p in got if p[1] == board] == [p for p in sent if p[1] == board]


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def bursts_in_order(dut):
    """Two bursts with many faults on one channel: buffer by buffer as in the model."""
    bench = PacketBench(dut, memory_rate=0.8, latency=(10, 60), tx_rate=0.9, wake=60, think=10)
    await bench.start()
    rng, sent = bench.rng, []
    for number in (7, 8):
        for data in burst(rng, number, 10, room=(40, 400, 1472)):
            sent.append(data)
            way = rng.random()
            if way < 0.05:
                sent.append(rng.choice(sent))
            elif way < 0.1:
                sent.append(mgp.broken(rng, rng.randrange(4)))
            elif way < 0.13:
                sent.append(mgp.packet(rng, 1, 3, 9000 + len(sent), burst=number))
    for at in range(0, len(sent), 20):  # the model's consumer is never late
        await bench.send([bytes(data) for data in sent[at : at + 20]], gap=20, channel=0)
        await bench.decided()
        await bench.host.look()
    await bench.host.drain()
    bench.model.drain(bench.wire.cycle)
    await bench.finish()
    model, host = bench.model, bench.host
    assert len(host.frames) == len(model.events) > 2 * N  # each buffer used more than twice
    for event in model.events:
        frame = host.frames[event.n]
        got = (frame.event.flags, frame.event.buffer, frame.event.bytes, frame.event.frame)
        assert got == (event.flags, event.buffer % N, event.bytes, event.frame)
        assert b"".join(payload.ljust(SLOT, b"\0") for payload in frame.contents) == event.contents
    assert bench.wire.out[0] == [frame_of(host.posted[event.n].payload) for event in model.events]
    counters = await bench.counters()
    for name, (left, right) in account(counters).items():
        assert left == right, f"{name}: {left}, {right} of {counters}"
    names = ["frames.packets_used", "frames.burst_markers", "frames.frames_in"]
    names += [f"lost.{name}" for name in ("replayed_sequence", "unconfirmed_jump", "overrun")]
    for name in names:
        assert counters[name] == model.counts[name.split(".")[1]], name
    assert counters["frames.frames_incomplete"] == sum(not event.flags for event in model.events)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def two_channels_at_once(dut):
    """Back-to-back long packets on both channels: every payload is in a buffer once."""
    bench = PacketBench(dut)
    await bench.start()
    rng, size = bench.rng, 19  # the maximum for 72 B per event
    sent = [
        mgp.packet(rng, board, frame, 1 + frame, events=size, flags=reference_mgp.FIXED, burst=3)
        for frame in range(18)
        for board in range(4)
    ]
    bench.wire.put([bench.on_wire(data) for data in sent], gap=3)
    await bench.host.consume(lambda: len(bench.payloads()) == len(sent))
    bench.whole(sent)
    full = [event for event in bench.host.events if event.kind == RECEIVE_DONE]
    assert len(full) == len(sent) // PACKETS and all(event.flags == 1 for event in full)
    await bench.host.consume(lambda: len(bench.wire.out[0]) == len(full))
    counters = await bench.counters()
    assert counters["frames.packets_used"] == counters["frames.packets_in"] == len(sent)
    assert counters["frames.frames_answered"] == len(full)


def test_nanet_card_packets():
    parameters = {"MAX_BUFFERS": 256, "TLB_SETS": 16, "MAC_W": 64, "DEVICES": 4}
    simulate("nanet_card", "test_nanet_card_packets", parameters)
