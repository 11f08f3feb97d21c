# SPDX-License-Identifier: SHL-2.1
"""Bench of receive_mac: whole frames from `take` on, held configuration, MAC resets, ARP replies."""

import random

import cocotb
import mgp
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer
from frames import FILTER_BITS, VERDICTS, Filter, Host, arp_frame, udp_frame
from simulate import simulate

HOST = Host()
HEADER, PAYLOAD, FOOTER = range(3)
RULES = ((0x1C << 4 | 0xF) << 16 | 1472) << 25 | 751_500  # mgp_rules_t


class Bench:
    """Drives both sides; checks that packets are well formed."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.verdicts: list[str] = []
        self.ends: list[str] = []  # verdict of each datagram
        self.payloads: list[bytes] = []  # of the good datagrams
        self.replies: list[bytes] = []
        self.overflows, self.times = 0, []

    async def start(self, card_ps, mac_ps):
        dut = self.dut
        dut.host.value = HOST.mac << 32 | HOST.ip
        dut.filter.value = Filter().pack() | Filter(enable=0).pack() << FILTER_BITS
        dut.rules.value = RULES
        dut.take.value = dut.now.value = dut.s_axis_rx_tvalid.value = dut.s_axis_rx_tuser.value = 0
        dut.level.value = 0
        dut.arp_answers.value = dut.m_axis_arp_tready.value = 1
        dut.rst.value = dut.mac_rst.value = 1
        cocotb.start_soon(Clock(dut.clk, card_ps, "ps").start())
        await Timer(self.rng.randrange(1, card_ps), "ps")
        cocotb.start_soon(Clock(dut.mac_clk, mac_ps, "ps").start())
        for run in (self._count, self._packets, self._card_clock):
            cocotb.start_soon(run())
        await Timer(20 * max(card_ps, mac_ps), "ps")
        dut.rst.value = dut.mac_rst.value = 0
        while int(dut.channel_rst.value):
            await RisingEdge(dut.clk)
        await Timer(4 * max(card_ps, mac_ps), "ps")

    async def _card_clock(self):
        now = 0
        while True:
            await RisingEdge(self.dut.clk)
            now += 1
            self.dut.now.value = now

    async def _count(self):
        dut, reply = self.dut, b""
        while True:
            await FallingEdge(dut.clk)
            if int(dut.rst.value) or int(dut.channel_rst.value):
                continue
            if int(dut.verdict_valid.value):
                self.verdicts.append(VERDICTS[int(dut.verdict.value)])
            self.overflows += int(dut.overflow.value)
            if int(dut.frame_valid.value):
                self.times.append((int(dut.frame_start.value), int(dut.frame_end.value)))
            if int(dut.m_axis_arp_tvalid.value):
                keep = int(dut.m_axis_arp_tkeep.value).bit_count()
                reply += int(dut.m_axis_arp_tdata.value).to_bytes(8, "little")[:keep]
                if int(dut.m_axis_arp_tlast.value):
                    self.replies.append(reply)
                    reply = b""

    async def _packets(self):
        dut, last, data = self.dut, FOOTER, b""
        while True:
            await FallingEdge(dut.mac_clk)
            if int(dut.apenet_rst.value):
                last = FOOTER
            elif int(dut.apenet_valid.value):
                kind, word = int(dut.apenet_kind.value), int(dut.apenet_data.value)
                assert kind in {HEADER: (PAYLOAD,), PAYLOAD: (PAYLOAD, FOOTER), FOOTER: (HEADER,)}[last]
                last = kind
                if kind == HEADER:
                    data, total = b"", word >> 16 & 0xFFFF
                elif kind == PAYLOAD:
                    data += word.to_bytes(16, "little")
                else:
                    assert word >> 31 & 1
                    self.ends.append(VERDICTS[word >> 16 & 0xF])
                    if self.ends[-1] == "udp":
                        self.payloads.append(data[:total])

    async def frame(self, data, words=None):
        """Send a frame, or its first words only."""
        dut = self.dut
        for at in list(range(0, len(data), 8))[:words]:
            part = data[at : at + 8]
            dut.s_axis_rx_tdata.value = int.from_bytes(part, "little")
            dut.s_axis_rx_tkeep.value = (1 << len(part)) - 1
            dut.s_axis_rx_tlast.value = int(at + 8 >= len(data))
            dut.s_axis_rx_tvalid.value = 1
            await RisingEdge(dut.mac_clk)
        dut.s_axis_rx_tvalid.value = 0

    async def cut(self, data, words):
        """Reset the MAC within a frame."""
        await self.frame(data, words)
        self.dut.mac_rst.value = 1
        await ClockCycles(self.dut.mac_clk, self.rng.randint(1, 8))
        self.dut.mac_rst.value = 0
        await ClockCycles(self.dut.mac_clk, 4)

    async def quiet(self):
        """Wait until nothing is on its way to the card."""
        await ClockCycles(self.dut.mac_clk, 4)
        await ClockCycles(self.dut.clk, 8)
        while int(self.dut.arriving.value):
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 24)


def datagram(rng, sequence, events=3):
    """Return a valid MGP packet."""
    return mgp.packet(rng, 1, 5, sequence, events=events)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(("periods", ((6400, 6400), (11468, 6400), (4000, 6400), (25600, 6400))))
async def frames_resets_and_configuration(dut, periods):
    bench = Bench(dut)
    await bench.start(*periods)
    rng = bench.rng
    packets = [datagram(rng, n, 6 if n == 0 else rng.randint(0, 8)) for n in range(40)]
    frames = [udp_frame(packet, HOST) for packet in packets]

    # The frame in transfer when `take` rises is not accepted.
    early = cocotb.start_soon(bench.frame(udp_frame(datagram(rng, 99, 20), HOST)))
    await ClockCycles(dut.mac_clk, 6)
    dut.take.value = 1
    await early
    await ClockCycles(dut.mac_clk, 20)
    # The configuration is held from then on.
    dut.filter.value = 0
    dut.host.value = 0
    await ClockCycles(dut.mac_clk, 10)
    for frame in frames:
        await bench.frame(frame)
        await ClockCycles(dut.mac_clk, 2)
    await bench.quiet()
    assert bench.verdicts == ["udp"] * len(frames) and bench.payloads == packets
    assert len(bench.times) == len(frames)
    for (start, end), frame in zip(bench.times, frames, strict=True):
        cycles = (len(frame) // 8) * periods[1] / periods[0]
        assert abs(end - start - cycles) < 3

    # Cut at every word: every datagram has an end, and good verdicts and ends agree.
    for words in range(1, len(frames[0]) // 8):
        await bench.cut(frames[0], words)
        await bench.frame(frames[0])
        await bench.cut(frames[1], rng.randint(1, len(frames[1]) // 8))
    await bench.quiet()
    assert bench.verdicts.count("udp") == bench.ends.count("udp") + bench.overflows
    assert "bad_fcs" in bench.ends
    before = len(bench.payloads)
    await bench.frame(frames[2])
    await bench.quiet()
    assert bench.payloads[before:] == [packets[2]]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(("periods", ((11468, 6400), (4000, 6400))))
async def arp_replies_end(dut, periods):
    bench = Bench(dut)
    await bench.start(*periods)
    dut.take.value = 1
    await ClockCycles(dut.mac_clk, 10)
    request = arp_frame(HOST)
    await bench.frame(request)
    await ClockCycles(dut.mac_clk, 100)
    (reply,) = bench.replies
    assert reply[:6] == request[6:12] and len(reply) == 60
    for wait in range(2, 26):
        await bench.frame(request)
        await ClockCycles(dut.mac_clk, wait)
        dut.mac_rst.value = 1
        await ClockCycles(dut.mac_clk, 1 + wait % 3)
        dut.mac_rst.value = 0
        await ClockCycles(dut.mac_clk, 60)
    assert any(len(cut) < 60 for cut in bench.replies)
    await bench.frame(request)
    await ClockCycles(dut.mac_clk, 100)
    assert bench.replies[-1] == reply


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_reset_of_the_stream_clears_both_sides(dut):
    bench = Bench(dut)
    await bench.start(11468, 6400)
    frame = udp_frame(datagram(bench.rng, 1), HOST)
    for words in (3, 9, 12):
        dut.take.value = 1
        await ClockCycles(dut.mac_clk, 10)
        await bench.frame(frame, words)
        dut.take.value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        assert int(dut.channel_rst.value)
        while int(dut.channel_rst.value):
            await RisingEdge(dut.clk)
        await bench.frame(frame)
        await bench.quiet()
    assert bench.verdicts == [] and bench.payloads == []


def test_receive_mac():
    simulate("receive_mac", "test_receive_mac")
