# SPDX-License-Identifier: SHL-2.1
"""Bench of rdma: golden packets, sound and hostile packets, messages of the put ring, GETs, time-outs."""

import os
import random

import cocotb
import golden_vectors
import pytest
import rdma_model as model
import reference_torus as torus
from cocotb.triggers import ClockCycles, RisingEdge
from rdma_host import GETS, Host
from simulate import simulate

SIZE = (8, 4, 2)
MESSAGES = int(os.environ.get("NANET_MESSAGES", "12"))
ME = (5, 1, 1)
DOMAIN, OTHER = 0x1234, 0x0055
BASE = 0x7F00_1234_0000
ALL = model.READ | model.WRITE


def interface(me=ME, size=SIZE) -> model.Interface:
    """A node with buffers in two domains; every fifth page of the second has no translation."""
    node = model.Interface(me, size, port=3)
    node.buffers = [
        model.Buffer(DOMAIN, BASE, 0x6000, ALL),
        model.Buffer(DOMAIN, BASE + 0x8123, 0x1001, model.READ),
        model.Buffer(OTHER, 0x10_0000, 0x5000, model.WRITE),
        model.Buffer(OTHER, 0x20_0000, 0x2000, 0),
    ]
    for b in node.buffers:
        for page in range(b.address // 4096, (b.address + b.size - 1) // 4096 + 1):
            if b.domain == DOMAIN or page % 5:
                node.pages[b.domain, page] = 0x9_0000 + (b.domain * 7919 + page) % 4099
    node.slots = {
        0: model.Slots(DOMAIN, BASE, 8, 2, 6),
        2: model.Slots(OTHER, 0x10_0000, 12, 2, 40),
    }
    return node


def golden(name: str) -> list[int]:
    """Words of a golden packet as the router delivers them."""
    data = golden_vectors.read(f"torus_packet_{name}")[1]
    words = [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]
    words[0] &= ~0x1F
    return words


def without_check(words: list[int]) -> list[int]:
    """Packet without VC code and check byte in the header."""
    return [words[0] & torus.DATA & ~0x1F, *words[1:]]


@cocotb.test()
async def golden_packets(dut):
    """PUT, GET and NACK of tests/golden, each at its node."""
    node = model.Interface((5, 17, 2), (64, 32, 32))
    fields, data = golden_vectors.read("torus_packet_put")
    node.buffers = [model.Buffer(4660, int(fields["address"][0]), 37, model.WRITE)]
    node.pages[4660, int(fields["address"][0]) // 4096] = 77
    host = Host(dut, node, 1)
    await host.start()
    packet = golden("put")
    host.receive(packet)
    await host.settled(0)
    host.compare()
    assert node.counters == {"refused_0": 1}
    assert bytes(node.memory[77 * 4096 + 0x678 + i] for i in range(37)) == data[16:53]
    event = golden_vectors.read("torus_event")[0]
    assert host.events() == [(6, 3, 0, int(event["buffer"][0]), 37, 0x1234 << 16 | 0xF07F, 0x89ABCDEF)]

    # The GET finds no buffer: the golden NACK but for its code and the reason. Then it finds one.
    node.me = (1, 0, 31)
    dut.me.value = model.pack_node(node.me)
    packet = golden("get")
    host.receive(packet, 1)
    await host.settled(1)
    assert without_check(host.router.packets[1][0]) == without_check(node.replies[0])
    nack = torus.unpack(torus.HEADER, golden("nack")[0]) | {
        "address": model.BAD_DOMAIN,
        "vchan": 16,
        "ecc": 0,
    }
    assert torus.unpack(torus.HEADER, host.router.packets[1][0][0]) == nack
    fields, data = golden_vectors.read("torus_get_entry")
    node.buffers = [model.Buffer(9, int(fields["address"][0]), 123456, model.READ)]
    host.receive(packet, 1)
    await host.settled(2)
    host.compare()
    entry = host.memory.read(GETS, 32)
    assert entry[:28] == data[:28] and entry[28] == 1
    # No page: NACK.
    await host.settled(2)
    assert torus.unpack(torus.HEADER, host.router.packets[1][1][0])["address"] == model.OUT_OF_RANGE


def apenet(rng: random.Random) -> bytes:
    """Header, payload and footer of a datagram, at times with a fault in the header."""
    version, offset = rng.choice((1, 1, 1, 2)), rng.choice((0, 0, 0, 4096))
    payload = rng.randbytes(rng.choice((0, 16, 64)))
    return bytes((version, 0, 48, 0)) + offset.to_bytes(2, "little") + bytes(10) + payload + bytes(16)


def kind_of(words: list[int]) -> int:
    """Type of a packet."""
    return torus.unpack(torus.HEADER, words[0])["type"]


def get_of_16_bytes(message: int) -> list[int]:
    """Request of another node for the first bytes of the first buffer."""
    request = torus.pack(torus.EXTENSION, reply_address=64, reply_channel=9, bytes=16)
    head = {"channel": DOMAIN, "type": torus.GET, "address": BASE} | dict(zip("xyz", ME, strict=True))
    return torus.packet(head, torus.to_bytes(request), {"message": message, "flags": torus.LAST}, False)


def random_packet(rng: random.Random, node: model.Interface, number: int) -> tuple[int, list[int]]:
    """(virtual channel, packet to the node), sound or with one fault."""
    kind = rng.choice(
        [torus.PUT] * 4 + [torus.SEND] * 3 + [torus.GET, torus.DONE, torus.NACK, torus.DATAGRAM]
    )
    buffer = rng.choice(node.buffers)
    at = buffer.address + rng.randrange(buffer.size)
    size = min(rng.choice((0, 1, 15, 16, 17, 64, 255, 256, rng.randrange(600))), 4096 - at % 4096)
    if rng.random() < 0.8:
        size = min(size, buffer.address + buffer.size - at)
    fields = {"channel": buffer.domain, "intra": rng.choice((0, 2)), "type": kind, "address": at}
    fields |= dict(zip("xyz", node.me, strict=True))
    foot = {"message": number, "source_x": rng.randrange(8), "source_y": rng.randrange(4), "source_z": 1}
    foot |= {"source_intra": 7, "flags": rng.randrange(16) & 14, "immediate": rng.getrandbits(32)}
    payload = rng.randbytes(size)
    if kind == torus.SEND:
        fields |= {"channel": (DOMAIN, 0, OTHER)[fields["intra"]], "address": 0}
    elif kind == torus.GET:
        request = {"reply_address": BASE, "reply_channel": 9, "bytes": size}
        payload = torus.to_bytes(torus.pack(torus.EXTENSION, **request))
    elif kind == torus.DATAGRAM:
        fields["channel"], payload = DOMAIN, apenet(rng)
    elif kind in (torus.DONE, torus.NACK):
        fields, payload = fields | {"address": rng.randrange(1, 12)}, b""
    vc = int(fields["channel"] == OTHER)
    fault = rng.choice(
        ("none",) * 6 + ("type", "node", "domain", "range", "port", "crc", "long", "cross", "raw")
    )
    if fault == "type":
        fields["type"] = rng.choice((9, 12, 15))
    elif fault == "raw":
        fields["type"] = rng.choice((torus.RAW, torus.ETHERNET))
    elif fault == "node":
        fields[rng.choice("xyz")] ^= 1
    elif fault == "domain":
        fields["channel"] = rng.choice((0, 0x1235, 0xFFFF))
    elif fault == "range":
        fields["address"] = (fields["address"] + rng.choice((0x8000, -0x8000, 1 << 40))) % (1 << 48)
    elif fault == "port":
        fields["intra"] = rng.choice((1, 3, 4, 15))
    elif fault == "cross" and kind == torus.PUT:
        fields["address"] |= 0xFFF
    words = torus.packet(fields, payload, foot)
    if fault == "crc":
        words[rng.randrange(len(words))] ^= 1 << rng.choice((21, 50, 70, 96, 100))
    elif fault == "long":
        words[0] ^= rng.choice((16, 4096)) << 48
    # Link and router rewrite these bits.
    outside = 1 << 42 if fault == "node" and rng.random() < 0.5 else 0
    return vc, [words[0] & ~torus.REWRITTEN | outside, *words[1:]]


async def mixed_packets(dut, count: int, rate: float) -> None:
    """Sound and hostile packets on both virtual channels; a domain is written from one of them."""
    rng = random.Random(cocotb.RANDOM_SEED + count)
    node = interface()
    host = Host(dut, node, cocotb.RANDOM_SEED, rate)
    await host.start(log2_gets=8)
    dut.datagram_room.value = 1
    for number in range(count):
        vc, packet = random_packet(rng, node, number)
        host.receive(packet, vc)
    data = [packet for get in node.gets for packet in node.data_packets(get, host.memory)]
    await host.settled(len(node.replies) + len(data))
    host.compare()
    # GET data hold what the memory held at that time: only their number is compared here.
    found = [p for vc in host.router.packets for p in vc]
    assert len(found) == len(node.replies) + len(data)
    expected = node.replies + [p for p in data if kind_of(p) == torus.NACK]
    assert sorted(p for p in found if kind_of(p) != torus.GET_DATA) == sorted(expected)
    named = {name for name in node.counters if name.startswith("refused")}
    assert len(named) >= 9 or count < 100, named


@cocotb.test()
async def sound_and_hostile_packets(dut):
    """Every packet is placed or refused under its name; nothing else is touched."""
    await mixed_packets(dut, 130, 1.0)


@cocotb.test()
async def sound_and_hostile_packets_with_pauses(dut):
    await mixed_packets(dut, 60, 0.5)


@cocotb.test()
async def a_full_get_ring_refuses(dut):
    """The fifth GET before the ring of four is read, and a datagram without room."""
    node = interface()
    host = Host(dut, node, 3)
    await host.start(log2_gets=2)
    host.slave.holds = True
    node.gets_free = 4
    for number in range(5):
        host.receive(get_of_16_bytes(number))
    await host.settled(1)
    host.compare()
    assert host.router.packets[1] == node.replies
    head = {"channel": DOMAIN, "type": torus.DATAGRAM, "address": BASE} | dict(zip("xyz", ME, strict=True))
    packet = torus.packet(head, b"\1" + bytes(47), {}, False)
    host.router.send[0].append(packet)
    node.counters["datagrams_lost"] += 1
    host.slave.holds = False
    await host.settled(5)
    host.compare()
    sent = [torus.unpack(torus.FOOTER, p[-1])["message"] for p in host.router.packets[1]]
    assert sent == [4, 0, 1, 2, 3]


@cocotb.test()
async def too_long_inline_payloads_are_skipped(dut):
    """Each is refused with an event and counted; descriptors behind it are carried out."""
    node = interface()
    host = Host(dut, node, 19)
    host.log2_puts = 6
    await host.start()
    sent = 0

    def post(number: int, size: int, stored: int) -> None:
        nonlocal sent
        flags = model.INLINE | model.EVENT
        payload = bytes(range(1, stored + 1)) if stored < 256 else b"\xff" * stored
        d = model.Descriptor(torus.PUT, (1, 1, 0), size, 0x5000, flags=flags, message=number, payload=payload)
        sent += len(node.post(d, host.memory))
        host.post(d)

    # Behind a doorbell for all: the payload has the entries of its bytes.
    for number, size in enumerate((193, 16, 256, 257, 192)):
        post(number, size, size)
    await host.settled(sent)
    # More bytes than entries posted: the ring goes on behind the doorbell.
    for number, size in enumerate((0xFFFFFFFF, 0xFFFFFFC1, 1000, 193), 5):
        post(number, size, 70)
        await host.settled(sent)
        await ClockCycles(dut.clk, 100)
        post(number + 10, 70, 70)
        await host.settled(sent)
    host.compare()
    failed = [event for event in host.events() if event[0] == model.FAILED]
    assert [event[2] for event in failed] == [model.BAD_LENGTH] * 7
    assert node.counters == {"bad_descriptors": 7}
    assert sent == 6


@cocotb.test()
async def messages_of_the_put_ring(dut):
    """PUT, SEND and GET, inline and from memory at any byte; answers, refusals and events."""
    rng = random.Random(cocotb.RANDOM_SEED)
    node = interface()
    host = Host(dut, node, cocotb.RANDOM_SEED, 0.9)
    await host.start()
    for page in node.pages.values():
        host.memory.write(page * 4096, rng.randbytes(4096))
    sent = 0
    for number in range(MESSAGES):
        inline = rng.random() < 0.3
        kind = rng.choice((torus.PUT, torus.PUT, torus.SEND, torus.GET))
        buffer = rng.choice(node.buffers)
        at = buffer.address + rng.randrange(buffer.size)
        size = rng.choice((0, 1, 5, 16, 31, 100, 192) if inline else (0, 3, 64, 257, 1000, 5000))
        if rng.random() < 0.9:
            size = min(size, buffer.address + buffer.size - at)
        if inline:
            size, kind = min(size, 192), torus.PUT if kind == torus.GET else kind
        flags = rng.choice((0, model.EVENT, model.EVENT | model.ACK, model.NOTIFY | model.ACK))
        remote = 0x4000_0000_0000 + rng.randrange(1 << 20)
        place = tuple(rng.randrange(k) for k in SIZE)
        fault = rng.random()
        if fault < 0.04:
            place = (8, 0, 0)
        elif fault < 0.08:
            kind = rng.choice((0, 4, 200))
        elif fault < 0.12:
            remote = (1 << 48) - 1
        elif fault < 0.16 and not inline:
            at += 1 << 50
        payload = rng.randbytes(size) if inline else b""
        d = model.Descriptor(
            *(kind, place, size, remote, at, 0x77, buffer.domain, rng.randrange(17), flags | int(inline)),
            *(number, rng.getrandbits(32), payload),
        )
        expected = node.post(d, host.memory)
        host.post(d)
        sent += len(expected)
        await host.settled(sent)
        found = host.router.packets[0][sent - len(expected) : sent]
        assert found == expected, (d, [hex(w) for w in found[0]] if found else None)
        # The partner answers: for a PUT each packet, for a GET with data.
        for message in list(node.open):
            await answer(host, rng, message)
    await host.settled(sent)
    host.compare()
    assert {event[0] for event in node.events} <= {model.COMPLETED, model.FAILED}
    assert node.events


async def answer(host: Host, rng: random.Random, message: dict) -> None:
    """DONE or data of a partner in pieces, or a NACK; first an answer that belongs to no message."""
    node = host.model
    head = dict(zip("xyz", node.me, strict=True)) | {"intra": node.port, "channel": message["domain"]}
    foot = {f"source_{axis}": at for axis, at in zip("xyz", message["node"], strict=True)}
    foot |= {"message": message["message"], "flags": torus.LAST}
    packets = [
        torus.packet(head | {"type": torus.DONE, "address": 1}, b"", foot | {"message": 1 << 30}, False)
    ]
    if rng.random() < 0.2:
        packets.append(torus.packet(head | {"type": torus.NACK, "address": 5}, b"", foot, False))
    elif message["type"] == torus.GET:
        head["channel"] = message["local_domain"]
        stray = head | {"type": torus.GET_DATA, "address": (message["local"] + message["bytes"]) % (1 << 48)}
        packets.append(torus.packet(stray, b"x" * 1, foot, False))
        done = 0
        while done < message["bytes"] or done == 0:
            at = message["local"] + done
            size = min(message["bytes"] - done, 4096 - at % 4096)
            data = head | {"type": torus.GET_DATA, "address": at}
            packets.append(torus.packet(data, rng.randbytes(size), foot, False))
            done += size
            if not size:
                break
    else:
        half = message["bytes"] // 2
        for size in (half, message["bytes"] - half) if half else (message["bytes"],):
            packets.append(torus.packet(head | {"type": torus.DONE, "address": size}, b"", foot, False))
    for packet in packets:
        host.receive(packet)
    await host.settled(0)


@cocotb.test()
async def a_silent_partner_times_out(dut):
    """A message without DONE fails with timed_out; a later DONE is unexpected."""
    node = interface()
    host = Host(dut, node, 5)
    await host.start(timeout=600)
    d = model.Descriptor(torus.PUT, (1, 1, 0), 40, 0x5000, flags=model.ACK | model.INLINE, payload=bytes(40))
    node.post(d, host.memory)
    host.post(d)
    now = 0
    while not host.events() and now < 5000:
        dut.now.value = now
        now += 1
        await RisingEdge(dut.clk)
    node.fail(node.open[0], model.TIMED_OUT)
    assert now > 600
    late = {"x": 5, "y": 1, "z": 1, "type": torus.DONE, "address": 40}
    packet = torus.packet(late, b"", {"source_x": 1, "source_y": 1, "flags": torus.LAST}, False)
    host.receive(packet)
    await host.settled(1)
    host.compare()


@cocotb.test()
async def long_messages_fill_the_link(dut):
    """Payload words per cycle of messages of 16 KB: sent from memory, and received to the last write."""
    node = interface()
    host = Host(dut, node, 7)
    await host.start()
    local = {"local": BASE + 5, "local_domain": DOMAIN}
    packets = []
    for number in range(2):
        d = model.Descriptor(torus.PUT, (1, 1, 0), 1 << 14, 0x10_0000, message=number, **local)
        packets += node.post(d, host.memory)
        host.post(d)
    began = host.router.now
    await host.settled(8)
    assert host.router.packets[0] == packets
    sent = host.router.tails[0][-1] - host.router.heads[0][0]
    first = host.router.heads[0][0] - began
    begin = host.router.now
    for number in range(6):
        head = {"channel": OTHER, "type": torus.PUT, "address": 0x10_1000} | dict(zip("xyz", ME, strict=True))
        packet = torus.packet(head, bytes(4096), {"message": number, "flags": 2}, False)
        host.receive(packet, number & 1)
    await host.settled(8)
    received = host.written - begin
    print(f"cycles: first word {first}, 8 packets sent {sent}, 6 packets received {received}")
    assert 8 * 256 / sent > 0.9
    # A word per cycle; the last packet of each channel is stored before it is written.
    assert received < 6 * 258 + 2 * 256 + 150
    host.compare()


@cocotb.test()
async def the_receiver_does_not_wait_for_the_router(dut):
    """While the router takes nothing, all packets are written; their DONE packets follow later."""
    host = Host(dut, interface(), 11)
    await host.start()
    host.router.holds = True
    packets, sent = 300, 256  # credit of 512 words: 256 DONE packets
    for number in range(packets):
        head = {"channel": OTHER, "type": torus.PUT, "address": 0x10_1000} | dict(zip("xyz", ME, strict=True))
        foot = {"message": number, "source_x": 1, "flags": torus.LAST | torus.ACK}
        packet = torus.packet(head, bytes(16), foot, False)
        host.receive(packet, number & 1)
    await host.settled(sent)
    host.compare()
    assert [len(p) for p in host.router.packets] == [0, sent]
    host.router.holds = False
    await host.settled(packets)
    assert [len(p) for p in host.router.packets] == [0, packets]


@cocotb.test()
@cocotb.parametrize(size=[256, 512, 1024, 4096])
async def puts_of_one_packet(dut, size):
    """Link cycles of PUT messages of one packet, sent from memory and received on one channel."""
    messages = 14
    host = Host(dut, interface(), size)
    await host.start()
    expected = []
    for number in range(messages):
        d = model.Descriptor(*(torus.PUT, (1, 1, 0), size, 0x10_0000, BASE, OTHER, DOMAIN), message=number)
        expected += host.model.post(d, host.memory)
        host.post(d)
    await host.settled(messages)
    assert host.router.packets[0] == expected
    tails = host.router.tails[0]
    sent = (tails[-1] - tails[3]) / (messages - 4)
    for number in range(messages):
        head = {"channel": OTHER, "type": torus.PUT, "address": 0x10_1000} | dict(zip("xyz", ME, strict=True))
        packet = torus.packet(head, bytes(size), {"message": number, "flags": 2}, False)
        host.receive(packet)
    await host.settled(messages)
    host.compare()
    ends = host.slave.ended
    received = (ends[-1] - ends[-messages + 3]) / (messages - 4)
    words = size // 16 + 2
    print(f"{size} B, {words} link words: cycles sent {sent:.1f}, received {received:.1f}")
    assert sent < words + 4
    assert received < 1.05 * words


@pytest.mark.parametrize("count", [12, 60])
def test_rdma(count):
    simulate("rdma", "test_rdma", env={"NANET_MESSAGES": str(count)})
