# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive_arp: requests for the card's address by RFC 826, bit by bit."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge
from frames import Host, arp_frame
from handshake import reset, start_clock
from simulate import simulate

HOST, ASKER = Host(), (0x02_50_5A_0F_C3_69, 0x0B5A5A36)
FIELDS = {"last": 1, "bad": 1, "data": 64, "bytes": 4, "number": 13, "ours": 1}
DELAY = 3
SIZE = 28  # bytes of an ARP packet for Ethernet and IPv4


def asker(packet, host, bad=False, ours=True):
    """Return the addresses for the reply, or the reason for none."""
    if bad or not ours:
        return "not ours"
    if len(packet) < SIZE:
        return "short"
    if packet[:8] != b"\0\1\x08\0\6\4\0\1":
        return "no request"
    mac, ip = int.from_bytes(packet[8:14], "big"), int.from_bytes(packet[14:18], "big")
    if int.from_bytes(packet[24:28], "big") != host.ip:
        return "other target"
    if packet[8] & 1 or mac in (0, host.mac):
        return "other MAC"
    return (mac, ip) if ip != host.ip else "other IP"


def words_of(packet, bad, ours, beyond):
    """Return the words of a frame's payload; the last one is filled up with bytes of another packet."""
    whole = packet + beyond[len(packet) :] + bytes(8)
    for at in range(0, len(packet), 8):
        last = at + 8 >= len(packet)
        yield {
            "last": int(last),
            "data": int.from_bytes(whole[at : at + 8], "little"),
            "bytes": min(8, len(packet) - at),
            "number": at // 8,
            "ours": int(ours),
            **({"bad": int(bad)} if last else {}),
        }


class Bench:
    def __init__(self, dut, seed=0):
        if seed == 0:
            start_clock(dut)
        self.dut, self.rng, self.seen = dut, random.Random(cocotb.RANDOM_SEED + seed), Counter()

    async def start(self, host=HOST):
        self.host, self.dut.host.value = host, host.mac << 32 | host.ip
        await reset(self.dut)
        await FallingEdge(self.dut.clk)

    async def cycle(self, word=None):
        """Apply one cycle; return the reply request after it. Invalid inputs are random."""
        dut = self.dut
        dut.in_valid.value = int(word is not None)
        anything = {name: self.rng.getrandbits(bits) for name, bits in FIELDS.items()}
        for name, value in (anything | (word or {})).items():
            getattr(dut, f"in_{name}").value = value
        await FallingEdge(dut.clk)
        arp = int(dut.arp.value)
        return (arp >> 32, arp & 0xFFFFFFFF) if int(dut.arp_valid.value) else None

    async def check(self, frames, rate=1.0):
        """Send frames (packet, bad, ours): one pulse three cycles after each request's end, and no other."""
        pipe = [None] * (DELAY - 1)
        for packet, bad, ours in frames:
            want = asker(packet, self.host, bad, ours)
            self.seen[want if isinstance(want, str) else "answered"] += 1
            # end of the frame: its tail
            for word in [*words_of(packet, bad, ours, packet_of(self.host)), None]:
                while word and self.rng.random() >= rate:
                    await self.step(pipe)
                await self.step(pipe, word, want if word and word["last"] else None)
        for _ in range(DELAY):
            await self.step(pipe)

    async def step(self, pipe, word=None, want=None):
        pipe.append(want if isinstance(want, tuple) else None)
        got, due = await self.cycle(word), pipe.pop(0)
        assert got == due, (got, due)


def packet_of(host=HOST, **changes):
    """Return the payload of a frame with an ARP packet, padding included."""
    return arp_frame(host, **changes)[14:]


@cocotb.test()
async def every_bit_of_a_request_counts(dut):
    """One wrong bit at a time; only the sender's addresses, the target's MAC and padding are arbitrary."""
    bench = Bench(dut)
    await bench.start()
    right = packet_of(mac=ASKER[0], ip=ASKER[1])
    frames, answered = [(right, False, True)], 1
    for bit in range(8 * len(right)):
        wrong = bytearray(right)
        wrong[bit // 8] ^= 1 << bit % 8
        free = (8 <= bit // 8 < 24 and bit != 64) or bit >= 8 * SIZE  # bit 64: group address
        assert isinstance(asker(bytes(wrong), HOST), tuple) == free
        frames.append((bytes(wrong), False, True))
        answered += free
    await bench.check(frames)
    assert bench.seen["answered"] == answered


@cocotb.test()
async def who_cannot_be_answered(dut):
    bench = Bench(dut)
    await bench.start()
    for changes, why in (
        ({"mac": HOST.mac}, "other MAC"),
        ({"mac": 0}, "other MAC"),
        ({"mac": 0xFFFFFFFFFFFF}, "other MAC"),
        ({"mac": 0x01005E000001}, "other MAC"),
        ({"ip": HOST.ip}, "other IP"),
        ({"ip": 0}, "answered"),  # address probe, RFC 5227
        ({"mac": HOST.mac ^ 1 << 47}, "answered"),
        ({"mac": HOST.mac ^ 1, "ip": HOST.ip ^ 1 << 31}, "answered"),
        ({"operation": 2}, "no request"),
        ({"operation": 0x0100}, "no request"),
        ({"target": 0}, "other target"),
        ({"target": ASKER[1], "ip": ASKER[1]}, "other target"),  # announcement
    ):
        bench.seen.clear()
        await bench.check([(packet_of(**changes), False, True)])
        assert bench.seen == {why: 1}, (changes, bench.seen)
    bench.seen.clear()
    await bench.check([(packet_of(), True, True), (packet_of(), False, False), (packet_of(), True, False)])
    assert bench.seen == {"not ours": 3}


@cocotb.test()
async def every_length_behind_a_request(dut):
    """Missing words of a short frame are not taken from the previous frame."""
    bench = Bench(dut)
    await bench.start()
    lengths, request = [*range(1, 65), 1500, 9000], packet_of(ip=0x0A0B0C0D)
    for length in lengths:
        long = packet_of().ljust(length, b"\xa5")
        await bench.check([(request, False, True), (long[:length], False, True), (request, False, True)])
    assert bench.seen == {"answered": 2 * len(lengths) + sum(n >= SIZE for n in lengths), "short": SIZE - 1}


@cocotb.test()
async def random_packets(dut):
    seen = Counter()
    for seed, rate in enumerate((1.0, 1.0, 0.6, 0.2)):
        bench = Bench(dut, seed)
        rng, frames = bench.rng, []
        host = Host(rng.getrandbits(48) & ~(1 << 40) | 1, rng.getrandbits(32))
        await bench.start(host)
        for _ in range(250):
            changes = {
                "mac": rng.choice([host.mac, rng.getrandbits(48) | 1 << 40])
                if rng.random() < 0.2
                else rng.getrandbits(48) & ~(1 << 40) | 2,
                "ip": host.ip if rng.random() < 0.1 else rng.getrandbits(32),
                "target": host.ip ^ 1 << rng.randrange(32) if rng.random() < 0.1 else host.ip,
                "operation": rng.choice([1] * 6 + [2]),
            }
            packet = packet_of(host, **changes)
            packet = (
                packet[:18] + rng.randbytes(6) + packet[24:28] + rng.randbytes(rng.choice([0, 4, 18, 40]))
            )
            if rng.random() < 0.1:
                packet = packet[: rng.randrange(1, SIZE)]
            frames.append((packet, rng.random() < 0.06, rng.random() < 0.94))
        await bench.check(frames, rate)
        seen += bench.seen
    reasons = ("answered", "not ours", "short", "no request", "other target", "other MAC", "other IP")
    assert all(seen[reason] > 20 for reason in reasons), seen


@cocotb.test()
async def a_reset_takes_back_what_is_not_out(dut):
    bench = Bench(dut)
    await bench.start()
    for cycles in range(DELAY):
        *before, last = words_of(packet_of(), False, True, b"")
        for word in before:
            await bench.cycle(word)
        dut.rst.value = int(cycles == 0)
        assert await bench.cycle(last) is None
        for step in range(1, 6):
            dut.rst.value = int(step == cycles)
            assert await bench.cycle() is None
        dut.rst.value = 0
    await bench.check([(packet_of(), False, True)])


def test_udp_receive_arp():
    simulate("udp_receive_arp", "test_udp_receive_arp")
