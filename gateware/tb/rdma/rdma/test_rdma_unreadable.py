# SPDX-License-Identifier: SHL-2.1
"""Bench of rdma: payload and entries of rings that cannot be read."""

import random

import cocotb
import rdma_model as model
import reference_torus as torus
from cocotb.triggers import ClockCycles
from rdma_host import EVENTS, GETS, PUTS, Host
from simulate import simulate
from test_rdma import BASE, DOMAIN, ME, get_of_16_bytes, interface, kind_of


def spoil_pages(host: Host, seed: int) -> None:
    """Random bytes in all pages; pages 1 and 2 of a buffer cannot be read, page 5 has no translation."""
    rng, pages = random.Random(seed), host.model.pages
    for page in pages.values():
        host.memory.write(page * 4096, rng.randbytes(4096))
    del pages[DOMAIN, BASE // 4096 + 5]
    bad = {pages[DOMAIN, BASE // 4096 + page] for page in (1, 2)}
    host.slave.error = lambda command: command.addr // 4096 in bad


@cocotb.test()
async def unreadable_get_data_end_with_one_nack(dut):
    """Failed reads and a page without translation: one NACK behind all data; other GETs get theirs whole."""
    node = interface()
    host = Host(dut, node, 13)
    await host.start()
    spoil_pages(host, 13)
    # Offset, bytes, unreadable packets: none, first and second, last, one before the lost page, none.
    gets = [
        *((0, 4096, ()), (0x1000, 3 * 4096, (0, 1)), (0, 4097, (1,)), (0x2000, 0x4000, (0,))),
        *((0x3000, 8192, ()), (0x5000, 100, ())),
    ]
    head = {"channel": DOMAIN, "type": torus.GET} | dict(zip("xyz", ME, strict=True))
    expected = {}
    for number, (offset, size, _) in enumerate(gets):
        request = torus.pack(torus.EXTENSION, reply_address=1 << 20, reply_channel=9, bytes=size)
        foot = {"message": number, "source_x": 2, "source_intra": 6, "flags": torus.LAST}
        packet = torus.packet(head | {"address": BASE + offset}, torus.to_bytes(request), foot, False)
        host.receive(packet)
    for number, (get, (_, _, failed)) in enumerate(zip(node.gets, gets, strict=True)):
        expected[number] = node.data_packets(get, host.memory, frozenset(failed))
    await host.settled(sum(map(len, expected.values())))
    host.compare()
    found = {number: [] for number in expected}
    for packet in host.router.packets[1]:
        found[torus.unpack(torus.FOOTER, packet[-1])["message"]].append(packet)
    assert found == expected
    kinds = [[kind_of(p) == torus.NACK for p in packets] for packets in found.values()]
    assert [sum(k) for k in kinds] == [0, 1, 1, 1, 0, 1] and all(not any(k[:-1]) for k in kinds)


@cocotb.test()
async def a_nack_ends_a_get(dut):
    """The requester of unreadable data gets a `failed` event with the reason, before any time-out."""
    node = interface()
    host = Host(dut, node, 17)
    await host.start(timeout=1 << 20)
    d = model.Descriptor(*(torus.GET, (1, 1, 0), 5000, 0x5000, BASE, 0x77, DOMAIN, 0, model.EVENT, 3))
    host.post(d)
    packets = node.post(d, host.memory)
    await host.settled(len(packets))
    head = dict(zip("xyz", ME, strict=True)) | {"intra": node.port}
    foot = {"message": 3, "source_x": 1, "source_y": 1, "flags": 0}
    data = head | {"channel": DOMAIN, "type": torus.GET_DATA, "address": BASE}
    damaged = torus.packet(data, bytes(4096), foot, False)
    damaged[-1] ^= 1 << 96
    nack = head | {"channel": 0x77, "type": torus.NACK, "address": model.OUT_OF_RANGE}
    for packet in (damaged, torus.packet(nack, b"", foot | {"flags": torus.LAST}, False)):
        host.receive(packet, 1)
    await host.settled(len(packets))
    host.compare()
    assert [event[:3] for event in host.events()] == [(model.FAILED, node.port, model.OUT_OF_RANGE)]
    assert node.counters == {"refused_1": 1, "refused_0": 1}


@cocotb.test()
async def unreadable_payload_ends_with_one_event(dut):
    """PUT without DONE: `failed` in place of `completed`, and no NACK; with DONE: the NACK of its packet."""
    node = interface()
    host = Host(dut, node, 29)
    host.log2_puts = 5
    await host.start()
    spoil_pages(host, 29)
    done, event = model.ACK, model.EVENT
    sent = []
    # Flags, offset, bytes, unreadable packets; the sixth reaches the lost page behind unreadable ones.
    for number, (flags, offset, size, failed) in enumerate(
        (
            *((event, 0, 3 * 4096, (1, 2)), (event, 0x3000, 8192, ()), (0, 0x1000, 64, (0,))),
            *((done | event, 0x2000, 4096 + 64, (0,)), (event, 0, 4097, (1,))),
            *((event, 0x2000, 4 * 4096, (0,)), (event, 0, 64, ()), (0, 0, 64, ())),
        )
    ):
        where = (torus.PUT, (1, 1, 0), size, 0x5000, BASE + offset, DOMAIN, DOMAIN)
        d = model.Descriptor(*where, flags=flags, message=number)
        sent += node.post(d, host.memory, frozenset(failed))
        host.post(d)
    await host.settled(len(sent))
    assert host.router.packets[0] == sent
    # Such packets arrive here: a source without DONE gets no NACK.
    head = dict(zip("xyz", ME, strict=True)) | {"channel": DOMAIN, "type": torus.PUT, "address": BASE}
    for flags in (torus.LAST, torus.LAST | torus.ACK):
        packet = torus.packet(head, bytes(64), {"message": 90, "source_x": 1, "flags": flags}, False)
        packet[-1] ^= model.SPOILED
        host.receive(packet)
    nack = dict(zip("xyz", ME, strict=True)) | {"intra": node.port, "channel": DOMAIN, "type": torus.NACK}
    foot = {"message": 3, "source_x": 1, "source_y": 1, "flags": torus.LAST}
    packet = torus.packet(nack | {"address": model.BAD_CRC}, b"", foot, False)
    host.receive(packet, 1)
    await host.settled(len(sent) + 1)
    host.compare()
    assert host.router.packets[1] == node.replies and len(node.replies) == 1
    events = {number: [e[0] for e in host.events() if e[6] == number] for number in range(8)}
    failed, completed = [model.FAILED], [model.COMPLETED]
    assert list(events.values()) == [*(failed, completed, failed, failed, failed, failed, completed), []]


@cocotb.test()
async def unreadable_entries_of_the_put_ring(dut):
    """Lost payload costs its message; a lost descriptor stops the ring until it is disabled, nothing else."""
    node = interface()
    host = Host(dut, node, 31)
    await host.start()
    sent = 0

    def post(number: int, size: int = 70) -> model.Descriptor:
        flags = model.INLINE | model.EVENT
        d = model.Descriptor(
            torus.PUT, (1, 1, 0), size, 0x5000, flags=flags, message=number, payload=bytes(range(size))
        )
        host.post(d)
        return d

    bad = {PUTS + 64 * entry for entry in (4, 9)}
    host.slave.error = lambda command: command.addr in bad
    for number in range(3):  # entries 0 to 2, 3 to 5, 6 to 8
        d = post(number)
        if number == 1:
            node.unreadable(torus.PUT, d)
        else:
            sent += len(node.post(d, host.memory))
    await host.settled(sent)
    node.unreadable(0)
    for number in (3, 4):
        post(number)
    await host.settled(sent)
    await ClockCycles(dut.clk, 400)
    # GETs of other nodes get their data.
    host.receive(get_of_16_bytes(8))
    await host.settled(sent + 1)
    host.compare()
    assert int(dut.idle.value) == 1
    # Put ring and event queue begin again at entry 0.
    dut.enable.value = 0
    host.posted = dut.put_posted.value = 0
    host.memory.write(PUTS, bytes(64 << host.log2_puts))
    host.memory.write(EVENTS, bytes(32 * len(node.events)))
    node.events.clear()
    bad.clear()
    await ClockCycles(dut.clk, 100)
    dut.enable.value = 1
    sent += len(node.post(post(5), host.memory))
    await host.settled(sent + 1)
    host.compare()


@cocotb.test()
async def unreadable_entries_of_the_get_ring_are_skipped(dut):
    """One event each; the GETs around them get their data."""
    node = interface()
    host = Host(dut, node, 37)
    await host.start()
    bad = {GETS + 32 * entry for entry in (1, 2, 5)}
    host.slave.error = lambda command: command.addr in bad
    for number in range(7):
        host.receive(get_of_16_bytes(number))
        if number in (1, 2, 5):
            node.unreadable(torus.GET_DATA)
    await host.settled(4)
    host.compare()
    assert [torus.unpack(torus.FOOTER, p[-1])["message"] for p in host.router.packets[1]] == [0, 3, 4, 6]


def test_rdma_unreadable():
    simulate("rdma", "test_rdma_unreadable")
