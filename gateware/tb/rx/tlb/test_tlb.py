# SPDX-License-Identifier: SHL-2.1
"""Bench of tlb against a dictionary: hit latency, miss storms, refused pages, invalidation, disabling."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from handshake import Sink, Source, reset, start_clock
from simulate import simulate

CLIENTS = 3


class Bench:
    """Clients in front, and firmware with a page table behind."""

    def __init__(self, dut, rng, pages, log2_page, delay=20):
        self.dut, self.rng, self.pages, self.log2, self.delay = dut, rng, pages, log2_page, delay
        self.misses = 0
        self.valid, self.vaddr = 0, [0] * CLIENTS
        self.answers = {client: [] for client in range(CLIENTS)}

    async def start(self, enable=1):
        start_clock(self.dut)
        self.dut.req_valid.value = 0
        self.dut.req_vaddr.value = 0
        self.dut.flush.value = 0
        self.dut.enable.value = enable
        self.dut.log2_page.value = self.log2
        await reset(self.dut)
        await ClockCycles(self.dut.clk, 80)
        self.fill = Source(self.dut, "fill", ["vaddr", "paddr", "ok"])
        cocotb.start_soon(self.firmware())
        cocotb.start_soon(self.monitor())

    def physical(self, vaddr):
        page = self.pages.get(vaddr >> self.log2)
        return None if page is None else page << self.log2 | vaddr & (1 << self.log2) - 1

    async def firmware(self):
        sink = Sink(self.dut, "miss", ["vaddr"], rate=0.3, rng=self.rng)
        while True:
            sink.rate = 0.3
            word = (await sink.take(1, 10**7))[0]
            sink.rate = 0.0  # accepts the next request only after the last response
            self.misses += 1
            await ClockCycles(self.dut.clk, self.rng.randrange(1, self.delay))
            physical = self.physical(word["vaddr"])
            self.fill.put([{"vaddr": word["vaddr"], "paddr": physical or 0, "ok": int(physical is not None)}])

    async def monitor(self):
        while True:
            await RisingEdge(self.dut.clk)
            valid = int(self.dut.resp_valid.value)
            for client in range(CLIENTS):
                if valid >> client & 1:
                    ok = int(self.dut.resp_ok.value)
                    self.answers[client].append(int(self.dut.resp_paddr.value) if ok else None)

    def drive(self):
        self.dut.req_vaddr.value = sum(vaddr << 64 * client for client, vaddr in enumerate(self.vaddr))
        self.dut.req_valid.value = self.valid

    async def ask(self, client, vaddr):
        """Send one request and return (response, cycles)."""
        self.vaddr[client] = vaddr
        self.valid |= 1 << client
        self.drive()
        cycles = 0
        while True:
            await RisingEdge(self.dut.clk)
            cycles += 1
            if int(self.dut.req_ready.value) >> client & 1:
                break
        self.valid &= ~(1 << client)
        self.drive()
        while not self.answers[client]:
            await RisingEdge(self.dut.clk)
            cycles += 1
        return self.answers[client].pop(0), cycles


def table(rng, count, log2_page):
    return {(0x7F0000000000 >> log2_page) + n: rng.getrandbits(40) for n in range(count)}


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def hits_in_few_cycles(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, table(rng, 64, 12), 12)
    await bench.start()
    worst = 0
    for lap in range(3):
        for page in bench.pages:
            vaddr = page << 12 | rng.randrange(4096) & ~15
            answer, cycles = await bench.ask(0, vaddr)
            assert answer == bench.physical(vaddr)
            if lap:
                worst = max(worst, cycles)
    assert bench.misses == 64
    assert worst <= 20
    dut._log.info("translation by hit: %d cycles at most", worst)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def miss_storm_from_all_clients(dut):
    """More pages than entries, all clients at once, some pages unknown to the firmware."""
    rng = random.Random(cocotb.RANDOM_SEED)
    entries = 4 * 2 ** len(dut.dut.clear_q)
    bench = Bench(dut, rng, table(rng, 3 * entries // 2, 21), 21)
    await bench.start()
    pages = [*bench.pages, 5, 6]

    async def client(number):
        for _ in range(150):
            vaddr = rng.choice(pages[: 12 if rng.random() < 0.7 else None]) << 21 | rng.randrange(1 << 21)
            answer, _ = await bench.ask(number, vaddr)
            assert answer == bench.physical(vaddr)

    tasks = [cocotb.start_soon(client(number)) for number in range(CLIENTS)]
    for task in tasks:
        await task
    assert bench.misses > 20


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def takes_back_and_flushes(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, table(rng, 8, 16), 16)
    await bench.start()
    page = next(iter(bench.pages))
    vaddr = page << 16 | 64
    assert (await bench.ask(1, vaddr))[0] == bench.physical(vaddr)
    del bench.pages[page]
    bench.fill.put([{"vaddr": vaddr, "paddr": 0, "ok": 0}])
    await ClockCycles(dut.clk, 12)
    assert (await bench.ask(1, vaddr))[0] is None
    bench.pages[page] = 77
    assert (await bench.ask(1, vaddr))[0] == 77 << 16 | 64
    bench.pages[page] = 78
    dut.flush.value = 1
    await RisingEdge(dut.clk)
    dut.flush.value = 0
    await ClockCycles(dut.clk, 80)
    assert (await bench.ask(1, vaddr))[0] == 78 << 16 | 64


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def off_requests_every_translation(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, table(rng, 4, 12), 12)
    await bench.start(enable=0)
    for _ in range(3):
        for page in bench.pages:
            assert (await bench.ask(2, page << 12))[0] == bench.physical(page << 12)
    assert bench.misses == 12


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def one_answer_serves_all_waiting_clients(dut):
    """Slow firmware: most clients repeat one page, another one requests different pages in between."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, table(rng, 40, 12), 12, delay=100)
    await bench.start(enable=0)
    first, *others = bench.pages

    async def client(number, pages):
        for page in pages:
            answer, _ = await bench.ask(number, page << 12)
            assert answer == bench.physical(page << 12)

    crowd = [cocotb.start_soon(client(number, [first] * 60)) for number in range(CLIENTS - 1)]
    await client(CLIENTS - 1, others)
    for task in crowd:
        await task


@pytest.mark.parametrize("sets", [16])
def test_tlb(sets):
    simulate("tlb", "test_tlb", {"CLIENTS": CLIENTS, "SETS": sets})
