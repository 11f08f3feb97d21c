# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive_payload: payload extraction at every offset, whole or truncated; verdict times."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge
from handshake import reset, start_clock
from simulate import simulate

FIELDS = {"first": 1, "data": 64, "odd": 1, "begin": 1, "take": 1, "end": 1, "bytes": 4, "info": 104}
UDP, OTHER_PORT, CUT_SHORT = 0, 2, 6


class Packet:
    """IP packet: 4 `ihl` bytes of header, 8 of UDP, `size` of payload; `there`: bytes with padding."""

    def __init__(self, rng, ihl=5, size=18, there=None, take=True, verdict=None):
        self.ihl, self.size, self.take, self.rng = ihl, size, take, rng
        self.start = 4 * ihl + 8
        self.octets = rng.randbytes(self.start + size if there is None else there)
        self.payload = self.octets[self.start : self.start + size]
        self.info = rng.getrandbits(FIELDS["info"])
        whole = len(self.octets) >= self.start + size
        self.verdict = (UDP if whole else CUT_SHORT) if verdict is None else verdict

    def script(self):
        """Return (inputs, payload word or None) for each word and for the tail.

        Payload inputs before the first payload word are random.
        """
        out, rng, begun = [], self.rng, False
        words = -(-len(self.octets) // 8)
        for number in range(words + 1):
            part, tail = self.octets[8 * number : 8 * number + 8], number == words
            word = {"tail": int(tail), "valid": int(not tail), "first": int(number == 0)}
            word |= {"odd": self.start // 4 % 2, "begin": 0, "bytes": rng.getrandbits(4)}
            word["data"] = int.from_bytes(part + rng.randbytes(8 - len(part)), "little")
            if tail:
                word["end"] = 1
            # offset in the payload of the bytes that this word completes
            at = (8 * number + 8 - self.start) // 8 * 8 - 8
            notified = None
            if at >= 0:
                left = max(0, min(8, self.size - at))
                end = at + 8 >= self.size or tail
                word |= {"begin": int(at == 0), "end": int(end), "bytes": left}
                if at == 0:
                    word |= {"take": int(self.take), "info": self.info}
                if self.take and (at == 0 or begun) and (at < self.size or at == 0):
                    begun = not end
                    notified = (at == 0, end, left, self.payload[at : at + 8])
            out.append((word, notified))
        return out


async def play(dut, packets, rate, rng, delay=lambda: 5):
    """Send packets back to back or with pauses; check every output word and its cycle."""
    seen, timeline, verdicts, held, expected, last_verdict = Counter(), [], {}, {}, {}, 0
    for packet in packets:
        for word, notified in packet.script():
            while not word["tail"] and rng.random() >= rate:
                timeline.append(None)
            if notified and not notified[1]:
                expected[len(timeline)] = (*notified, packet)
            elif notified:
                held[packet] = notified
            timeline.append(word)
        last_verdict = max(len(timeline) - 2 + delay(), last_verdict + 1)
        verdicts[last_verdict] = packet.verdict
        if packet in held:
            assert last_verdict not in expected
            expected[last_verdict] = (*held[packet], packet)
            seen[(packet.verdict, held[packet][0], held[packet][2])] += 1
    for now in range(len(timeline) + 8):
        word = timeline[now] if now < len(timeline) else None
        dut.in_valid.value, dut.in_tail.value = (word["valid"], word["tail"]) if word else (0, 0)
        for name, bits in FIELDS.items():
            value = (word or {}).get(name)
            getattr(dut, f"in_{name}").value = rng.getrandbits(bits) if value is None else value
        dut.verdict_valid.value = int(now in verdicts)
        dut.verdict.value = verdicts.get(now, rng.randrange(13))
        await FallingEdge(dut.clk)
        assert int(dut.out_valid.value) == int(now in expected), (now, expected.get(now))
        if now in expected:
            first, last, count, octets, packet = expected[now]
            got = int(dut.out_first.value), int(dut.out_last.value), int(dut.out_bytes.value)
            assert got == (first, last, count), (got, expected[now])
            data = int(dut.out_data.value).to_bytes(8, "little")[: len(octets)]
            assert data == octets, (data.hex(), octets.hex())
            if first:
                assert int(dut.out_info.value) == packet.info
            if last:
                assert int(dut.out_verdict.value) == packet.verdict
    return seen


async def start(dut):
    start_clock(dut)
    dut.in_tail.value = 0
    await reset(dut)
    await FallingEdge(dut.clk)


@cocotb.test()
async def every_header_and_size(dut):
    """Back to back, with verdicts as from udp_receive: five cycles after the last word."""
    await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    packets = []
    for ihl in range(5, 16):
        for size in range(19):
            there = 4 * ihl + 8 + size
            padded = max(46, there + rng.choice([0, 0, 3, 8, 20]))
            packets += [Packet(rng, ihl, size), Packet(rng, ihl, size, padded)]
    packets += [Packet(rng, ihl, size) for ihl in (5, 6) for size in (1471, 1472, 8972)]
    seen = await play(dut, packets, 1.0, rng)
    assert {count for (_, first, count) in seen if first} == set(range(9))
    assert {count for (_, first, count) in seen if not first} == set(range(1, 9))
    assert seen.total() == len(packets)  # every payload has a last word, also one of 0 B


@cocotb.test()
async def packets_that_are_cut_off(dut):
    """A truncated payload ends with the tail; a truncated header begins no payload."""
    await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    for ihl in (5, 6, 15):
        whole = 4 * ihl + 8 + 30
        packets = [Packet(rng, ihl, 30, there) for there in range(1, whole + 1)]
        await play(dut, packets, 1.0, rng)
        packets = [Packet(rng, ihl, 65000, there) for there in range(1, whole + 1)]
        seen = await play(dut, packets, 0.8, rng)
        assert seen.total() and all(verdict == CUT_SHORT for verdict, _, _ in seen)


@cocotb.test()
async def what_is_not_to_be_taken_stays_out(dut):
    await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    packets = []
    for size in (0, 3, 8, 9, 40):
        for ihl in (5, 6):
            packets += [Packet(rng, ihl, size), Packet(rng, ihl, size, take=False, verdict=OTHER_PORT)] * 2
            packets += [Packet(rng, ihl, size, take=False, verdict=UDP), Packet(rng, ihl, size, verdict=4)]
    seen = await play(dut, packets, 1.0, rng)
    assert seen.total() == sum(packet.take for packet in packets)


@cocotb.test()
async def any_packets_pauses_and_verdicts(dut):
    """Verdicts from the cycle after the tail until the next packet's payload may begin."""
    await start(dut)
    seen = Counter()
    for seed, rate in enumerate((1.0, 1.0, 0.7, 0.2)):
        rng = random.Random(cocotb.RANDOM_SEED + seed)
        packets = []
        for _ in range(200):
            ihl, size = rng.randint(5, 15), rng.choice([0, 1, 4, 8, 18, 40, rng.randrange(100)])
            there = max(46, 4 * ihl + 8 + size + rng.choice([0, 0, 1, 5, 18]))
            there = rng.randrange(1, there) if rng.random() < 0.2 else there
            take, verdict = rng.random() < 0.8, rng.choice([None, None, rng.randrange(13)])
            packets.append(Packet(rng, ihl, size, there, take, verdict))
        seen += await play(dut, packets, rate, rng, lambda rng=rng: rng.randint(2, 5))
    assert {verdict for verdict, _, _ in seen} == set(range(13)) and 400 < seen.total() < 750, seen


@cocotb.test()
async def a_reset_forgets_what_flows_and_what_is_held(dut):
    await start(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    steps = [word for word, _ in Packet(rng, 5, 60).script()]
    begin = [step["begin"] for step in steps].index(1)
    for at_step in range(begin, len(steps)):
        for number, word in enumerate([*steps, {}, {}, {}]):
            dut.rst.value = int(number == at_step)
            dut.in_valid.value, dut.in_tail.value = word.get("valid", 0), word.get("tail", 0)
            dut.verdict_valid.value = int(not word)
            for name in FIELDS:
                getattr(dut, f"in_{name}").value = word.get(name) or 0
            await FallingEdge(dut.clk)
            assert number < at_step or not int(dut.out_valid.value), (at_step, number)
        assert (await play(dut, [Packet(rng, 5, 9)], 1.0, rng)).total() == 1


def test_udp_receive_payload():
    simulate("udp_receive_payload", "test_udp_receive_payload")
