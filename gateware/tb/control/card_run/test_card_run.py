# SPDX-License-Identifier: SHL-2.1
"""Bench of card_run: whole frames and no pending request at start and stop; full reset before each start."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset
from simulate import simulate

CLEAR = 20  # CLEAR_CYCLES
RESET = 16


class Bench:
    """Free-running MACs, DMA requests in flight, and monitors of the stream's outputs."""

    def __init__(self, dut, rng: random.Random):
        self.dut, self.rng = dut, rng
        self.channels = len(dut.rx_tvalid)
        self.cycle = 0
        self.on = self.receive = self.busy = 0
        self.traffic = 0.5  # share of cycles with a request from the stream
        self.answers = True  # memory completes requests in flight
        self.within = [0] * self.channels  # remaining words of the current frame
        self.frames = [[] for _ in range(self.channels)]  # current frame: whether its words are accepted
        self.done: list[list[bool]] = []
        self.writing = 0  # remaining words of the current write
        self.reading = False
        self.writes = self.reads = 0  # in flight
        self.seen: list[dict[str, int]] = []

    async def start(self) -> None:
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
        for name in (
            "on",
            "receive",
            "rx_tvalid",
            "rx_tlast",
            "tx_busy",
            "wr_valid_in",
            "wr_ready",
            "wr_last",
        ):
            getattr(dut, name).value = 0
        for name in (
            "wr_done_valid",
            "rd_valid_in",
            "rd_ready",
            "rd_data_valid",
            "rd_data_ready",
            "rd_data_last",
        ):
            getattr(dut, name).value = 0
        dut.cleared.value = 1
        await reset(dut)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, rng = self.dut, self.rng
        asks_write = asks_read = False
        while True:
            dut.on.value, dut.receive.value, dut.tx_busy.value = self.on, self.receive, self.busy
            valid = last = 0
            for c in range(self.channels):
                if rng.random() < 0.7:
                    if not self.within[c]:
                        self.within[c] = rng.randint(1, 6)
                    valid |= 1 << c
                    last |= (self.within[c] == 1) << c
            dut.rx_tvalid.value, dut.rx_tlast.value = valid, last
            asks_write = asks_write or rng.random() < self.traffic
            if asks_write and not self.writing:
                self.writing = rng.randint(1, 4)
            pauses = asks_write and rng.random() < 0.2  # between two words
            dut.wr_valid_in.value, dut.wr_last.value = int(asks_write and not pauses), int(self.writing == 1)
            dut.wr_ready.value = int(rng.random() < 0.6)
            asks_read = asks_read or rng.random() < self.traffic
            dut.rd_valid_in.value = int(asks_read)
            dut.rd_ready.value = int(rng.random() < 0.6)
            completes = self.answers and self.writes and rng.random() < 0.3
            answers = self.answers and self.reads and rng.random() < 0.3
            dut.wr_done_valid.value = int(bool(completes))
            dut.rd_data_valid.value, dut.rd_data_ready.value = int(bool(answers)), 1
            dut.rd_data_last.value = int(bool(answers))
            await FallingEdge(dut.clk)
            await ReadOnly()
            see = ("ready", "running", "stopped", "core_rst", "tx_stop", "wr_pass", "rd_pass")
            now = {name: int(getattr(dut, name).value) for name in see}
            now |= {"writes": self.writes, "reads": self.reads, "write": self.writing, "read": int(asks_read)}
            before = self.seen[-1] if self.seen else None
            # Requests are not withdrawn, and none begins after the stop.
            for kind in ("wr", "rd"):
                opens = now[f"{kind}_pass"] and not now["running"]
                assert not (opens and before and not before[f"{kind}_pass"]), (
                    "a request begins after the stop"
                )
            if before and before["shown_read"]:
                assert now["rd_pass"], "a read was withdrawn"
            if before and before["within_write"]:
                assert now["wr_pass"], "a write was truncated"
            taken = int(dut.rx_take.value)
            for c in range(self.channels):
                if valid >> c & 1:
                    if not self.frames[c]:
                        assert bool(taken >> c & 1) == bool(now["ready"] and self.receive)
                    self.frames[c].append(bool(taken >> c & 1))
                    if last >> c & 1:
                        self.done.append(self.frames[c])
                        self.frames[c] = []
                    self.within[c] -= 1
            wrote = int(dut.wr_valid_in.value) and now["wr_pass"] and int(dut.wr_ready.value)
            shows_write = int(dut.wr_valid_in.value) and now["wr_pass"]
            within = bool(before and before["within_write"]) or bool(shows_write)
            if wrote:
                self.writing -= 1
                if not self.writing:
                    self.writes, asks_write, within = self.writes + 1, False, False
            now["within_write"] = within
            read = asks_read and now["rd_pass"] and int(dut.rd_ready.value)
            now["shown_read"] = asks_read and now["rd_pass"] and not read
            if read:
                self.reads, asks_read = self.reads + 1, False
            self.writes -= bool(completes)
            self.reads -= bool(answers)
            if now["core_rst"]:  # the stream drops its requests
                asks_write = asks_read = False
                self.writing = 0
            self.seen.append(now)
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def until(self, name: str, value: int, cycles: int = 1000) -> int:
        """Wait until an output has a value; return the number of cycles."""
        for waited in range(cycles):
            await RisingEdge(self.dut.clk)
            if self.seen[-1][name] == value:
                return waited
        raise AssertionError(f"{name} is not {value}")

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk)


@cocotb.test()
async def starts_and_stops_whole(dut):
    """Switch on and off many times at random, with frames and requests in flight."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    taken = 0
    for _ in range(25):
        assert bench.seen == [] or (bench.seen[-1]["stopped"] and bench.seen[-1]["core_rst"])
        begins = len(bench.done)
        bench.on, bench.receive = 1, rng.randrange(2)
        await bench.until("running", 1)
        if rng.random() < 0.8:
            await bench.until("ready", 1)
            bench.receive = 1
            await bench.cycles(rng.randint(0, 60))
            if rng.random() < 0.5:
                bench.receive = 0
                await bench.cycles(rng.randint(0, 20))
        bench.on = bench.receive = 0
        mark = len(bench.seen)
        await bench.until("stopped", 1)
        quiet = [now for now in bench.seen[mark:] if not now["running"]]
        # Reset waits until nothing is in flight, and lasts long enough.
        assert all(not now["writes"] and not now["reads"] for now in quiet if now["core_rst"])
        assert sum(now["core_rst"] for now in quiet) >= RESET
        assert all(now["tx_stop"] for now in quiet)
        for words in bench.done[begins:]:
            # Each frame is whole or absent, except for one cut by a reset, whose end is dropped.
            assert sorted(words, reverse=True) == words
            taken += all(words)
        await bench.cycles(rng.randint(0, 12))
    assert taken > 40


@cocotb.test()
async def takes_the_documented_cycles(dut):
    """Latency: ready after the memories clear; off: a reset of 16 cycles, stopped with its last cycle."""
    bench = Bench(dut, random.Random(cocotb.RANDOM_SEED))
    await bench.start()
    bench.traffic = 0
    await bench.cycles(5)
    bench.on = bench.receive = 1
    await bench.until("running", 1)
    assert await bench.until("ready", 1) == CLEAR
    # A part is not yet cleared: no frame.
    dut.cleared.value = 0
    await bench.cycles(30)
    assert not bench.seen[-1]["ready"]
    begun = len(bench.done)
    await bench.cycles(30)
    assert len(bench.done) > begun and not any(any(words) for words in bench.done[begun:])
    dut.cleared.value = 1
    await bench.cycles(20)
    bench.on = 0
    await bench.until("running", 0)
    assert await bench.until("core_rst", 1) == 1
    since = len(bench.seen)
    await bench.until("stopped", 1)
    assert len(bench.seen) - since == RESET - 1
    # Switched on during a reset: starts after it.
    bench.on = 1
    await bench.until("running", 1)
    bench.on = 0
    await bench.until("core_rst", 1)
    bench.on = 1
    await bench.until("running", 1)
    assert not bench.seen[-1]["ready"]


@cocotb.test()
async def waits_for_what_is_under_way(dut):
    """Unanswered requests and a frame to a MAC each delay the reset."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    for what in ("memory", "mac"):
        bench.on = 1
        await bench.until("ready", 1)
        bench.answers = False
        await bench.cycles(20)
        assert bench.writes and bench.reads
        if what == "mac":
            bench.answers, bench.busy = True, 1 << bench.channels - 1
        bench.on = 0
        await bench.cycles(200)
        assert not bench.seen[-1]["running"] and not bench.seen[-1]["core_rst"]
        if what == "mac":
            assert not bench.writes and not bench.reads
        bench.answers, bench.busy = True, 0
        await bench.until("stopped", 1)


@pytest.mark.parametrize("channels", [1, 2])
def test_card_run(channels):
    simulate("card_run", "test_card_run", {"CHANNELS": channels, "CLEAR_CYCLES": CLEAR})
