# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive_sums: IP and UDP checksums by RFC 1071, of packets and of arbitrary half words."""

import random
import struct
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge
from frames import Host, checksum, udp_frame
from handshake import start_clock
from simulate import simulate

HOST = Host()
FIELDS = {"first": 1, "data": 64, "ip": 2, "udp": 2, "bytes": 4, "length": 16}
DELAY = 5


async def play(dut, words, rate, rng):
    """Send words, given as dictionaries of the inputs, with pauses; (IP, UDP) follow five cycles later."""
    words, due, got = list(words), [], []
    while words or due:
        valid = bool(words) and rng.random() < rate
        word = {name: rng.getrandbits(bits) for name, bits in FIELDS.items()}
        if valid:
            word |= words.pop(0)
            due.append(DELAY)
        dut.in_valid.value = int(valid)
        for name, value in word.items():
            getattr(dut, f"in_{name}").value = value
        await FallingEdge(dut.clk)
        due = [left - 1 for left in due]
        if due and due[0] == 0:
            due.pop(0)
            got.append((int(dut.ip_right.value), int(dut.udp_right.value)))
    return got


def words_of(packet):
    """Return a packet's words as udp_receive marks them; the length is unknown before its position."""
    header = (packet[0] & 15) * 4
    length = int.from_bytes(packet[header + 4 : header + 6], "big")
    words = []
    for at in range(0, len(packet), 8):
        ip = [at + half < header for half in (0, 4)]
        udp = [not ip[half // 4] or 12 <= at + half < 20 for half in (0, 4)]
        words.append(
            {
                "first": int(at == 0),
                "data": int.from_bytes(packet[at : at + 8].ljust(8, b"\xee"), "little"),
                "ip": ip[0] | ip[1] << 1,
                "udp": udp[0] | udp[1] << 1,
                "bytes": max(0, min(8, header + length - at)),
            }
        )
    words[-1]["length"] = int.from_bytes(packet[header + 4 : header + 6], "little")
    return words


def right(packet):
    """Return the validity of a packet's sums by RFC 791 and RFC 768."""
    header = (packet[0] & 15) * 4
    length = int.from_bytes(packet[header + 4 : header + 6], "big")
    pseudo = packet[12:20] + struct.pack(">BBH", 0, 17, length)
    udp = packet[header : header + length]
    return int(checksum(packet[:header]) == 0xFFFF), int(checksum(pseudo + udp) == 0xFFFF)


async def check_packets(dut, packets, rate, rng):
    """Return the number of each result for the packets' last words."""
    words, last = [], []
    for packet in packets:
        words += words_of(packet)
        last.append(len(words) - 1)
    got = await play(dut, words, rate, rng)
    want = [right(packet) for packet in packets]
    for packet, one, at in zip(packets, want, last, strict=True):
        assert got[at] == one, (packet.hex(), got[at], one)
    return Counter(want)


@cocotb.test()
async def packets_with_options_padding_and_odd_lengths(dut):
    start_clock(dut)
    for seed, rate in enumerate((1.0, 0.6)):
        rng, packets = random.Random(cocotb.RANDOM_SEED + seed), []
        for number in range(240):
            fill = rng.choice([b"\0", b"\xff", None])
            size = number % 24 if number < 200 else rng.randrange(1400, 1473)
            payload = rng.randbytes(size) if fill is None else fill * size
            packet = udp_frame(
                payload,
                HOST,
                options=rng.randbytes(4 * (number % 11)),
                src_ip=rng.choice([0, 0xFFFFFFFF, rng.getrandbits(32)]),
                dst_ip=rng.choice([0, 0xFFFFFFFF, rng.getrandbits(32)]),
                ip_checksum_error=rng.choice([0, 0, 0, 1, 0x100, 0xFFFF]),
                udp_checksum_error=rng.choice([0, 0, 0, 1, 0x8000, 0xFFFF]),
                pad=False,
            )[14:]
            packets.append(packet + rng.randbytes(rng.choice([0, 0, 1, 7, 8, 18])))
        seen = await check_packets(dut, packets, rate, rng)
        assert min(seen[one] for one in ((0, 0), (0, 1), (1, 0), (1, 1))) > 20, seen


@cocotb.test()
async def zero_and_all_ones_are_the_same_number(dut):
    """A sum of 0xFFFF is valid whether the checksum is 0 or 0xFFFF; zeros alone sum to 0."""
    start_clock(dut)
    rng, packets = random.Random(cocotb.RANDOM_SEED), []
    for size in (2, 3, 10):
        tail = rng.randbytes(size - 2)
        given = udp_frame(bytes(2) + tail, HOST, udp_checksum=0, pad=False)[34:]
        pseudo = struct.pack(">IIBBH", 0x0A000009, HOST.ip, 0, 17, 8 + size)
        fill = struct.pack(">H", 0xFFFF - checksum(pseudo + given))
        for value in (0, 0xFFFF, 1):
            packet = udp_frame(fill + tail, HOST, udp_checksum=value, pad=False)[14:]
            packets.append(packet)
            assert right(packet) == (1, int(value != 1))
    plain = bytearray(udp_frame(b"", HOST, pad=False)[14:])
    plain[10:12], plain[4:6] = bytes(2), bytes(2)
    plain[4:6] = struct.pack(">H", 0xFFFF - checksum(bytes(plain[:20])))
    packets += [bytes(plain), bytes(plain[:10] + b"\xff\xff" + plain[12:])]
    assert [right(packet)[0] for packet in packets[-2:]] == [1, 1]
    await check_packets(dut, packets, 1.0, rng)
    zeros = {"data": 0, "ip": 3, "udp": 0, "bytes": 8}
    got = await play(dut, [zeros | {"first": int(i == 0)} for i in range(3)], 1.0, rng)
    assert [ip for ip, _ in got] == [0, 0, 0]


@cocotb.test()
async def the_longest_frames_overflow_no_sum(dut):
    start_clock(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    packets = []
    for size in (8972, 32700):
        for error in (0, 1):
            packets.append(
                udp_frame(b"\xff" * size, HOST, options=b"\xff" * 40, udp_checksum_error=error)[14:]
            )
    assert (await check_packets(dut, packets, 1.0, rng)) == {(1, 1): 2, (1, 0): 2}


def counted(octets, halves, room):
    """Return the word with zeros in place of the uncounted octets."""
    return bytes(octet if halves >> i // 4 & 1 and i < room else 0 for i, octet in enumerate(octets))


@cocotb.test()
async def any_halves_of_any_words(dut):
    """Result of each word; many words are made valid or nearly valid."""
    start_clock(dut)
    seen = Counter()
    for seed, rate in enumerate((1.0, 1.0, 0.7, 0.3)):
        rng, words, want = random.Random(cocotb.RANDOM_SEED + seed), [], []
        for _ in range(150):
            ip_sum, udp_sum = 0, 17
            for number in range(rng.choice([1, 2, 3, 4, 8])):
                octets = b"".join(
                    rng.choice([b"\0\0", b"\xff\xff", b"\xff\xfe", rng.randbytes(2)]) for _ in "1234"
                )
                ip, udp, count = rng.getrandbits(2), rng.getrandbits(2), rng.choice([8, 8, rng.randint(0, 8)])
                length = rng.choice([0, 0xFFFF, rng.getrandbits(16)])
                for which in rng.sample(["ip", "udp"], 2):
                    lane = rng.randrange(4)
                    here, room = (ip, 8) if which == "ip" else (udp, count)
                    if here >> lane // 2 & 1 and 2 * lane + 1 < room and rng.random() < 0.8:
                        octets = octets[: 2 * lane] + b"\0\0" + octets[2 * lane + 2 :]
                        total = ip_sum if which == "ip" else checksum(struct.pack(">H", length), udp_sum)
                        total = checksum(counted(octets, here, room), total)
                        value = 0xFFFF - total ^ rng.choice(
                            [0, 0, 0, 1, 0x8000, 0xFFFF * (total in (0, 0xFFFF))]
                        )
                        octets = octets[: 2 * lane] + struct.pack(">H", value) + octets[2 * lane + 2 :]
                ip_sum, udp_sum = (
                    checksum(counted(octets, ip, 8), ip_sum),
                    checksum(counted(octets, udp, count), udp_sum),
                )
                whole = checksum(struct.pack(">H", length), udp_sum)
                want.append((int(ip_sum == 0xFFFF), int(whole == 0xFFFF)))
                words.append(
                    {
                        "first": int(number == 0),
                        "data": int.from_bytes(octets, "little"),
                        "ip": ip,
                        "udp": udp,
                        "bytes": count,
                        "length": int.from_bytes(struct.pack(">H", length), "little"),
                    }
                )
        seen += Counter(want)
        assert await play(dut, words, rate, rng) == want
    assert min(seen[one] for one in ((0, 0), (0, 1), (1, 0), (1, 1))) > 50, seen


def test_udp_receive_sums():
    simulate("udp_receive_sums", "test_udp_receive_sums")
