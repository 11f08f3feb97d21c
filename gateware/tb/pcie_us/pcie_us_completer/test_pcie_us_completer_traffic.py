# SPDX-License-Identifier: SHL-2.1
"""Bench of pcie_us_completer under traffic: accesses dword by dword in order, one completion per request."""

import random
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import Sink, Source, reset
from simulate import simulate

READ, WRITE, IO_READ, IO_WRITE, ATOMIC, MESSAGE = 0, 1, 2, 3, 4, 12
SUCCESSFUL, UNSUPPORTED, ABORT = 0, 1, 4
MAX_READ = 16


@dataclass
class Request:
    """Request by PG213, table "Completer Request Descriptor Format"."""

    kind: int
    addr: int
    length: int  # dwords
    first_be: int = 15
    last_be: int = 15
    data: tuple[int, ...] = ()
    tag: int = 0
    requester: int = 0
    bar: int = 0
    traffic: int = 0
    attributes: int = 0
    discontinue: int = 0

    @property
    def enables(self) -> list[int]:
        if self.length == 1:
            return [self.first_be]
        return [self.first_be, *[15] * (self.length - 2), self.last_be]

    def beats(self, lanes: int):
        head = self.addr & ~3 | self.length << 64 | self.kind << 75 | self.requester << 80 | self.tag << 96
        head |= self.bar << 112 | self.traffic << 121 | self.attributes << 124
        cells = [head >> 32 * i & 0xFFFF_FFFF for i in range(4)] + list(self.data)
        last_be = self.last_be if self.length > 1 else 0
        for at in range(0, len(cells), lanes):
            part = cells[at : at + lanes]
            yield {
                "tdata": sum(cell << 32 * i for i, cell in enumerate(part)),
                "tkeep": (1 << len(part)) - 1,
                "tlast": int(at + lanes >= len(cells)),
                "tuser": (self.first_be | last_be << 4 if at == 0 else 0) | self.discontinue << 41,
            }


def completion(request: Request, status: int, registers: dict[int, int]) -> tuple[int, list[int]]:
    """Return the three header dwords as a number, by PG213 and the base specification, and the data."""
    enabled = [4 * i + b for i, e in enumerate(request.enables) for b in range(4) if e >> b & 1]
    # A read without enabled bytes counts 1 and begins at the dword.
    count = enabled[-1] - enabled[0] + 1 if enabled else 1
    lower = request.addr + (enabled[0] if enabled else 0) & 0x7F
    good = status == SUCCESSFUL
    if request.kind != READ:  # byte count not specified
        count, lower = None, None
    head = [lower, count, request.length if good else 0, status, request.requester, request.tag]
    head += [request.traffic, request.attributes]
    data = []
    if good:
        for i, enable in enumerate(request.enables):
            address = (request.addr & ~3) + 4 * i
            data.append(registers.get(address, 0) if enable else 0)
    return head, data


def unpacked(words: list[int], kind: int) -> tuple[list[int | None], list[int]]:
    head = words[0] | words[1] << 32 | words[2] << 64
    field = lambda at, bits: head >> at & (1 << bits) - 1  # noqa: E731
    got = [field(0, 7), field(16, 13), field(32, 11), field(43, 3), field(48, 16), field(64, 8)]
    got += [field(89, 3), field(92, 3)]
    if kind != READ:
        got[:2] = [None, None]
    return got, words[3:]


class Bench:
    """The block's two streams, and registers with delays."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0, wait: int = 0):
        self.dut, self.rng, self.wait = dut, rng, wait
        self.lanes = len(dut.cq_tkeep)
        self.registers: dict[int, int] = {}
        self.accesses: list[tuple] = []  # (cycle, write, bar, addr, enable, data)
        self.unsupported = 0
        self.cycle = 0
        self.taken: list[int] = []  # cycle of each input beat
        self.shown: list[int] = []  # cycle of each completion's first beat
        cocotb.start_soon(Clock(dut.clk, 4000, "ps").start())
        for name in ("cq_tvalid", "cc_tready", "reg_acknowledge", "reg_rdata"):
            getattr(dut, name).value = 0
        self.rate = rate

    async def start(self) -> None:
        await reset(self.dut)
        fields = ("tdata", "tkeep", "tlast", "tuser")
        self.source = Source(self.dut, "cq", fields, self.rate, self.rng)
        self.sink = Sink(self.dut, "cc", fields[:3], self.rate, self.rng)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, left, sending = self.dut, None, False
        while True:
            await FallingEdge(dut.clk)
            answers = False
            if int(dut.reg_request.value):
                left = self.rng.randint(0, self.wait) if left is None else left
                answers = left == 0
                left = None if answers else left - 1
            write, addr = int(dut.reg_write.value), int(dut.reg_addr.value)
            dut.reg_acknowledge.value = int(answers)
            dut.reg_rdata.value = self.registers.get(addr, 0) if answers else self.rng.getrandbits(32)
            await ReadOnly()
            if answers:
                enable, data = int(dut.reg_enable.value), int(dut.reg_wdata.value)
                mask = sum(0xFF << 8 * b for b in range(4) if enable >> b & 1)
                if write:
                    self.registers[addr] = self.registers.get(addr, 0) & ~mask | data & mask
                self.accesses.append(
                    (self.cycle, write, int(dut.reg_bar.value), addr, enable, data & mask if write else 0)
                )
            self.unsupported += int(dut.count_unsupported.value)
            if int(dut.cq_tvalid.value) and int(dut.cq_tready.value):
                self.taken.append(self.cycle)
            if int(dut.cc_tvalid.value) and not sending:
                self.shown.append(self.cycle)
            sending = bool(int(dut.cc_tvalid.value)) and not (
                int(dut.cc_tready.value) and int(dut.cc_tlast.value)
            )
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def quiet(self, cycles: int = 20_000) -> None:
        """Wait until all input is accepted and the module is idle."""
        still, at = 0, None
        for _ in range(cycles):
            now = (len(self.accesses), len(self.sink.words), len(self.taken))
            still, at = (still + 1 if now == at else 0), now
            if still > 30 + 2 * self.wait and self.source.idle.is_set():
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError("the module does not become idle")

    def completions(self) -> list[list[int]]:
        """Return the received completions as dwords."""
        found, words = [], []
        for beat in self.sink.words:
            count = beat["tkeep"].bit_count()
            assert beat["tkeep"] == (1 << count) - 1 and (beat["tlast"] or count == self.lanes)
            words += [beat["tdata"] >> 32 * i & 0xFFFF_FFFF for i in range(count)]
            if beat["tlast"]:
                found.append(words)
                words = []
        assert not words
        return found


def some_request(rng: random.Random) -> Request:
    kind = rng.choice([READ] * 5 + [WRITE] * 5 + [IO_READ, IO_WRITE, ATOMIC, MESSAGE])
    length = rng.choice([1, 1, 2, 3, rng.randint(1, MAX_READ), rng.randint(1, 40)])
    if kind in (IO_READ, IO_WRITE):
        length = 1
    if length == 1:
        first, last = rng.randrange(16), 0
    elif length == 2:
        first, last = rng.randint(1, 15), rng.randint(1, 15)
    else:
        first, last = rng.choice([15, 14, 12, 8]), rng.choice([15, 7, 3, 1])
    with_data = kind in (WRITE, IO_WRITE, ATOMIC, MESSAGE)
    return Request(
        kind,
        4 * rng.randrange(0, 400),
        length,
        first,
        last,
        tuple(rng.getrandbits(32) for _ in range(length)) if with_data else (),
        rng.getrandbits(8),
        rng.getrandbits(16),
        rng.randrange(6),
        rng.getrandbits(3),
        rng.getrandbits(3),
        int(kind == WRITE and rng.random() < 0.1),
    )


@cocotb.test()
@cocotb.parametrize((("rate", "wait"), [(1.0, 0), (0.5, 4)]))
async def every_request_as_it_should_be(dut, rate, wait):
    """Random requests of all kinds against Python registers: accesses, completions and counts."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, rate, wait)
    await bench.start()
    registers, accesses, completions, refused = {}, [], [], 0
    for _ in range(150):
        request = some_request(rng)
        bench.source.put(request.beats(bench.lanes))
        status = None
        if request.kind == WRITE:
            if request.discontinue:
                refused += 1
            else:
                for i, (data, enable) in enumerate(zip(request.data, request.enables, strict=True)):
                    mask = sum(0xFF << 8 * b for b in range(4) if enable >> b & 1)
                    at = request.addr + 4 * i
                    registers[at] = registers.get(at, 0) & ~mask | data & mask
                    if enable:
                        accesses.append((1, request.bar, at, enable, data & mask))
        elif request.kind == READ and request.length <= MAX_READ:
            status = SUCCESSFUL
            accesses += [
                (0, request.bar, request.addr + 4 * i, enable, 0)
                for i, enable in enumerate(request.enables)
                if enable
            ]
        else:
            refused += 1
            if request.kind != MESSAGE:
                status = ABORT if request.kind == READ else UNSUPPORTED
        if status is not None:
            completions.append((request.kind, *completion(request, status, registers)))
    await bench.quiet()
    assert [access[1:] for access in bench.accesses] == accesses
    got = [unpacked(words, want[0]) for words, want in zip(bench.completions(), completions, strict=True)]
    assert got == [(head, data) for _, head, data in completions]
    assert bench.unsupported == refused
    bench.source.stop()
    bench.sink.stop()
    bench.task.cancel()
    await RisingEdge(dut.clk)


@cocotb.test()
async def takes_the_documented_cycles(dut):
    """Latency: first access 2 cycles after a request's last beat, next ones every 2; completion 3 after."""
    bench = Bench(dut, random.Random(cocotb.RANDOM_SEED))
    await bench.start()
    bench.registers = {4 * i: 0x100 + i for i in range(64)}
    for length in (1, 4, 16):
        for kind in (READ, WRITE):
            begun, shown = len(bench.accesses), len(bench.shown)
            data = tuple(range(length)) if kind == WRITE else ()
            bench.source.put(Request(kind, 8, length, data=data).beats(bench.lanes))
            await bench.quiet()
            cycles = [access[0] for access in bench.accesses[begun:]]
            last = bench.taken[-1]
            if kind == READ:
                assert cycles == [last + 2 + 2 * i for i in range(length)]
                assert bench.shown[shown] == cycles[-1] + 3
            elif bench.lanes == 8:
                # Accesses per beat; the first beat has four dwords.
                assert cycles[:4] == [cycles[0] + 2 * i for i in range(len(cycles[:4]))]
                assert cycles[0] == last + (2 if length <= 4 else 1)
                assert len(bench.shown) == shown


@pytest.mark.parametrize("width", [128, 256])
def test_pcie_us_completer_traffic(width):
    simulate("pcie_us_completer", "test_pcie_us_completer_traffic", {"DATA_W": width})
