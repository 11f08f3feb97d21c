# SPDX-License-Identifier: SHL-2.1
"""Bench of axis_crossing: frames between a MAC and a card with separate clocks."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from simulate import simulate


class Bench:
    """Both sides; frames are byte strings."""

    def __init__(self, dut, card_ps, rx_ps, tx_ps):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.lanes = len(dut.s_axis_rx_tkeep)
        self.received, self.sent, self.gaps, self.hurried = [], [], 0, 0
        dut.s_axis_rx_tvalid.value = dut.tx_tvalid.value = dut.m_axis_tx_tready.value = 0
        self.slowest = max(card_ps, rx_ps, tx_ps)
        for clock, period in ((dut.clk, card_ps), (dut.mac_rx_clk, rx_ps), (dut.mac_tx_clk, tx_ps)):
            cocotb.start_soon(Clock(clock, period, "ps").start())

    async def start(self):
        dut = self.dut
        for reset in (dut.rst, dut.mac_rx_rst, dut.mac_tx_rst):
            reset.value = 1
        await Timer(8 * self.slowest, "ps")
        for reset in (dut.rst, dut.mac_rx_rst, dut.mac_tx_rst):
            reset.value = 0
        await Timer(4 * self.slowest, "ps")
        cocotb.start_soon(self.watch_card())
        cocotb.start_soon(self.watch_mac())

    def words(self, frame):
        for at in range(0, len(frame), self.lanes):
            part = frame[at : at + self.lanes]
            keep = (1 << len(part)) - 1
            yield int.from_bytes(part, "little"), keep, at + self.lanes >= len(frame)

    def join(self, data, keep):
        raw = int(data.value).to_bytes(self.lanes, "little")
        return raw[: int(keep.value).bit_count()]

    async def receive(self, frame, bad=False):
        """Send a frame from the MAC without an inner gap, followed by the interframe gap."""
        dut = self.dut
        for data, keep, last in self.words(frame):
            dut.s_axis_rx_tvalid.value, dut.s_axis_rx_tdata.value = 1, data
            dut.s_axis_rx_tkeep.value, dut.s_axis_rx_tlast.value = keep, int(last)
            dut.s_axis_rx_tuser.value = int(last and bad)
            await RisingEdge(dut.mac_rx_clk)
        dut.s_axis_rx_tvalid.value = 0
        for _ in range(24 // self.lanes):
            await RisingEdge(dut.mac_rx_clk)

    async def send(self, frame):
        """Send a frame from the card with pauses."""
        dut = self.dut
        for data, keep, last in self.words(frame):
            while self.rng.random() < 0.2:
                await RisingEdge(dut.clk)
            dut.tx_tvalid.value, dut.tx_tdata.value = 1, data
            dut.tx_tkeep.value, dut.tx_tlast.value = keep, int(last)
            await RisingEdge(dut.clk)
            while not int(dut.tx_tready.value):
                await RisingEdge(dut.clk)
            dut.tx_tvalid.value = 0

    async def watch_card(self):
        dut, frame = self.dut, b""
        while True:
            await RisingEdge(dut.clk)
            if not int(dut.rx_tvalid.value):
                continue
            frame += self.join(dut.rx_tdata, dut.rx_tkeep)
            if int(dut.rx_tlast.value):
                self.received.append((frame, bool(int(dut.rx_tuser.value))))
                frame = b""

    async def watch_pauses(self):
        """Check for a pause after each bad frame."""
        dut, bad = self.dut, False
        while True:
            await RisingEdge(dut.clk)
            valid = int(dut.rx_tvalid.value)
            self.hurried += bool(bad and valid)
            bad = valid and int(dut.rx_tlast.value) and int(dut.rx_tuser.value)

    async def watch_mac(self):
        """Model of a MAC with random pauses between frames; within a frame every word must be ready."""
        dut, frame = self.dut, b""
        while True:
            dut.m_axis_tx_tready.value = ready = int(bool(frame) or self.rng.random() < 0.5)
            await RisingEdge(dut.mac_tx_clk)
            if not int(dut.m_axis_tx_tvalid.value):
                self.gaps += bool(frame)
                continue
            if ready:
                frame += self.join(dut.m_axis_tx_tdata, dut.m_axis_tx_tkeep)
                if int(dut.m_axis_tx_tlast.value):
                    self.sent.append(frame)
                    frame = b""


def frames(rng, count, lanes):
    sizes = [rng.choice([1, 8, 60, 61, 64, 65, 300, 1514 if lanes == 8 else 200]) for _ in range(count)]
    return [rng.randbytes(size) for size in sizes]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(
    ("clocks", ((6400, 6400, 6400), (6400, 6402, 8000), (4000, 8000, 6400), (6400, 8000, 4000)))
)
async def frames_pass_both_ways(dut, clocks):
    """Whole frames in order, without gaps towards the MAC, for faster and slower cards with pauses."""
    bench = Bench(dut, *clocks)
    await bench.start()
    rng = bench.rng
    ins, outs = frames(rng, 25, bench.lanes), frames(rng, 25, bench.lanes)
    bad = [rng.random() < 0.2 for _ in ins]

    async def bring():
        for frame, wrong in zip(ins, bad, strict=True):
            await bench.receive(frame, wrong)

    bringing = cocotb.start_soon(bring())
    for frame in outs:
        await bench.send(frame)
    await bringing
    while len(bench.sent) < len(outs):
        await RisingEdge(dut.mac_tx_clk)
    await Timer(20 * bench.slowest, "ps")
    assert bench.received == list(zip(ins, bad, strict=True))
    assert bench.sent == outs and not bench.gaps


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def a_card_that_is_too_slow_gets_no_wrong_frame(dut):
    """Overflow: frames that do not fit are cut or dropped and flagged as bad; all others are whole."""
    bench = Bench(dut, 20_000, 6400, 6400)
    await bench.start()
    ins = [bench.rng.randbytes(bench.lanes * bench.rng.choice([8, 25, 110])) for _ in range(40)]
    for frame in ins:
        await bench.receive(frame)
    await Timer(200 * bench.slowest, "ps")
    assert len(bench.received) == len(ins)
    assert {bad for _, bad in bench.received} == {False, True}
    for frame, (taken, bad) in zip(ins, bench.received, strict=True):
        assert frame.startswith(taken[:-1]) if bad else frame == taken
    # The next frame after an idle phase is whole.
    await bench.receive(ins[0][: 8 * bench.lanes])
    await Timer(60 * bench.slowest, "ps")
    assert bench.received[-1] == (ins[0][: 8 * bench.lanes], False)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def each_dropped_frame_is_reported(dut):
    """Short frames while the ends of earlier ones wait: one end word for each dropped frame, then a pause."""
    bench = Bench(dut, 150_000 if len(dut.s_axis_rx_tkeep) == 8 else 500_000, 6400, 6400)
    await bench.start()
    ins = [
        bench.rng.randbytes(bench.lanes * count)
        for count in (110, *(bench.rng.randint(8, 12) for _ in range(30)))
    ]
    cocotb.start_soon(bench.watch_pauses())
    for frame in ins:
        await bench.receive(frame)
    await Timer(100 * bench.slowest, "ps")
    assert len(bench.received) == len(ins)
    assert sum(bad and len(taken) == 1 for taken, bad in bench.received) > 5
    for frame, (taken, bad) in zip(ins, bench.received, strict=True):
        assert frame.startswith(taken[:-1]) if bad else frame == taken
    assert not bench.hurried


@pytest.mark.parametrize(("width", "tx"), [(64, 256), (8, 2048)])
def test_axis_crossing(width, tx):
    simulate("axis_crossing", "test_axis_crossing", {"MAC_W": width, "TX_DEPTH": tx})
