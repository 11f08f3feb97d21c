# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive_ethernet: payloads of frames of every length, tagged or not, and runts."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge
from frames import VERDICTS
from handshake import reset, start_clock
from simulate import simulate

MAC = 0x02_00_0A_00_00_01
IPV4, ARP, VLAN = 0x0800, 0x0806, 0x8100
RUNT = 16  # frames of up to two words have no payload
DELAY, RUNT_DELAY = 3, 2
FIELDS = {"tdata": 64, "tkeep": 8, "tlast": 1, "tuser": 1}


class Frame:
    """Frame by its fields, cut to `size` bytes; `stamp` is set when it is sent."""

    def __init__(self, rng, size, mac=MAC, kind=IPV4, tag=None, bad=False):
        inner = kind.to_bytes(2, "big")
        header = mac.to_bytes(6, "big") + rng.randbytes(6)
        header += inner if tag is None else VLAN.to_bytes(2, "big") + tag.to_bytes(2, "big") + inner
        self.at = len(header)
        self.octets = (header + rng.randbytes(max(0, size - self.at)))[:size]
        self.carried = self.octets[self.at :]
        self.tag, self.bad, self.kind, self.stamp = tag, bad, kind, 0
        self.other = not mac >> 40 & 1 and mac != MAC

    def words(self, rng):
        """Return the AXI words; unused bytes and the MAC's verdict before the end are random."""
        for at in range(0, len(self.octets), 8):
            part, last = self.octets[at : at + 8], at + 8 >= len(self.octets)
            yield {
                "tdata": int.from_bytes(part + rng.randbytes(8 - len(part)), "little"),
                "tkeep": (1 << len(part)) - 1,
                "tlast": int(last),
                "tuser": int(self.bad) if last else rng.getrandbits(1),
            }

    def verdict(self):
        """Return the verdict of a frame without payload; with a second tag, the type is unknown."""
        size = len(self.octets)
        if self.bad:
            return "bad_fcs"
        if size > 8 and self.other:
            return "other_mac"
        if size >= 14 and self.tag is None and self.kind == ARP:
            return "arp"
        return "not_ipv4" if size >= 14 and (self.tag is not None or self.kind != IPV4) else "cut_short"

    def ethernet(self):
        """Return the valid fields of ethernet_t."""
        fields = {"other": int(self.other), "tagged": int(self.tag is not None), "stamp": self.stamp}
        fields["arp"] = int(self.tag is None and self.kind == ARP)
        # the type is missing otherwise
        fields["ipv4"] = int(self.kind == IPV4 and len(self.octets) >= self.at)
        return fields if self.tag is None else fields | {"vlan_id": self.tag & 0xFFF}


def unpack(ethernet):
    out = {"stamp": ethernet & 0xFFFFFFFF, "vlan_id": ethernet >> 32 & 0xFFF}
    return out | {name: ethernet >> 44 + i & 1 for i, name in enumerate(("tagged", "arp", "ipv4", "other"))}


def words_out(frame, times):
    """Return {cycle: (number, bytes, last)} of a frame with these word times; None: its tail."""
    count = max(1, -(-len(frame.carried) // 8))
    out = {}
    for number in range(count):
        part = frame.carried[8 * number : 8 * number + 8]
        word = (frame.at + 8 * number + 7) // 8  # frame word that completes this payload word
        left_over = word >= len(times) and number > 0
        time = times[min(word, len(times) - 1)] + left_over + DELAY
        out[time] = (number, part, number == count - 1)
    return out | {time + 1: (count, None, None)}


class Bench:
    def __init__(self, dut):
        self.dut, self.rng, self.seen = dut, random.Random(cocotb.RANDOM_SEED), Counter()

    async def start(self):
        start_clock(self.dut)
        self.dut.mac.value = MAC
        await reset(self.dut)
        await FallingEdge(self.dut.clk)

    def look(self, frame, number, part, last):
        """Check a word of a frame, or its tail."""
        dut = self.dut
        tail = part is None
        assert (int(dut.out_valid.value), int(dut.out_tail.value)) == (int(not tail), int(tail))
        assert int(dut.out_number.value) == number
        if tail:
            return
        assert (int(dut.out_last.value), int(dut.out_bytes.value)) == (last, len(part)), (number, part)
        # An incomplete first word is too short for IP; for a tagged frame its contents are undefined.
        if number or frame.tag is None or len(part) > 6:
            assert int(dut.out_data.value).to_bytes(8, "little")[: len(part)] == part, number
        if last:
            assert int(dut.out_bad.value) == frame.bad
        if number == 0:
            got, want = unpack(int(dut.out_ethernet.value)), frame.ethernet()
            assert {name: got[name] for name in want} == want

    async def play(self, frames, rate=1.0):
        """Send frames and check every cycle."""
        dut, rng = self.dut, self.rng
        timeline, due, runts = [], {}, {}
        for frame in frames:
            times = []
            for word in frame.words(rng):
                while rng.random() >= rate:
                    timeline.append((None, None))
                times.append(len(timeline))
                timeline.append((word, None if times[1:] else frame))
            if len(frame.octets) <= RUNT:
                runts[times[-1] + RUNT_DELAY] = frame.verdict()
                self.seen[frame.verdict()] += 1
            else:
                words = words_out(frame, times)
                assert not due.keys() & words.keys()
                due |= {time: (frame, *word) for time, word in words.items()}
        for now in range(len(timeline) + 8):
            if now in due:
                self.look(*due[now])
            else:
                assert not int(dut.out_valid.value) and not int(dut.out_tail.value), now
            assert int(dut.runt.value) == int(now in runts)
            assert now not in runts or VERDICTS[int(dut.runt_verdict.value)] == runts[now], runts[now]
            word, frame = timeline[now] if now < len(timeline) else (None, None)
            stamp = rng.getrandbits(32)
            if frame:
                frame.stamp = stamp
            dut.now.value = stamp
            dut.s_axis_rx_tvalid.value = int(word is not None)
            for name, bits in FIELDS.items():
                getattr(dut, f"s_axis_rx_{name}").value = word[name] if word else rng.getrandbits(bits)
            await FallingEdge(dut.clk)
        dut.s_axis_rx_tvalid.value = 0


@cocotb.test()
async def every_length_with_and_without_a_tag(dut):
    """In random order, without gaps and with pauses."""
    bench = Bench(dut)
    await bench.start()
    for rate in (1.0, 0.6):
        frames = []
        for size in range(1, 60):
            for tag in (None, 0x6005, 0xFFF, 0):
                for kind in (IPV4, 0x86DD, ARP):
                    frames.append(Frame(bench.rng, size, kind=kind, tag=tag, bad=bench.rng.random() < 0.2))
        bench.rng.shuffle(frames)
        await bench.play([*frames, Frame(bench.rng, 9018), Frame(bench.rng, 9022, tag=5)], rate)
    reasons = ("bad_fcs", "not_ipv4", "cut_short")
    assert min(bench.seen[name] for name in reasons) > 20 and bench.seen["arp"] > 2, bench.seen


@cocotb.test()
async def addresses_bit_by_bit(dut):
    """Wrong unicast addresses in every bit; group addresses are accepted; eight bytes are too short."""
    bench = Bench(dut)
    await bench.start()
    rng, macs = bench.rng, [MAC, 0xFFFFFFFFFFFF, 0x01005E000001, *(MAC ^ 1 << bit for bit in range(48))]
    for size in (8, 9, 13, 14, 16, 17, 40):
        frames = [Frame(rng, size, mac=mac, tag=rng.choice([None, 5])) for mac in macs]
        assert sum(frame.ethernet()["other"] for frame in frames) == 47
        await bench.play(frames)
    assert bench.seen["other_mac"] == 47 * 4, bench.seen


@cocotb.test()
async def types_and_tags_bit_by_bit(dut):
    bench = Bench(dut)
    await bench.start()
    kinds = [IPV4 ^ 1 << bit for bit in range(16)]
    for tag in (None, 0, 0xF000):
        frames = [Frame(bench.rng, 30, kind=kind, tag=tag) for kind in (IPV4, ARP, *kinds)]
        frames += [Frame(bench.rng, 30, kind=ARP ^ 1 << bit, tag=tag) for bit in range(16)]
        if tag is None:  # one bit away from a tag; provider tags are not supported
            frames += [Frame(bench.rng, 30, kind=VLAN ^ 1 << bit) for bit in range(16)]
            frames += [Frame(bench.rng, size, kind=0x88A8) for size in range(14, 30)]
            frames += [Frame(bench.rng, size, kind=kind) for size in range(14, 17) for kind in kinds]
        else:
            frames.append(Frame(bench.rng, 30, kind=VLAN, tag=tag))  # nested tags
        await bench.play(frames)
    await bench.play([Frame(bench.rng, 30, tag=1 << bit) for bit in range(16)])


@cocotb.test()
async def random_frames(dut):
    bench, rng = Bench(dut), random.Random(cocotb.RANDOM_SEED + 1)
    await bench.start()
    for rate in (1.0, 0.7, 0.3):
        frames = []
        for _ in range(160):
            size = rng.choice(
                [rng.randint(1, 16), rng.randint(9, 16), rng.randint(17, 30), rng.randint(60, 200)]
            )
            mac = rng.choice([MAC, MAC, 0xFFFFFFFFFFFF, rng.getrandbits(48) & ~(1 << 40)])
            kind = rng.choice([IPV4, IPV4, 0x86DD, ARP])
            tag = rng.choice([None, rng.getrandbits(16)])
            frames.append(Frame(rng, size, mac, kind, tag, rng.random() < 0.2))
        await bench.play(frames, rate)
    reasons = ("bad_fcs", "other_mac", "not_ipv4", "cut_short")
    assert min(bench.seen[name] for name in reasons) > 20, bench.seen


@cocotb.test()
async def a_reset_ends_every_frame(dut):
    """Resets within a frame, after one, in its remainder, and in a runt."""
    bench = Bench(dut)
    await bench.start()
    for size in (10, 17, 30, 31, 49, 50):
        for cycles in range(1, -(-size // 8) + 6):
            words = list(Frame(bench.rng, size).words(bench.rng))[:cycles]
            for word in [*words, *[None] * (cycles - len(words))]:
                dut.s_axis_rx_tvalid.value = int(word is not None)
                for name, value in (word or {}).items():
                    getattr(dut, f"s_axis_rx_{name}").value = value
                await FallingEdge(dut.clk)
            dut.s_axis_rx_tvalid.value, dut.rst.value = 0, 1
            await FallingEdge(dut.clk)
            dut.rst.value = 0
            await bench.play([Frame(bench.rng, 40), Frame(bench.rng, 12)])


def test_udp_receive_ethernet():
    simulate("udp_receive_ethernet", "test_udp_receive_ethernet")
