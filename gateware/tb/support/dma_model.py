# SPDX-License-Identifier: SHL-2.1
"""Memory and master models for the card's internal DMA interface (doc/dma.md)."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

PAGE = 4096


@dataclass(frozen=True)
class Command:
    """DMA request: bus address, bytes, tag."""

    addr: int
    length: int
    tag: int = 0

    def pack(self) -> int:
        """Return the packed dma_cmd_t."""
        return (self.addr << 24) | (self.length << 8) | self.tag

    @staticmethod
    def unpack(value: int) -> Command:
        """Unpack a dma_cmd_t."""
        return Command(value >> 24, (value >> 8) & 0xFFFF, value & 0xFF)


class Memory:
    """Sparse 64-bit address space; unwritten bytes read as zero."""

    def __init__(self) -> None:
        self.pages: dict[int, bytearray] = defaultdict(lambda: bytearray(PAGE))

    def write(self, addr: int, data: bytes) -> None:
        """Store bytes."""
        for i, byte in enumerate(data):
            self.pages[(addr + i) // PAGE][(addr + i) % PAGE] = byte

    def read(self, addr: int, length: int) -> bytes:
        """Load bytes."""
        return bytes(self.pages[(addr + i) // PAGE][(addr + i) % PAGE] for i in range(length))

    def word(self, addr: int, bytes_: int = 4) -> int:
        """Load a little-endian integer."""
        return int.from_bytes(self.read(addr, bytes_), "little")


def known(vaddr: int) -> bool:
    """Return whether a test page has a translation; one page in seven has none."""
    return (vaddr >> 12) % 7 != 0


def physical(vaddr: int) -> int:
    """Return the translation of a virtual address."""
    return (vaddr >> 12 ^ 0x5A5A5) << 12 | vaddr & 0xFFF


class MemorySlave:
    """Serves <prefix>wr_* and <prefix>rd_* from a Memory, with configurable pauses, latency and errors.

    `writes` lists every finished write as (addr, bytes) in order, `ended` its cycle; `error` returns whether
    a read fails. Each cycle after a write signals its completion with probability `done_rate`.
    """

    def __init__(
        self,
        dut,
        memory: Memory | None = None,
        prefix: str = "",
        rate: float = 1.0,
        latency: tuple[int, int] = (1, 1),
        rng: random.Random | None = None,
        write: bool = True,
        read: bool = True,
        done_rate: float = 1.0,
    ) -> None:
        self.dut, self.memory = dut, memory or Memory()
        self.rate, self.latency, self.done_rate = rate, latency, done_rate
        self.rng = rng or random.Random(0)
        self.writes: list[tuple[int, bytes]] = []
        self.ended: list[int] = []  # cycle of the last word of each write
        self.reads: list[Command] = []
        self.error: Callable[[Command], bool] = lambda _: False
        self.holds = False  # set: reads get no response
        self._signal = lambda name: getattr(dut, prefix + name)
        self._queue: deque[tuple[int, Command]] = deque()
        self._cycle = 0
        self.tasks = [cocotb.start_soon(self._run_write())] if write else []
        if read:
            self.tasks += [cocotb.start_soon(self._run_ask()), cocotb.start_soon(self._run_answer())]

    def stop(self) -> None:
        """Stop the memory's tasks."""
        for task in self.tasks:
            task.cancel()

    async def _run_write(self) -> None:
        s = self._signal
        width = len(s("wr_data")) // 8
        collected, first = bytearray(), None
        finished: deque[Command] = deque()
        done = [s(name) for name in self._done_names()]
        while True:
            willing = self.rng.random() < self.rate
            s("wr_ready").value = int(willing)
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            if willing and int(s("wr_valid").value):
                command = Command.unpack(int(s("wr_cmd").value))
                first = first or command
                assert command == first, "the command changed within a request"
                collected += int(s("wr_data").value).to_bytes(width, "little")
                last = len(collected) >= command.length
                assert int(s("wr_last").value) == int(last), "wr_last does not match the length"
                if last:
                    data = bytes(collected[: command.length])
                    self.memory.write(command.addr, data)
                    self.writes.append((command.addr, data))
                    self.ended.append(self._cycle)
                    finished.append(command)
                    first = None
                    collected.clear()
            await RisingEdge(self.dut.clk)
            says = bool(finished) and (self.done_rate >= 1 or self.rng.random() < self.done_rate)
            command = finished.popleft() if says else Command(0, 0)
            for signal, value in zip(done, (int(says), command.tag, 0), strict=False):
                signal.value = value

    def _done_names(self) -> list[str]:
        """Return the existing names of wr_done_*; some masters use only the first."""
        names = []
        for name in ("wr_done_valid", "wr_done_tag", "wr_done_error"):
            try:
                self._signal(name)
            except AttributeError:
                break
            names.append(name)
        return names

    async def _run_ask(self) -> None:
        s = self._signal
        while True:
            willing = self.rng.random() < self.rate and len(self._queue) < 64
            s("rd_ready").value = int(willing)
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            if willing and int(s("rd_valid").value):
                command = Command.unpack(int(s("rd_cmd").value))
                assert command.addr % 4 == 0 and 1 <= command.length <= 16384
                self._queue.append((self._cycle + self.rng.randint(*self.latency), command))
                self.reads.append(command)
            await RisingEdge(self.dut.clk)
            self._cycle += 1

    async def _run_answer(self) -> None:
        s = self._signal
        width = len(s("rd_data")) // 8
        s("rd_data_valid").value = 0
        tagged = True
        try:
            s("rd_data_tag")
        except AttributeError:
            tagged = False
        while True:
            if not self._queue or self._queue[0][0] > self._cycle or self.holds:
                await RisingEdge(self.dut.clk)
                continue
            command = self._queue.popleft()[1]
            # Reads return the memory's contents at this point: after the request, before the response.
            data = self.memory.read(command.addr, command.length)
            failed = self.error(command)
            words = -(-command.length // width)
            for i in range(words):
                while self.rng.random() >= self.rate:
                    await RisingEdge(self.dut.clk)
                chunk = data[i * width : (i + 1) * width]
                s("rd_data").value = int.from_bytes(chunk, "little")
                if tagged:
                    s("rd_data_tag").value = command.tag
                s("rd_data_last").value = int(i == words - 1)
                s("rd_data_error").value = int(failed and i == words - 1)
                s("rd_data_valid").value = 1
                taken = False
                while not taken:
                    await FallingEdge(self.dut.clk)  # after the edge, ready follows the next turn
                    taken = bool(int(s("rd_data_ready").value))
                    await RisingEdge(self.dut.clk)
                s("rd_data_valid").value = 0


class Master:
    """DMA master that keeps several requests in flight."""

    def __init__(self, dut, rate: float, rng: random.Random, write: bool = True, read: bool = True):
        self.dut, self.rate, self.rng = dut, rate, rng
        self.writing, self.reading = write, read
        self.width = len(dut.wr_data if write else dut.rd_data) // 8
        self.writes: list[tuple[Command, bytes]] = []
        self.asks: list[Command] = []
        self.done: list[tuple[int, int]] = []
        self.answers: list[tuple[int, bytes, int]] = []
        runs = [self._write] * write + [self._ask] * read + [self._take]
        self.tasks = [cocotb.start_soon(run()) for run in runs]

    async def _idle(self) -> None:
        while self.rng.random() >= self.rate:
            await RisingEdge(self.dut.clk)

    async def _write(self) -> None:
        dut = self.dut
        dut.wr_valid.value = 0
        while True:
            if not self.writes:
                await RisingEdge(dut.clk)
                continue
            command, data = self.writes.pop(0)
            for at in range(0, len(data), self.width):
                await self._idle()
                dut.wr_cmd.value = command.pack()
                part = data[at : at + self.width]
                dut.wr_data.value = int.from_bytes(
                    part + self.rng.randbytes(self.width - len(part)), "little"
                )
                dut.wr_last.value = int(at + self.width >= len(data))
                dut.wr_valid.value = 1
                while True:
                    await FallingEdge(dut.clk)
                    taken = int(dut.wr_ready.value)
                    await RisingEdge(dut.clk)
                    if taken:
                        break
                dut.wr_valid.value = 0

    async def _ask(self) -> None:
        dut = self.dut
        dut.rd_valid.value = 0
        while True:
            if not self.asks:
                await RisingEdge(dut.clk)
                continue
            await self._idle()
            dut.rd_cmd.value = self.asks.pop(0).pack()
            dut.rd_valid.value = 1
            while True:
                await FallingEdge(dut.clk)
                taken = int(dut.rd_ready.value)
                await RisingEdge(dut.clk)
                if taken:
                    break
            dut.rd_valid.value = 0

    async def _take(self) -> None:
        dut, part = self.dut, bytearray()
        while True:
            willing = self.rng.random() < self.rate
            if self.reading:
                dut.rd_data_ready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            if self.writing and int(dut.wr_done_valid.value):
                self.done.append((int(dut.wr_done_tag.value), int(dut.wr_done_error.value)))
            if self.reading and willing and int(dut.rd_data_valid.value):
                part += int(dut.rd_data.value).to_bytes(self.width, "little")
                if int(dut.rd_data_last.value):
                    tag, error = int(dut.rd_data_tag.value), int(dut.rd_data_error.value)
                    self.answers.append((tag, bytes(part), error))
                    part.clear()
            await RisingEdge(dut.clk)


def pack_event(
    kind: int,
    n: int = 0,
    stream: int = 0,
    flags: int = 0,
    buffer: int = 0,
    bytes_: int = 0,
    frame: int = 0,
    stamp: int = 0,
) -> int:
    """Return a packed event_t without its lap."""
    value = kind | (stream << 8) | (flags << 16) | (buffer << 32) | (bytes_ << 64) | (frame << 96)
    return value | (stamp << 128) | (n << 192)


@dataclass(frozen=True)
class Event:
    """Entry of the event queue as stored in memory."""

    kind: int
    stream: int
    flags: int
    buffer: int
    bytes: int
    frame: int
    stamp: int
    n: int
    lap: int

    @staticmethod
    def unpack(data: bytes) -> Event:
        """Unpack 32 B."""
        word = lambda at, size: int.from_bytes(data[at : at + size], "little")  # noqa: E731
        return Event(
            word(0, 1),
            word(1, 1),
            word(2, 2),
            word(4, 4),
            word(8, 4),
            word(12, 4),
            word(16, 8),
            word(24, 4),
            word(28, 4),
        )


class EventReader:
    """Consumer of an event queue: an entry is valid when its lap matches (contract::poll_event)."""

    def __init__(self, memory: Memory, base: int, finished: int, log2_entries: int):
        self.memory, self.base, self.finished = memory, base, finished
        self.log2, self.k = log2_entries, 0
        self.events: list[Event] = []

    def poll(self) -> bool:
        """Return the next event, or None."""
        at = self.base + 32 * (self.k & ((1 << self.log2) - 1))
        event = Event.unpack(self.memory.read(at, 32))
        ahead = event.lap - ((self.k >> self.log2) + 1)
        assert ahead <= 0, "an unfinished entry was overwritten"
        if ahead < 0:
            return False
        self.events.append(event)
        self.k += 1
        return True

    def publish(self) -> None:
        """Publish the number of finished entries."""
        self.memory.write(self.finished, self.k.to_bytes(8, "little"))
