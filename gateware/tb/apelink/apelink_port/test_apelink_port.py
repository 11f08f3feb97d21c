# SPDX-License-Identifier: SHL-2.1
"""Bench of apelink_port against a model of the INFN partner, and of its words against the reference model."""

import random

import cocotb
from apelink_partner import MAGIC, Partner, edac
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from reference_torus import credit, header, protect
from simulate import simulate

# Fields of apelink_config_t and apelink_counters_t, most significant first.
IDLE = 0x4D000000000000000000000101004040  # CREDIT of the firmware with empty FIFOs and margin 0x40
COUNTERS = {
    "sent": 32,
    "received": 32,
    "dropped": 32,
    "cut": 16,
    "corrected": 16,
    "fatal": 16,
    "credit_bad": 16,
}


def settings(
    edac_on: bool = True, data: int = 384, headers: int = 96, waiting: int = 0x40, cycle: int = 0
) -> int:
    """Value of `settings`."""
    return (0xF if edac_on else 0) << 34 | data << 24 | headers << 16 | waiting << 8 | cycle


class Port:
    """The port, with words per cycle on both sides."""

    def __init__(self, dut, partner: Partner):
        self.dut, self.partner = dut, partner
        self.rng = random.Random(1)
        self.inject: list[tuple[int, list[int]]] = []  # VC, packet
        self.at = 0
        self.delivered: list[list[int]] = []
        self.open: dict[int, list[int]] = {}
        self.words: list[int] = []
        self.used = [[0, 0], [0, 0]]
        self.ready = 1.0
        self.damage = lambda word: word
        self.hold = False
        self.up = 1

    async def cycle(self) -> None:
        """One cycle."""
        dut = self.dut
        packet = self.inject[0] if self.inject else None
        valid = packet is not None
        if valid and self.at == 0:  # as the router: space for the whole packet
            room = int(dut.space.value) >> 18 * packet[0]
            valid = (room >> 8 & 0x3FF) >= len(packet[1]) - 2 and (room & 0xFF) >= 2
        dut.in_valid.value = int(valid)
        if valid:
            word = packet[1][self.at]
            edges = int(self.at == 0) << 1 | int(self.at == len(packet[1]) - 1)
            dut.in_word.value = edges << 128 | word
        ready = self.rng.random() < self.ready
        dut.tx_ready.value = int(ready)
        dut.link_up.value = self.up
        dut.rx_valid.value = self.up
        if self.up:
            dut.rx_data.value = self.damage(self.partner.next_word())
        dut.used.value = sum((data << 8 | headers) << 18 * vc for vc, (headers, data) in enumerate(self.used))
        await FallingEdge(dut.clk)
        await ReadOnly()
        if valid and int(dut.in_ready.value):
            self.at += 1
            if self.at == len(packet[1]):
                self.inject.pop(0)
                self.at = 0
        if int(dut.tx_valid.value) and ready:
            word = int(dut.tx_data.value)
            self.words.append(word)
            self.partner.take(word)
        if int(dut.out_valid.value):
            word, vc = int(dut.out_word.value), int(dut.out_vc.value)
            data = word & (1 << 128) - 1
            if word >> 129:
                assert not self.open, "packets interleave"
                self.open[vc] = [data]
            else:
                self.open[vc].append(data)
            self.used[vc][0 if word >> 128 else 1] += 1
            if word >> 128 & 1:
                self.delivered.append(self.open.pop(vc))
                if not self.hold:
                    self.release()
        await RisingEdge(dut.clk)

    def release(self) -> None:
        """Empty the router's buffers."""
        self.used = [[0, 0], [0, 0]]

    async def run(self, until, cycles: int = 20_000) -> None:
        """Cycles until a condition holds."""
        for _ in range(cycles):
            if until():
                return
            await self.cycle()
        raise AssertionError("the condition was not reached")

    async def settle(self, cycles: int = 10) -> None:
        """Some cycles, for counters and words under way."""
        for _ in range(cycles):
            await self.cycle()

    def counter(self, name: str) -> int:
        """Counter of the port."""
        low = sum(list(COUNTERS.values())[list(COUNTERS).index(name) + 1 :])
        return int(self.dut.counters.value) >> low & (1 << COUNTERS[name]) - 1


def packets(
    rng: random.Random, count: int, sizes=(0, 1, 15, 16, 17, 64, 320, 1000, 4095, 4096)
) -> list[list[int]]:
    """Random packets without MAGIC."""
    result = []
    for _ in range(count):
        size = rng.choice(sizes)
        head = header(
            False,
            vchan=rng.randrange(2) | rng.randrange(2) << 4,
            channel=rng.getrandbits(16),
            x=rng.randrange(64),
            y=rng.randrange(32),
            z=rng.randrange(32),
            intra=rng.randrange(16),
            type=rng.randrange(9),
            length=size,
            address=rng.getrandbits(48),
        )
        result.append([head, *(rng.getrandbits(128) for _ in range((size + 15) // 16)), rng.getrandbits(128)])
    return result


async def start(dut, partner: Partner, **given) -> Port:
    """Reset, then a link that has been up for some cycles."""
    start_clock(dut)
    dut.settings.value = settings(partner.edac_on, **given)
    for name in ("in_word", "used", "rx_data", "link_up"):
        getattr(dut, name).value = 0
    await reset(dut)
    port = Port(dut, partner)
    await port.settle()
    return port


@cocotb.test()
async def idle_words_are_those_of_the_firmware(dut):
    port = await start(dut, Partner(1))
    await port.run(lambda: len(port.words) > 8)
    assert set(port.words) == {IDLE}
    assert IDLE == credit([(0x40, 0x40)] * 2) == Partner(1).credit()
    assert int(dut.space.value) == ((320 << 8 | 32) << 18 | 320 << 8 | 32)
    assert protect(0x3EBEFF3F4040004000200020) >> 120 == 0x42


@cocotb.test()
async def packets_pass_both_ways(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    for edac_on, starve, ready, cycle in ((True, 0.0, 1.0, 0), (True, 0.3, 0.6, 40), (False, 0.1, 1.0, 1)):
        partner = Partner(rng.random(), edac_on)
        partner.starve = starve
        port = await start(dut, partner, cycle=cycle)
        port.ready = ready
        out, into = packets(rng, 25), packets(rng, 25)
        port.inject = [(packet[0] & 1, packet) for packet in out]
        partner.outgoing.extend(into)
        await port.run(lambda p=port, q=partner: len(p.delivered) == 25 and len(q.received) == 25, 40_000)
        assert port.delivered == into
        assert partner.received == [[edac(p[0]) if edac_on else p[0], *p[1:]] for p in out]
        assert partner.bad == 0
        await port.settle()
        assert port.counter("received") == port.counter("sent") == 25


@cocotb.test()
async def no_packet_leaves_without_space_at_the_far_end(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    partner = Partner(2)
    partner.hold = True  # the partner asserts that its FIFOs never overflow
    port = await start(dut, partner)
    out = [p for p in packets(rng, 40, (1024, 4096)) if not p[0] & 1]
    port.inject = [(0, packet) for packet in out]
    for _ in range(2500):
        await port.cycle()
    assert len(partner.held) < len(out)
    partner.hold = False
    await port.run(lambda: len(partner.received) == len(out), 20_000)
    assert [p[1:] for p in partner.received] == [p[1:] for p in out]


@cocotb.test()
async def used_words_stop_the_partner(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    partner = Partner(3)
    port = await start(dut, partner)
    port.hold = True
    partner.outgoing.extend(packets(rng, 12, (2048,)))
    for _ in range(3000):
        await port.cycle()
        assert all(headers <= 128 and data <= 512 for headers, data in port.used)
    assert len(port.delivered) < 12
    port.hold = False
    port.release()
    await port.run(lambda: len(port.delivered) == 12)


@cocotb.test()
async def single_errors_are_corrected_and_double_errors_lose_one_packet(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    partner = Partner(4)
    port = await start(dut, partner)
    heads = {}

    def damage(word: int) -> int:
        bits = heads.pop(word, ())
        for bit in bits:
            word ^= 1 << bit
        return word

    port.damage = damage
    into = packets(rng, 40, (0, 16, 64))
    wanted = []
    fatal = corrected = 0
    for number, packet in enumerate(into):
        kind = number % 4
        if kind == 1:  # bits of length, VC, type and check byte among them
            heads[edac(packet[0])] = (rng.choice((0, 5, 47, 48, 50, 61, 120, 127, rng.randrange(128))),)
            corrected += 1
        if kind == 3:
            heads[edac(packet[0])] = (48 + number % 7, 60)
            fatal += 1
        else:
            wanted.append(packet)
    partner.outgoing.extend(into)
    await port.run(lambda: len(port.delivered) >= len(wanted), 30_000)
    await port.settle(100)
    assert port.delivered == wanted
    assert port.counter("corrected") == corrected
    assert port.counter("fatal") == fatal


@cocotb.test()
async def a_packet_with_magic_in_its_payload_is_dropped_and_counted(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    partner = Partner(5)
    port = await start(dut, partner)
    out = packets(rng, 9, (64,))
    for number in (2, 5):
        out[number][2] = MAGIC
    port.inject = [(packet[0] & 1, packet) for packet in out]
    await port.run(lambda: len(partner.received) == 7)
    assert [p[1:] for p in partner.received] == [p[1:] for n, p in enumerate(out) if n not in (2, 5)]
    await port.settle()
    assert port.counter("dropped") == 2


@cocotb.test()
async def loss_of_the_link_cuts_and_drops_packets_and_ends(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    partner = Partner(6)
    port = await start(dut, partner)
    partner.outgoing.extend(packets(rng, 1, (4096,)))
    await port.run(lambda: port.open and len(port.open[next(iter(port.open))]) > 20)
    port.up = 0
    out = packets(rng, 6, (512,))
    port.inject = [(packet[0] & 1, packet) for packet in out]
    await port.run(lambda: port.delivered and not port.inject, 3000)
    assert len(port.delivered[0]) == 258
    assert port.delivered[0][-1] >> 96 == 0xDEADC0DE
    await port.settle()
    assert port.counter("dropped") == 6
    assert port.counter("cut") == 1
    port.up = 1
    port.partner = partner = Partner(7)
    # The first is granted before the link is up, without a report of the far end: dropped.
    again = packets(rng, 6)
    port.inject = [(packet[0] & 1, packet) for packet in again]
    await port.run(lambda: len(partner.received) == 5)
    assert [p[1:] for p in partner.received] == [p[1:] for p in again[1:]]
    assert port.counter("dropped") == 7


def test_apelink_port():
    simulate("apelink_port", "test_apelink_port")
