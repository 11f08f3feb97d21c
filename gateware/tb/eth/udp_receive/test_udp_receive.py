# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive, the UDP receive parser: all kinds of frames with random pauses, against frames.py."""

import itertools
import logging
import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSource
from cocotbext.eth import EthMacFrame, EthMacRx
from frames import FILTER_BITS, VERDICTS, Filter, Host, arp_frame, judge, malformed, udp_frame
from handshake import reset, start_clock
from simulate import simulate

HOST = Host(
    filters=[
        Filter(),
        Filter(dst_port=4000, src_ip=0x0A000000, src_mask=0xFFFFFF00, src_port=40000),
        Filter(vlan=1, vlan_id=5, dst_ip=0xE0000001),
    ]
)


class Bench:
    """Module with a driver in front and monitors behind."""

    def __init__(self, dut):
        self.dut = dut
        self.datagrams, self.verdicts, self.arps = [], [], []

    async def start(self):
        start_clock(self.dut)
        self.dut.host.value = HOST.mac << 32 | HOST.ip
        self.dut.filter.value = sum(f.pack() << FILTER_BITS * i for i, f in enumerate(HOST.filters))
        self.dut.now.value = 0
        self.dut.s_axis_rx_tvalid.value = 0
        await reset(self.dut)
        cocotb.start_soon(self.monitor())

    async def monitor(self):
        dut, payload = self.dut, None
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.verdict_valid.value):
                self.verdicts.append(VERDICTS[int(dut.verdict.value)])
            if int(dut.arp_valid.value):
                value = int(dut.arp.value)
                self.arps.append((value >> 32, value & 0xFFFFFFFF))
            if int(dut.out_valid.value):
                count, last = int(dut.out_bytes.value), int(dut.out_last.value)
                if int(dut.out_first.value):
                    assert payload is None, "a datagram began before the end of the previous one"
                    payload = b""
                assert payload is not None, "a word outside a datagram"
                assert last or count == 8
                payload += int(dut.out_data.value).to_bytes(8, "little")[:count]
                if last:
                    info = int(dut.out_info.value)
                    verdict = VERDICTS[int(dut.out_verdict.value)]
                    fields = info >> 96, info >> 64 & 0xFFFFFFFF, info >> 48 & 0xFFFF, info >> 32 & 0xFFFF
                    self.datagrams.append((verdict, payload, *fields))
                    payload = None

    async def check(self, frames, cycles=200):
        """Wait for the end and compare all outputs with the reference."""
        await ClockCycles(self.dut.clk, cycles)
        expected = [judge(frame, HOST, bad) for frame, bad in frames]
        for (frame, _), want, got in zip(frames, expected, self.verdicts, strict=True):
            assert got == want.verdict, f"{got} for {want.verdict}: {frame.hex()}"
        want = [
            ("udp", e.payload, e.filter, e.src_ip, e.src_port, len(e.payload))
            for e in expected
            if e.verdict == "udp"
        ]
        good = [d for d in self.datagrams if d[0] == "udp"]
        assert len(good) == len(want)
        for one, other in zip(good, want, strict=True):
            assert one == other
        self.verdicts.clear()
        self.datagrams.clear()


def pauses(rng, share):
    return iter(lambda: rng.random() < share, None)


async def send(bench, frames, share, rng):
    source = AxiStreamSource(AxiStreamBus.from_prefix(bench.dut, "s_axis_rx"), bench.dut.clk, bench.dut.rst)
    source.log.setLevel(logging.WARNING)
    if share:
        source.set_pause_generator(pauses(rng, share))
    for frame, bad in frames:
        await source.send(AxiStreamFrame(frame, tuser=int(bad)))
    await source.wait()


@cocotb.test()
async def every_kind_of_frame(dut):
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    for share in (0, 0.3):
        frames = [(malformed(rng, HOST), rng.random() < 0.03) for _ in range(1000)]
        await send(bench, frames, share, rng)
        await bench.check(frames)


@cocotb.test()
async def a_verdict_each_without_gaps(dut):
    """One verdict per frame: back-to-back frames of one or two words between longer ones."""
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    frames = []
    for _ in range(300):
        some = [udp_frame(rng.randbytes(18), HOST), malformed(rng, HOST), malformed(rng, HOST)[:17]]
        frames.append((rng.choice(some), rng.random() < 0.1))
        short = [malformed(rng, HOST)[: rng.choice([1, 8, 9, 14, 16])] for _ in range(rng.choice([1, 3, 20]))]
        frames += [(frame, rng.random() < 0.1) for frame in short]
    await send(bench, frames, 0, rng)
    await bench.check(frames)


@cocotb.test()
async def minimum_size_back_to_back(dut):
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    frames = []
    for size, options in itertools.product(range(0, 24), (b"", bytes(4))):
        frames += [(udp_frame(rng.randbytes(size), HOST, options=options), False)] * 2
    await send(bench, frames, 0, rng)
    await bench.check(frames)


@cocotb.test()
async def frames_of_a_word_are_counted_a_cycle_apart(dut):
    """Frames as `axis_crossing` reports dropped ones: a single bad byte, a pause, the next frame."""
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    frames = []
    for _ in range(300):
        frames += [(b"\0", True)] * rng.randint(0, 12)
        frames.append((udp_frame(rng.randbytes(rng.randint(0, 60)), HOST), rng.random() < 0.5))
    for frame, bad in frames:
        for at in range(0, len(frame), 8):
            part = frame[at : at + 8]
            dut.s_axis_rx_tdata.value = int.from_bytes(part, "little")
            dut.s_axis_rx_tkeep.value = (1 << len(part)) - 1
            dut.s_axis_rx_tlast.value = int(at + 8 >= len(frame))
            dut.s_axis_rx_tuser.value = int(at + 8 >= len(frame) and bad)
            dut.s_axis_rx_tvalid.value = 1
            await ClockCycles(dut.clk, 1)
        dut.s_axis_rx_tvalid.value = 0
        await ClockCycles(dut.clk, 1 if bad else rng.randint(1, 3))
    await bench.check(frames)


@cocotb.test()
async def every_length_and_checksum_carry(dut):
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    frames = [(udp_frame(rng.randbytes(size), HOST, src_port=40001), False) for size in range(1440, 1473)]
    frames += [(udp_frame(bytes([value]) * size, HOST), False) for value in (0, 255) for size in (1472, 8972)]
    frames += [
        (udp_frame(b"\xff" * 8970 + b"\xfe\xff", HOST, udp_checksum_error=error), False) for error in (0, 1)
    ]
    frames += [(udp_frame(rng.randbytes(30), HOST, dst_port=4000, src_port=p), False) for p in (40000, 1)]
    group = {"vlan": 0x6005, "dst_ip": 0xE0000001, "dst_mac": 0x01005E000001}
    frames += [(udp_frame(rng.randbytes(size), HOST, **group), False) for size in range(0, 20)]
    await send(bench, frames, 0, rng)
    await bench.check(frames)


@cocotb.test()
async def arp_requests(dut):
    bench = Bench(dut)
    await bench.start()
    frames = [
        arp_frame(HOST),
        arp_frame(HOST, dst_mac=HOST.mac, mac=0x020304050607, ip=0x0A0000FE),
        arp_frame(HOST, operation=2),  # replies get no reply
        arp_frame(HOST, target=0x0A000003),
        arp_frame(HOST, mac=HOST.mac),  # the card's own packet
        arp_frame(HOST, ip=HOST.ip),  # address conflict: the sender claims the card's address
        arp_frame(HOST, mac=0x01005E000001),  # the reply would go to a group address
        arp_frame(HOST)[:41],
        arp_frame(HOST)[:42],
    ]
    frames = [(frame, False) for frame in frames] + [(arp_frame(HOST), True)]
    await send(bench, frames, 0, random.Random(1))
    await bench.check(frames)
    first = (0x02_00_0A_00_00_09, 0x0A000009)
    assert bench.arps == [first, (0x020304050607, 0x0A0000FE), first]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def paced_by_a_mac(dut):
    """Frames with preamble and gap at 10 Gb/s, with the timing of the MAC."""
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(cocotb.RANDOM_SEED)
    mac = EthMacRx(AxiStreamBus.from_prefix(dut, "s_axis_rx"), dut.clk, dut.rst, speed=10e9)
    frames = [(udp_frame(rng.randbytes(rng.choice([18, 64, 1472])), HOST), False) for _ in range(60)]
    mac.log.setLevel(logging.WARNING)
    for frame, _ in frames:
        await mac.send(EthMacFrame(frame))
    while len(bench.verdicts) < len(frames):
        await ClockCycles(dut.clk, 100)
    await bench.check(frames)


def test_udp_receive():
    simulate("udp_receive", "test_udp_receive", {"FILTERS": len(HOST.filters)})
