# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_card with two streams on the same MACs, one in each gather mode, without interaction."""

import cocotb
import mgp
import pytest
import reference_mgp
from card_host import BURST_BEGINS, BURST_ENDS, ERROR, PAGE, SEND_DONE, Layout, Setup, account
from cocotb.triggers import ClockCycles
from frames import Host, arp_frame, udp_frame
from simulate import simulate
from test_nanet_card import Bench, burst, host_of
from test_nanet_card_packets import PACKETS, PacketBench, PacketSetup
from transmit_model import IP, MAC, PORT

# Memory of the second stream: other bus addresses, the first stream's virtual addresses.
OTHER = Layout(
    pages=0x2234_5678_9000,
    queue=0x12_0000_0000,
    finished=0x13_0000_0040,
    ring=0x14_0000_0000,
    send=0x19_0000_0000,
    pool=range(1 << 34, 1 << 35, PAGE),
)


def two(dut, first, second, **options):
    """Return a bench for each stream of the card."""
    bench = Bench(dut, first, **options)
    return bench, PacketBench(dut, second, wake=60, think=10, stream=1, beside=bench, layout=OTHER)


def mixed(rng, *parts):
    """Merge the parts at random; each keeps its order."""
    left = [list(part) for part in parts]
    out = []
    while any(left):
        out.append(rng.choices(left, [len(part) for part in left])[0].pop(0))
    return out


def long_packets(rng, frames):
    """Return packets of these frames of burst 3, without markers."""
    return [
        mgp.packet(rng, board, frame, 1 + frame, events=19, flags=reference_mgp.FIXED, burst=3)
        for frame in frames
        for board in range(4)
    ]


def questions(wire, channel):
    """Return the senders' addresses of the ARP replies on a channel."""
    return [int.from_bytes(frame[28:32], "big") for frame in wire.out[channel] if frame[12:14] == b"\x08\x06"]


def consume(bench, sent):
    """Run a stream's consumer until it has all payloads and its owed answers are sent."""
    owed = len(sent) // PACKETS

    def done():
        kinds = [event.kind for event in bench.host.events]
        return len(bench.payloads()) == len(sent) and kinds.count(SEND_DONE) == owed == len(bench.own())

    return cocotb.start_soon(bench.host.consume(done, limit=3000))


async def whole(bench, sent):
    """Check the stream in gather mode `packets`: payloads, answers in order, account."""
    bench.whole(sent)
    owed = len(sent) // PACKETS
    assert bench.own() == [bench.frame_of(bench.host.posted[n].payload) for n in range(owed)]
    counters = await bench.counters()
    assert counters["frames.packets_used"] == counters["frames.packets_in"] == len(sent)
    assert counters["frames.frames_answered"] == owed and not counters["lost.socket_overflow"]
    assert all(left == right for left, right in account(counters).values())
    return counters


def total(counters, verdict):
    return sum(counters[f"verdicts[{channel}].{verdict}"] for channel in range(2))


@cocotb.test(timeout_time=6, timeout_unit="ms")
async def side_by_side(dut):
    """Frames of both streams, and of neither, on both channels; then one stream stops and restarts."""
    first, second = Setup(buffers=64), PacketSetup(port=PORT + 1, stream=5)
    a, b = two(dut, first, second, memory_rate=0.7, latency=(10, 60), tx_rate=0.9, wake=100, think=20)
    await a.start()
    await b.start()
    rng, wire = a.rng, a.wire
    for stream, bench in enumerate((a, b)):
        assert await bench.host.read("id") == int.from_bytes(b"NNET", "little")
        assert await bench.host.read("built") >> 24 == stream << 4 | 2
    packets, sent = burst(rng, 7, 8), long_packets(rng, range(9))
    for data in packets:
        a.tell(data)
    a.sent = len(packets)
    neither = [(c, udp_frame(bytes(90), host_of(c), dst_port=PORT + 2)) for c in (0, 1) * 6]
    asked = [(c, arp_frame(host_of(c))) for c in (0, 1, 0, 1)]
    parts = [map(a.on_wire, packets), map(b.on_wire, sent), neither, asked]
    wire.put(mixed(rng, *parts), gap=20)
    consumer = consume(b, sent)
    await wire.idle.wait()
    await a.finish()
    await consumer
    assert a.own() == a.answers()
    counters = await a.compare()
    assert total(counters, "other_port") == len(sent) + len(neither)
    counters = await whole(b, sent)
    assert total(counters, "other_port") == len(packets) + len(neither)
    assert {event.stream for event in a.host.events} == {0}
    assert {event.stream for event in b.host.events} == {5}
    # Both streams have the address: only one replies.
    assert [questions(wire, c) for c in range(2)] == [[IP] * 2, [IP + 1] * 2]
    assert len(wire.out[0]) == len(a.own()) + len(b.own()) + 2 and len(wire.out[1]) == 2

    # The first stops within a burst and restarts; the second continues.
    more = long_packets(rng, range(9, 24))
    wire.put(mixed(rng, map(a.on_wire, burst(rng, 9, 6)), map(b.on_wire, more)), gap=20)
    consumer = consume(b, sent + more)
    await ClockCycles(dut.clk, 900)
    await a.host.look()
    assert any(event.kind == BURST_BEGINS and event.n > 0 for event in a.host.events)
    await a.host.write("control", 0)
    while not await a.host.read("status") & 4:
        await ClockCycles(dut.clk, 20)
    assert len(b.payloads()) < len(sent + more)
    wire.put([(c, arp_frame(host_of(c))) for c in range(2)], gap=60)
    await wire.idle.wait()
    await a.again()
    await a.send(burst(rng, 4, 6), gap=20)
    wire.put([(c, arp_frame(host_of(c))) for c in range(2)], gap=60)
    await a.finish()
    await consumer
    assert a.own() == a.answers()
    await a.compare()
    await whole(b, sent + more)
    # The second replied while the first was off.
    assert [questions(wire, c) for c in range(2)] == [[IP] * 4, [IP + 1] * 4]


@cocotb.test(timeout_time=6, timeout_unit="ms")
async def one_stalls(dut):
    """The first stream's consumer stalls: it overruns; the other, with its own address, loses nothing."""
    count = 16
    first, second = Setup(buffers=count), PacketSetup(port=PORT + 1, ip=IP + 16)
    a, b = two(dut, first, second)
    await a.start()
    await b.start()
    rng, wire, host = a.rng, a.wire, a.host
    host.stalled = True
    packets = burst(rng, 3, count + 10, room=(16,), packets=(1,))
    sent = long_packets(rng, range(18))
    asked = [(c, arp_frame(Host(mac=MAC + c, ip=IP + further + c))) for c in range(2) for further in (0, 16)]
    await a.send(packets[:4], to_model=False, gap=40)
    parts = [map(a.on_wire, packets[4:-4]), map(b.on_wire, sent), asked]
    wire.put(mixed(rng, *parts), gap=3)
    consumer = consume(b, sent)
    await wire.idle.wait()
    await consumer
    counters = await whole(b, sent)
    assert total(counters, "other_ip") == len(packets) - 4
    assert not host.events and not a.own()
    for channel in range(2):
        assert sorted(questions(wire, channel)) == [IP + channel, IP + 16 + channel]
    host.stalled = False
    await host.consume(lambda: len(a.own()) == count + 10)
    await a.send(packets[-4:], to_model=False)
    await host.consume(lambda: any(event.kind == BURST_ENDS for event in host.events))
    assert sum(event.bytes for event in host.events if event.kind == ERROR) == 10
    want = [a.frame_of(host.posted[n].payload) for n in range(count)]
    assert a.own() == want + [a.frame_of(host.late_packet(n)) for n in range(count, count + 10)]
    counters = await a.counters()
    assert counters["frames.frames_overrun"] == 10 and counters["frames.frames_answered"] == count
    assert all(left == right for left, right in account(counters).values())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cases", [["one_stalls"], None], ids=["short", "all"])
def test_nanet_card_streams(cases):
    parameters = {"STREAMS": 2, "MAX_BUFFERS": 256, "TLB_SETS": 16}
    simulate("nanet_card", "test_nanet_card_streams", parameters, testcase=cases)
