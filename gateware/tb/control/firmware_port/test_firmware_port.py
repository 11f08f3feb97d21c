# SPDX-License-Identifier: SHL-2.1
"""Bench of firmware_port with the real firmware: commands, alarms, page translations, response times."""

import random

import cocotb
import reference_mgp as mgp
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from dma_model import Memory, MemorySlave
from firmware_model import Card
from handshake import Sink, Source, reset, start_clock
from mgp import marker, packet
from microcontroller import Microcontroller
from simulate import simulate

OPS = ["burst", "last", "seen", "restart", "board", "watch", "close", "answer"]
AS = {0: "again", 1: "late", 3: "replayed", 7: "marker", 8: "jump", 9: "wrong_burst", 10: "admit"}
NONE = 0xFFFF_FFFF_FFFF_FFFF


def pack_rare(data: bytes, stamp: int, word: int, channel: int = 0) -> int:
    """Return a packed slowpath_t; `word` is the firmware's value of RARE."""
    flags = sum((word >> 8 + i & 1) << 3 - i for i in range(4))
    return (
        int.from_bytes(data[:16], "little") << 47 | stamp << 15 | channel << 12 | (word & 0xFF) << 4 | flags
    )


def unpack_command(value: int) -> dict[str, object]:
    """Unpack a command_t."""
    out: dict[str, object] = {"sequence": value & 0xFFFFFFFF, "frame": value >> 32 & 0xFFFFFF}
    out |= {"as": value >> 56 & 15, "channel": value >> 60 & 7, "board": value >> 63 & 3}
    out |= {"flag": value >> 65 & 1, "old": value >> 66 & 1, "op": OPS[value >> 67]}
    return out


class Recorder(Card):
    """Recorder of the firmware's requests and commands."""

    def __init__(self, **options):
        self.asked: list[tuple[int, int, bytes]] = []  # word, stamp, header
        self.said: list[list[tuple]] = []
        super().__init__(**options)

    def ask(self, burst, b, **why):
        super().ask(burst, b, **why)
        self.said.append([])
        self.asked.append((self.rare_word(), self.stamp, b""))

    def command(self, word):
        if OPS[word & 15] == "answer":
            self.asked[-1] = (*self.asked[-1][:2], self.rare_header)
        self.said[-1].append(command_of(word, self.written))
        super().command(word)


def command_of(word: int, written: dict[int, int]) -> tuple:
    """Return the used fields of a command, from the register writes."""
    fields = {"op": OPS[word & 15], "old": word >> 4 & 1, "flag": word >> 5 & 1, "board": word >> 6 & 3}
    fields |= {"as": word >> 12 & 15, "frame": written.get(0xA0, 0), "sequence": written.get(0xA4, 0)}
    return essence(fields)


def essence(command: dict[str, object]) -> tuple:
    """Return the used fields of a command; the others keep their previous values."""
    used = {
        "burst": ("frame", "flag"),
        "last": ("flag", "frame") if command["flag"] else ("flag",),
        "seen": ("old", "board", "sequence"),
        "watch": ("old", "board", "flag"),
        "close": ("old",),
        "answer": ("as",),
    }.get(command["op"], ("old", "board"))
    return (command["op"], *(command[name] for name in used))


class Bench:
    """Port with a requesting receive path and the microcontroller."""

    def __init__(self, dut, rng, pages=(), wake=0, think=0, **config):
        self.dut, self.rng = dut, rng
        self.pages, self.wake, self.think = list(pages), wake, think
        self.memory = Memory()
        self.commands: list[dict[str, object]] = []
        self.rate = 1.0
        defaults = {
            "boards": 15,
            "timeout_cycles": 0,
            "grace_cycles": 0,
            "silence_cycles": 0,
            "replay": 0,
            "packets": 0,
        }
        defaults |= {"pages_base": 0x4000_0000_1000, "pages_count": len(self.pages), "drain": 0}
        defaults |= {"clop_base": 0x7F00_0000_0000, "log2_page": 12, "last_packet": 0, "now": 0}
        for name, value in (defaults | config).items():
            getattr(dut, name).value = value
            setattr(self, name, value)
        for i, page in enumerate(self.pages):
            self.memory.write(self.pages_base + 8 * i, page.to_bytes(8, "little"))

    async def start(self, first=0):
        dut = self.dut
        start_clock(dut)
        dut.enable.value = 0
        await reset(dut)
        self.host = MemorySlave(dut, self.memory, latency=(20, 90), rng=self.rng, write=False)
        self.fills = Sink(dut, "fill", ["vaddr", "paddr", "ok"], rate=0.5, rng=self.rng)
        self.misses = Source(dut, "miss", ["vaddr"])
        self.micro = Microcontroller(dut, self.wake, self.think)
        cocotb.start_soon(self.clock(first))
        cocotb.start_soon(self.take_commands())
        dut.enable.value = 1

    async def clock(self, now):
        while True:
            self.dut.now.value = now
            await RisingEdge(self.dut.clk)
            now += 1

    async def take_commands(self):
        dut = self.dut
        while True:
            willing = self.rng.random() < self.rate
            dut.command_ready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            if willing and int(dut.command_valid.value):
                self.commands.append(unpack_command(int(dut.command.value)))
                self.commands[-1]["at"] = int(dut.now.value)
            await RisingEdge(dut.clk)

    async def offer(self, data, word, stamp=0, channel=0):
        """Send a packet to the firmware."""
        dut = self.dut
        dut.slowpath.value = pack_rare(data, stamp, word, channel)
        dut.slowpath_valid.value = 1
        while True:
            await FallingEdge(dut.clk)
            taken = int(dut.slowpath_ready.value)
            await RisingEdge(dut.clk)
            if taken:
                break
        dut.slowpath_valid.value = 0

    async def commanded(self, op="answer", cycles=20_000):
        """Wait for a command of this kind and return all up to it."""
        for _ in range(cycles):
            for at, command in enumerate(self.commands):
                if command["op"] == op:
                    out, self.commands = self.commands[: at + 1], self.commands[at + 1 :]
                    return out
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"no command {op}")

    async def idle(self):
        """Wait until the firmware is idle; required before a test ends."""
        quiet = 0
        while quiet < 100 + self.micro.wake + 2 * self.micro.think:
            await RisingEdge(self.dut.clk)
            quiet = 0 if int(self.dut.fw_interrupt.value) else quiet + 1

    async def decided(self, data, word, stamp=0, channel=0):
        """Send a packet to the firmware and return its commands."""
        await self.offer(data, word, stamp, channel)
        return await self.commanded()


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def commands_are_those_of_the_firmware_alone(dut):
    """Requests and commands over the bus equal those of the firmware on a register model."""
    rng = random.Random(cocotb.RANDOM_SEED)
    model = Recorder(timeout=0, silence=0)
    sequence, now = [0] * 4, 1000
    for burst in (7, 8, 10):
        for board in (0, 1, 3):
            model.packet(marker(board, mgp.SOB, burst=burst), now)
            sequence[board] = 1
        for frame in range(12):
            for board in range(4):
                now += 1
                jump = 5000 if frame > 6 else 0
                model.packet(packet(rng, board, frame + jump, sequence[board], burst=burst), now)
                sequence[board] += 1
            if frame == 3:
                model.packet(marker(1, mgp.SOB, burst=burst), now)
                sequence[1] = 1
        for board in rng.sample(range(4), 4):
            model.packet(marker(board, mgp.EOB, 5011, sequence[board], burst), now)
    assert {entry[0] for said in model.said for entry in said} == set(OPS)
    bench = Bench(dut, rng)
    bench.rate = 0.3
    await bench.start()
    for (word, stamp, head), said in zip(model.asked, model.said, strict=True):
        channel = rng.randrange(8)
        got = await bench.decided(head, word, stamp, channel)
        assert [essence(command) for command in got] == said
        assert got[-1]["channel"] == channel
    assert len(model.asked) > 40
    await bench.idle()
    reports = int(dut.burst_report.value)
    assert [reports & 0xFFFFFFFF, reports >> 32] == model.reports


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_burst_ends_by_silence_and_the_one_before_at_its_timeout(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    start = (1 << 32) - 1500  # the low words wrap during the test
    bench = Bench(dut, rng, timeout_cycles=2000, grace_cycles=100, silence_cycles=5000)
    await bench.start(start)
    other, active = 1 << 1, 1 << 10
    await bench.decided(packet(rng, 0, 0, 1, burst=1), other, start)
    dut.last_packet.value = start
    got = await bench.decided(packet(rng, 0, 0, 1, burst=2), other | active, start + 20 & 0xFFFFFFFF)
    assert [AS[c["as"]] for c in got] == ["jump"]
    first = start + 20
    got = await bench.decided(packet(rng, 0, 0, 2, burst=2), other | active, int(dut.now.value) & 0xFFFFFFFF)
    assert [c["op"] for c in got] == ["last", "burst", "answer"]
    dut.last_packet.value = int(dut.now.value)
    closed = (await bench.commanded("close"))[-1]
    assert closed["old"] == 1
    assert first + 2100 <= closed["at"] <= first + 2100 + 200
    last = int(dut.now.value)
    dut.last_packet.value = last  # another packet
    ended = (await bench.commanded("last"))[-1]
    assert not ended["flag"]
    assert last + 5100 <= ended["at"] <= last + 5100 + 250
    assert int(dut.burst_report.value) & 0xFFFFFFFF == 2 | 1 << 24
    await ClockCycles(dut.clk, 20_000)
    assert not bench.commands
    assert not int(dut.fw_interrupt.value)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def pages_come_from_the_list_in_host_memory(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, [rng.getrandbits(40) << 12 for _ in range(64)])
    await bench.start()
    bench.host.error = lambda command: command.addr == bench.pages_base + 8 * 9
    asked = [rng.randrange(64) for _ in range(40)] + [9, 63, 64, 65, 1 << 40, -1]
    vaddrs = [bench.clop_base + (page << 12) + rng.randrange(4096) for page in asked]
    bench.misses.put([{"vaddr": vaddr} for vaddr in vaddrs])
    await bench.decided(packet(rng, 0, 0, 1), 1 << 1)  # in between
    for page, vaddr, fill in zip(asked, vaddrs, await bench.fills.take(len(asked)), strict=True):
        assert fill["vaddr"] == vaddr
        assert fill["ok"] == int(0 <= page < 64 and page != 9)
        if fill["ok"]:
            assert fill["paddr"] == bench.pages[page]
    assert all(command.length == 8 for command in bench.host.reads)
    assert len(bench.host.reads) == sum(0 <= page < 64 for page in asked)
    await bench.idle()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def drain_closes_open_frames_and_enabling_restarts(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, [0])
    await bench.start()
    other = 1 << 1
    await bench.decided(packet(rng, 0, 0, 1, burst=1), other)
    dut.drain.value = 1
    got = await bench.commanded("close")
    assert [(c["op"], c["flag"], c["old"]) for c in got] == [("last", 0, 0), ("close", 0, 0)]
    assert int(dut.burst_report.value) == 1 | 3 << 24
    await ClockCycles(dut.clk, 2000)
    assert not bench.commands  # once for each rising edge
    dut.drain.value = 0
    # Switched off with a pending packet and page: the firmware's answers are dropped.
    bench.micro.think = 200
    await bench.offer(packet(rng, 0, 0, 1, burst=3), other)
    bench.misses.put([{"vaddr": bench.clop_base}])
    await ClockCycles(dut.clk, 100)
    dut.enable.value = 0
    await ClockCycles(dut.clk, 50)
    dut.enable.value = 1
    await ClockCycles(dut.clk, 3000)
    assert not bench.commands
    assert not bench.fills.words
    assert int(dut.burst_report.value) == 0
    got = await bench.decided(packet(rng, 0, 0, 1, burst=9), other)
    assert [c["op"] for c in got] == ["burst", "answer"]
    assert got[0]["frame"] == 9
    await bench.idle()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def an_answer_takes_the_wake_up_and_the_processing(dut):
    """Cycles from request to answer; the original card has 94 to 312 and 625 at 156.25 MHz."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, [4096])
    await bench.start()
    other, active = 1 << 1, 1 << 10
    await bench.decided(packet(rng, 0, 0, 1, burst=1), other)
    await bench.decided(marker(0, mgp.SOB, burst=1), 1 | active)

    async def answer():
        await bench.idle()
        begun = int(dut.now.value)
        return (await bench.decided(marker(0, mgp.SOB, burst=1), 1 | active | 1 << 5))[-1]["at"] - begun

    async def page():
        await bench.idle()
        begun = int(dut.now.value)
        bench.misses.put([{"vaddr": bench.clop_base}])
        await bench.fills.take(1)
        return int(dut.now.value) - begun

    bench.host.latency = (60, 60)
    bench.fills.rate = 1.0
    alone, alone_page = await answer(), await page()
    assert alone < 120
    for wake, think in ((0, 100), (94, 625), (312, 625)):
        bench.micro.wake, bench.micro.think = wake, think
        took, took_page = await answer(), await page()
        dut._log.info("wake-up %d, processing %d: answer %d, page %d cycles", wake, think, took, took_page)
        # Bus accesses add to it; the simulation thread shifts it by up to 2 cycles.
        assert abs(took - alone - wake - think) <= 2
        assert abs(took_page - alone_page - wake - think) <= 2
    dut._log.info("bus accesses alone: answer %d, page %d cycles", alone, alone_page)
    await bench.idle()


def test_firmware_port():
    simulate("firmware_port", "test_firmware_port", {"DATA_W": 256})
