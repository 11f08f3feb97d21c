# SPDX-License-Identifier: SHL-2.1
"""Bench of mac_port: received frames go to the streams unchanged; theirs leave whole and in turn."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset
from simulate import simulate

STREAMS = 2


def words(frame: bytes, width: int) -> list[tuple[int, int, int]]:
    """Return the (data, keep, last) words of `width` B of a frame."""
    parts = [frame[at : at + width] for at in range(0, len(frame), width)]
    return [
        (int.from_bytes(part, "little"), (1 << len(part)) - 1, int(i == len(parts) - 1))
        for i, part in enumerate(parts)
    ]


class Bench:
    """MAC side, and on the stream side ARP replies and send paths."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0):
        self.dut, self.rng, self.rate = dut, rng, rate
        self.width = len(dut.m_axis_tx_tkeep)
        self.given = {(name, s): [] for name in ("arp", "send") for s in range(STREAMS)}
        self.out: list[bytes] = []
        self.out_at: list[int] = []  # cycles of the sent words
        self.first_at: dict[tuple[str, int], int] = {}  # cycle of a frame's first offer
        self.busy: list[int] = []
        self.to_receive: list[tuple[int, int, int, int] | None] = []  # words; None: a pause
        self.received: list[tuple[int, bytes, int, int]] = []  # (cycle, bytes, last, bad)
        self.fed: list[int] = []
        self.cycle = 0

    async def start(self) -> None:
        dut = self.dut
        for clock in (dut.clk, dut.rx_clk):
            cocotb.start_soon(Clock(clock, 6400, "ps").start())
        dut.rx_rst.value = 0
        for name in ("s_axis_rx_tvalid", "s_axis_rx_tuser", "s_axis_arp_tvalid", "s_axis_send_tvalid"):
            getattr(dut, name).value = 0
        dut.m_axis_tx_tready.value = dut.stop.value = 0
        dut.stream_rst.value = (1 << STREAMS) - 1
        await reset(dut)
        dut.stream_rst.value = 0
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, part = self.dut, bytearray()
        now = {key: [] for key in self.given}
        while True:
            feed = self.to_receive.pop(0) if self.to_receive else None
            dut.s_axis_rx_tvalid.value = int(feed is not None)
            if feed:
                dut.s_axis_rx_tdata.value, dut.s_axis_rx_tkeep.value = feed[0], feed[1]
                dut.s_axis_rx_tlast.value, dut.s_axis_rx_tuser.value = feed[2], feed[3]
                self.fed.append(self.cycle)
            for name, width in (("arp", 8), ("send", self.width)):
                for s in range(STREAMS):
                    if not now[name, s] and self.given[name, s]:
                        now[name, s] = words(self.given[name, s].pop(0), width)
                        self.first_at[name, s] = self.cycle
                heads = [now[name, s][0] if now[name, s] else (0, 0, 0) for s in range(STREAMS)]
                valid = sum(bool(now[name, s]) << s for s in range(STREAMS))
                getattr(dut, f"s_axis_{name}_tvalid").value = valid
                for field, index, bits in (("tdata", 0, 8 * width), ("tkeep", 1, width), ("tlast", 2, 1)):
                    value = sum(head[index] << bits * s for s, head in enumerate(heads))
                    getattr(dut, f"s_axis_{name}_{field}").value = value
            willing = self.rng.random() < self.rate
            dut.m_axis_tx_tready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            valid = int(dut.m_axis_tx_tvalid.value)
            assert valid or not part, "a gap inside a frame"
            if valid and willing:
                keep = int(dut.m_axis_tx_tkeep.value)
                part += int(dut.m_axis_tx_tdata.value).to_bytes(self.width, "little")[: keep.bit_count()]
                self.out_at.append(self.cycle)
                if int(dut.m_axis_tx_tlast.value):
                    self.out.append(bytes(part))
                    part.clear()
            self.busy.append(int(dut.busy.value))
            for name in ("arp", "send"):
                ready = int(getattr(dut, f"s_axis_{name}_tready").value)
                for s in range(STREAMS):
                    if ready >> s & 1 and now[name, s]:
                        now[name, s].pop(0)
            if int(dut.m_axis_rx_tvalid.value):
                keep = int(dut.m_axis_rx_tkeep.value)
                data = int(dut.m_axis_rx_tdata.value).to_bytes(8, "little")[: keep.bit_count()]
                last = int(dut.m_axis_rx_tlast.value)
                bad = int(dut.m_axis_rx_tuser.value) if last else 0
                self.received.append((self.cycle, data, last, bad))
            await RisingEdge(dut.clk)
            self.cycle += 1


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.6])
async def frames_leave_whole_and_in_turn(dut, rate):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, rate)
    await bench.start()
    frames = {
        key: [bytes([i]) + rng.randbytes(rng.randrange(20, 90)) for _ in range(12)]
        for i, key in enumerate(bench.given)
    }
    for key, mine in frames.items():
        bench.given[key].extend(mine)
    while len(bench.out) < 12 * len(frames):
        await RisingEdge(dut.clk)
        assert bench.cycle < 20_000
    for i, key in enumerate(frames):
        assert [frame for frame in bench.out if frame[0] == i] == frames[key]
    # All streams wait all the time: none is served twice before the others.
    for at in range(0, len(bench.out), len(frames)):
        assert {frame[0] for frame in bench.out[at : at + len(frames)]} == set(range(len(frames)))
    # A frame starts one cycle after its first word; the MAC's words are consecutive.
    if rate == 1.0:
        for key in frames:
            bench.out.clear()
            bench.out_at.clear()
            bench.given[key].append(bytes(60))
            await ClockCycles(dut.clk, 80)
            first = bench.first_at[key] + 1
            assert bench.out == [bytes(60)]
            assert bench.out_at == list(range(first, first - (-60 // bench.width)))
    bench.task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def a_stream_that_stops_ends_its_frame(dut):
    """A stopped stream finishes its frame and begins no other; the other streams continue."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    for name in ("arp", "send"):
        frame = {"arp": b"arp" * 20, "send": b"send" * 15}[name]
        bench.out.clear()
        bench.given[name, 1].extend([frame, frame])
        await ClockCycles(dut.clk, 5)
        dut.stop.value = 2
        await ClockCycles(dut.clk, 2)
        assert bench.busy[-1] == 2
        bench.given["send", 0].append(b"other" * 12)
        await ClockCycles(dut.clk, 200)
        assert bench.out == [frame, b"other" * 12] and bench.busy[-1] == 0
        dut.stop.value = 0
        await ClockCycles(dut.clk, 100)
        assert bench.out[2:] == [frame]


@cocotb.test()
@cocotb.parametrize(pauses=[0.0, 0.4])
async def received_frames_go_to_the_streams(dut, pauses):
    """64-bit words, bytes and verdict unchanged; a byte-wide MAC adds a cycle after a word's last byte."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    frames = [(rng.randbytes(rng.randrange(14, 100)), int(rng.random() < 0.2)) for _ in range(40)]
    for frame, bad in frames:
        for data, keep, last in words(frame, bench.width):
            while rng.random() < pauses:
                bench.to_receive.append(None)
            bench.to_receive.append((data, keep, last, bad and last))
    while bench.to_receive:
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4)
    want = [(part, bad) for frame, bad in frames for part in words(frame, 8)]
    assert len(bench.received) == len(want)
    closing, fed = [], iter(bench.fed)  # cycle of each word's last byte
    for frame, _ in frames:
        for at in range(0, len(frame), 8):
            count = min(8, len(frame) - at) if bench.width == 1 else 1
            closing.append([next(fed) for _ in range(count)][-1])
    later = int(bench.width == 1)
    for (cycle, data, last, bad), ((number, keep, is_last), is_bad), at in zip(
        bench.received, want, closing, strict=True
    ):
        assert data == number.to_bytes(8, "little")[: keep.bit_count()]
        assert last == is_last and bad == (is_bad and is_last) and cycle == at + later
    bench.task.cancel()
    await RisingEdge(dut.clk)


@pytest.mark.parametrize("width", [8, 64])
def test_mac_port(width):
    simulate("mac_port", "test_mac_port", {"STREAMS": STREAMS, "MAC_W": width})
