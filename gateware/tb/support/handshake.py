# SPDX-License-Identifier: SHL-2.1
"""Drivers and monitors of valid/ready channels with random pauses; clock and reset of a bench."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Event, FallingEdge, ReadOnly, RisingEdge


def start_clock(dut, period_ps: int = 6400) -> None:
    """Start clk (default 156.25 MHz); set all inputs named *_valid or *_ready to 0."""
    for signal in dut:
        name = signal._name
        if name.endswith(("_valid", "_tvalid", "_ready", "_tready")):
            try:
                signal.value = 0
            except Exception:  # an output, or not writable
                continue
    cocotb.start_soon(Clock(dut.clk, period_ps, "ps").start())


async def reset(dut, cycles: int = 4) -> None:
    """Hold rst for some cycles."""
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


async def wait(dut, what, cycles: int = 60_000) -> None:
    """Wait until `what()` is true; AssertionError after `cycles` cycles."""
    for _ in range(cycles):
        if what():
            return
        await RisingEdge(dut.clk)
    assert what()


class Stepped:
    """Base of cycle-accurate benches: samples all signals before a clock edge, drives inputs after it."""

    async def run(self) -> None:
        """Run forever; `now` counts cycles."""
        while True:
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            self.look()
            await RisingEdge(self.dut.clk)
            self.now += 1
            self.drive()


def signed_words(signal, bits: int = 64) -> list[int]:
    """Return the signed words of a packed array, element 0 first."""
    value, half = int(signal.value), 1 << bits - 1
    return [(value >> at & 2 * half - 1 ^ half) - half for at in range(0, len(signal), bits)]


def _signals(dut, prefix: str, fields: Iterable[str]) -> dict[str, object]:
    return {field: getattr(dut, f"{prefix}_{field}" if prefix else field) for field in fields}


def _handshake(dut, prefix: str, name: str) -> object:
    """Return the signal <prefix>_<name>, or <prefix>_t<name> of an AXI stream."""
    plain = f"{prefix}_{name}"
    return getattr(dut, plain if hasattr(dut, plain) else f"{prefix}_t{name}")


class Source:
    """Driver of <prefix>_valid and its fields; each cycle delays a word with probability 1 - rate."""

    def __init__(
        self,
        dut,
        prefix: str,
        fields: Sequence[str],
        rate: float = 1.0,
        rng: random.Random | None = None,
        ready: bool = True,
    ):
        self.clk, self.rate = dut.clk, rate
        self.rng = rng or random.Random(0)
        self.fields = _signals(dut, prefix, fields)
        self.valid = _handshake(dut, prefix, "valid")
        self.ready = _handshake(dut, prefix, "ready") if ready else None
        self.valid.value = 0
        self.queue: list[Mapping[str, int]] = []
        self.wake, self.idle = Event(), Event()
        self.idle.set()
        self.task = cocotb.start_soon(self._run())

    def put(self, words: Iterable[Mapping[str, int]]) -> None:
        """Queue words."""
        self.queue.extend(words)
        if self.queue:
            self.idle.clear()
            self.wake.set()

    async def send_all(self, words: Iterable[Mapping[str, int]]) -> None:
        """Queue words and return at once."""
        self.put(words)

    async def drained(self) -> None:
        """Wait until all queued words are accepted."""
        await self.idle.wait()

    def stop(self) -> None:
        """Stop the driver."""
        self.task.cancel()
        self.valid.value = 0

    async def _run(self) -> None:
        at = 0
        while True:
            if at == len(self.queue):
                self.queue.clear()
                at = 0
                self.wake.clear()
                self.idle.set()
                await self.wake.wait()
            while self.rng.random() >= self.rate:
                await RisingEdge(self.clk)
            word = self.queue[at]
            for name, value in word.items():
                self.fields[name].value = value
            self.valid.value = 1
            while True:
                await RisingEdge(self.clk)
                if self.ready is None or int(self.ready.value):
                    break
            self.valid.value = 0
            at += 1


class Sink:
    """Monitor that accepts words with probability `rate` per cycle; checks that offered words are stable."""

    def __init__(
        self,
        dut,
        prefix: str,
        fields: Sequence[str],
        rate: float = 1.0,
        rng: random.Random | None = None,
        ready: bool = True,
    ):
        self.clk, self.rate = dut.clk, rate
        self.rng = rng or random.Random(0)
        self.fields = _signals(dut, prefix, fields)
        self.valid = _handshake(dut, prefix, "valid")
        self.ready = _handshake(dut, prefix, "ready") if ready else None
        self.words: list[dict[str, int]] = []
        self.arrived = Event()
        self.task = cocotb.start_soon(self._run())

    async def take(self, count: int, cycles: int = 200_000) -> list[dict[str, int]]:
        """Wait for `count` words and return them."""
        for _ in range(cycles):
            if len(self.words) >= count:
                break
            await RisingEdge(self.clk)
        assert len(self.words) >= count, f"only {len(self.words)} of {count} words received"
        taken, self.words[:] = self.words[:count], self.words[count:]
        return taken

    def stop(self) -> None:
        """Stop the monitor."""
        self.task.cancel()
        if self.ready is not None:
            self.ready.value = 0

    async def _run(self) -> None:
        offered = None
        while True:
            willing = self.rate >= 1 or self.rng.random() < self.rate
            if self.ready is not None:
                self.ready.value = int(willing)
            await FallingEdge(self.clk)
            await ReadOnly()
            valid = int(self.valid.value)
            word = {name: int(signal.value) for name, signal in self.fields.items()} if valid else None
            if offered is not None:
                assert word == offered, "a word was withdrawn or changed before it was accepted"
            if valid and (willing or self.ready is None):
                self.words.append(word)
                offered = None
            else:
                offered = word if self.ready is not None else None
            await RisingEdge(self.clk)
