# SPDX-License-Identifier: SHL-2.1
"""Host model for benches of the whole card: named registers, contract memory, a driver and a consumer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from cocotb.triggers import Lock, RisingEdge
from dma_model import Event
from frames import Host
from sources import GATEWARE
from systemrdl import RDLCompiler
from systemrdl.node import MemNode, RegNode
from transmit_model import IP, MAC, PORT, TO_IP, TO_MAC, TO_PORT

PAGE = 4096
CLOP, SEND, STRIDE = 0x7F00_1234_0000, 0x7F55_0000_0000, 1472
RECEIVE, SEND_ON, EVENTS, DRAIN = 1, 2, 4, 8
RECEIVE_DONE, SEND_DONE, ERROR, BURST_BEGINS, BURST_ENDS = 1, 2, 3, 4, 5
LATE = 0x10
HOST = Host(mac=MAC, ip=IP)


@cache
def registers() -> dict[str, int]:
    """Return register addresses by name; a 64-bit pair or a memory has the address of its first word."""
    compiler = RDLCompiler()
    compiler.compile_file(str(GATEWARE / "regs" / "nanet_regs.rdl"))
    top = compiler.elaborate(top_def_name="nanet_regs").top
    return {
        node.get_path().removeprefix("nanet_regs."): node.absolute_address
        for node in top.descendants(unroll=True)
        if isinstance(node, RegNode | MemNode)
    }


class Registers(Protocol):
    """Register access of the host."""

    async def read(self, address: int) -> int:
        """Return 32 bits."""

    async def write(self, address: int, value: int) -> None:
        """Write 32 bits."""


class RegisterBus:
    """Register access over the card's register bus."""

    def __init__(self, dut):
        self.dut, self.lock = dut, Lock()
        dut.reg_request.value = dut.reg_bar.value = 0

    async def _access(self, address: int, write: int, data: int) -> int:
        dut = self.dut
        async with self.lock:
            dut.reg_addr.value, dut.reg_write.value, dut.reg_wdata.value = address, write, data
            dut.reg_enable.value, dut.reg_request.value = 15, 1
            await RisingEdge(dut.clk)
            while not int(dut.reg_acknowledge.value):
                await RisingEdge(dut.clk)
            got = int(dut.reg_rdata.value)
            dut.reg_request.value = 0
            await RisingEdge(dut.clk)
        return got

    async def read(self, address: int) -> int:
        return await self._access(address, 0, 0)

    async def write(self, address: int, value: int) -> None:
        await self._access(address, 1, value)


class Window:
    """Register window of one further stream."""

    def __init__(self, bus: Registers, stream: int):
        self.bus, self.base = bus, stream << 16

    async def read(self, address: int) -> int:
        return await self.bus.read(self.base + address)

    async def write(self, address: int, value: int) -> None:
        await self.bus.write(self.base + address, value)


class HostMemory(Protocol):
    """Host memory by bus address."""

    def read(self, address: int, length: int) -> bytes:
        """Load bytes."""

    def write(self, address: int, data: bytes) -> None:
        """Store bytes."""


@dataclass
class Setup:
    """Driver settings; counts are powers of two. `buffers` counts the buffers of each device."""

    buffers: int = 64
    devices: int = 1
    segment: int = 2048
    boards: int = 0xF
    timeout: int = 0
    grace: int = 0
    deadline: int = 0
    silence: int = 0
    window: int = 0
    tlb: bool = True
    max_payload: int = 1472
    stage: int = 0
    stream: int = 0
    ip: int = IP  # channel 0; channel 1 uses the next address
    port: int = PORT  # receive port and source port
    late_template: int = 0xFF000008 << 32 | 0x1C << 24

    @property
    def buffer_bytes(self) -> int:
        return 64 + 4 * self.segment

    @property
    def entries(self) -> int:
        return 4 * self.buffers

    @property
    def pages(self) -> int:
        """Return the number of pages of a device's buffers."""
        return -(-self.buffers * self.buffer_bytes // PAGE)


@dataclass
class Layout:
    """Bus addresses of the contract memory; receive buffers use the pages of `pool` in any order.

    The areas of each further device lie `step` bytes higher.
    """

    pages: int = 0x1234_5678_9000
    queue: int = 0x2_0000_0000
    finished: int = 0x3_0000_0040
    ring: int = 0x4_0000_0000
    send: int = 0x9_0000_0000
    pool: Sequence[int] = range(1 << 32, 1 << 33, PAGE)
    step: int = 1 << 20


@dataclass
class Frame:
    """Closed frame as the consumer read it."""

    event: Event
    contents: bytes  # header and segments


@dataclass
class Answer:
    """Answer that the consumer posts for a number."""

    payload: bytes
    destination: int = 0
    descriptor: dict[str, int] = field(default_factory=dict)  # fields with deliberately wrong values


class CardHost:
    """Driver and consumer. `wait` advances the simulation; `answer` chooses the answer to a frame."""

    def __init__(
        self,
        bus: Registers,
        memory: HostMemory,
        wait: Callable,
        rng: random.Random,
        setup: Setup | None = None,
        layout: Layout | None = None,
    ):
        self.bus, self.memory, self.wait, self.rng = bus, memory, wait, rng
        self.setup, self.layout = setup or Setup(), layout or Layout()
        self.at = registers()
        self.answer: Callable[[Frame], Answer | None] = lambda frame: Answer(
            frame.event.frame.to_bytes(4, "little") * 5
        )
        self.stalled = False
        self.pages: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Reset the consumer's state for a card that starts from scratch."""
        self.k = [0] * self.setup.devices
        self.base = 0
        self.events: list[Event] = []  # burst begin and end events of the first device
        self.others: list[Event] = []  # burst begin and end events of the other devices
        self.frames: dict[int, Frame] = {}
        self.posted: dict[int, Answer] = {}

    async def read(self, name: str) -> int:
        return await self.bus.read(self.at[name])

    async def write(self, name: str, value: int) -> None:
        await self.bus.write(self.at[name], value)

    async def write64(self, name: str, value: int) -> None:
        await self.write(f"{name}.low", value & 0xFFFFFFFF)
        await self.write(f"{name}.high", value >> 32)

    # ------------------------------------------------------------------ driver

    def lay_out(self) -> None:
        """Initialise the contract memory; the pages of the receive buffers are in random order."""
        self.pages = self.rng.sample(self.layout.pool, self.setup.devices * self.setup.pages)
        for i, page in enumerate(self.pages):
            self.memory.write(self.layout.pages + 8 * i, page.to_bytes(8, "little"))
        for device in range(self.setup.devices):
            further = device * self.layout.step
            self.memory.write(self.layout.queue + further, bytes(32 * self.setup.entries))
            self.memory.write(self.layout.ring + further, bytes(32 * self.setup.buffers))
            self.memory.write(self.layout.finished + further, bytes(8))

    async def configure(self) -> None:
        """Write all registers of a run while the card is stopped."""
        s, log2 = self.setup, lambda count: count.bit_length() - 1
        assert await self.read("status") & 4, "the card is not stopped"
        self.lay_out()
        for channel in range(2):
            await self.write(f"network[{channel}].mac_low", (MAC + channel) & 0xFFFFFFFF)
            await self.write(f"network[{channel}].mac_high", (MAC + channel) >> 32)
            await self.write(f"network[{channel}].ip", s.ip + channel)
            await self.write(f"network[{channel}].port", s.port)
        await self.write("filter[0].mode", 1)
        await self.write("filter[0].ports", s.port)
        await self.write("rules", 0x1C | s.boards << 8 | s.max_payload << 16)
        await self.write("max_frames", 751_500)
        ring = log2(s.buffers) << 8 | log2(s.buffers) << 16 | log2(s.entries) << 24
        await self.write("log2", log2(s.devices) | ring)
        for name, value in {
            "segment_bytes": s.segment,
            "buffer_bytes": s.buffer_bytes,
            "send_bytes": s.buffers * STRIDE,
            "timeout_cycles": s.timeout,
            "grace_cycles": s.grace,
            "event_poll_cycles": 20,
            "late_destination": 0,
            "tlb": int(s.tlb) | 12 << 8,
            "pages_count": len(self.pages),
            "window_frames": s.window,
            "latency": s.stage,
            "stream": s.stream,
        }.items():
            await self.write(name, value)
        for name, value in {
            "deadline_cycles": s.deadline,
            "late_template": s.late_template,
            "pages_base": self.layout.pages,
            "burst_silence_cycles": s.silence,
        }.items():
            await self.write64(name, value)
        for device in range(s.devices):
            further = device * self.layout.step
            for name, value in {
                "clop": CLOP + device * s.pages * PAGE,
                "queue": self.layout.queue + further,
                "finished": self.layout.finished + further,
                "ring": self.layout.ring + further,
                "send_base": SEND + further,
                "send_bus": self.layout.send + further,
            }.items():
                await self.write64(f"device[{device}].{name}", value)
        for i in range(2):
            await self.write(f"destination[{i}].mac_low", TO_MAC & 0xFFFFFFFF)
            await self.write(f"destination[{i}].mac_high", TO_MAC >> 32)
            await self.write(f"destination[{i}].ip", TO_IP + i)
            await self.write(f"destination[{i}].port", TO_PORT + i | 1 << 31)
        for i in range(s.devices * s.buffers):
            await self.bus.write(self.at["returned"] + 4 * i, 0)

    async def start(self) -> None:
        """Start in the order of doc/architecture.md: event queue and sender, wait, then reception."""
        self.begin()
        await self.write("control", SEND_ON | EVENTS)
        while not await self.read("status") & 2:
            await self.wait(100)
        await self.write("control", SEND_ON | EVENTS | RECEIVE)

    async def drain(self) -> None:
        """Announce the end of the input; the firmware closes the open frames."""
        await self.write("control", SEND_ON | EVENTS | RECEIVE | DRAIN)

    async def stop(self) -> None:
        """Switch everything off; return when the card's state is reset."""
        await self.write("control", SEND_ON | EVENTS)
        for _ in range(400):
            if await self.read("status") & 8:
                break
            await self.wait(50)
        else:
            raise AssertionError("the card does not become idle")
        await self.write("control", 0)
        for _ in range(400):
            if await self.read("status") & 4:
                return
            await self.wait(20)
        raise AssertionError("the card does not stop")

    async def counters(self) -> dict[str, int]:
        """Return all counters by name."""
        groups = ("verdicts[", "bad_packets.", "lost.", "frames.")
        return {name: await self.read(name) for name in self.at if name.startswith(groups)}

    async def histogram(self) -> dict[int, int]:
        """Return the non-empty bins of the histogram."""
        counts = {i: await self.bus.read(self.at["histogram"] + 4 * i) for i in range(128)}
        return {i: count for i, count in counts.items() if count}

    # ------------------------------------------------------------------ consumer

    def clop(self, offset: int, length: int, device: int = 0) -> bytes:
        """Read bytes of a device's receive buffers through its page list."""
        out = b""
        while len(out) < length:
            at = device * self.setup.pages * PAGE + offset + len(out)
            part = min(length - len(out), PAGE - at % PAGE)
            out += self.memory.read(self.pages[at // PAGE] + at % PAGE, part)
        return out

    async def consume(self, until: Callable[[], bool], every: int = 40, limit: int = 1000) -> None:
        """Process events in order until a condition holds."""
        for _ in range(limit):
            if until():
                return
            await self.look()
            await self.wait(every)
        kinds = [(event.kind, event.n) for event in self.events]
        raise AssertionError(
            f"no progress: {len(self.events)} events, {len(self.posted)} posted, kinds and n {kinds}"
        )

    async def look(self) -> None:
        """Process available events, post answers, return buffers, publish the number of finished events."""
        for device in range(self.setup.devices):
            while not self.stalled and await self.look_at(device):
                pass

    async def look_at(self, device: int) -> bool:
        """Process the next event of a device's queue, if there is one."""
        entries, further, k = self.setup.entries, device * self.layout.step, self.k[device]
        entry = self.memory.read(self.layout.queue + further + 32 * (k % entries), 32)
        if int.from_bytes(entry[28:], "little") != k // entries + 1:
            return False
        event = Event.unpack(entry)
        self.k[device] += 1
        if event.kind in (BURST_BEGINS, BURST_ENDS):
            (self.others if device else self.events).append(event)
        else:
            assert event.n % self.setup.devices == device
            self.events.append(event)
        if event.kind == RECEIVE_DONE:
            await self.take(event)
        self.memory.write(self.layout.finished + further, self.k[device].to_bytes(8, "little"))
        return True

    async def take(self, event: Event) -> None:
        """Check a frame, post its answer and return its buffer."""
        s = self.setup
        at, device = event.buffer * s.buffer_bytes, event.n % s.devices
        contents = self.clop(at, 64, device)
        for board in range(4):
            size = int.from_bytes(contents[8 + 4 * board : 10 + 4 * board], "little")
            contents += self.clop(at + 64 + board * s.segment, size, device)
        frame = Frame(event, contents)
        assert event.n not in self.frames, f"number {event.n} came twice"
        self.frames[event.n] = frame
        answer = self.answer(frame)
        if answer is not None:
            await self.post(event.n, answer)
        slot = event.buffer * s.devices + device
        await self.bus.write(self.at["returned"] + 4 * slot, event.n + 1 & 0xFFFFFFFF)

    async def post(self, n: int, answer: Answer) -> None:
        """Write send buffer, descriptor and doorbell, in this order."""
        devices = self.setup.devices
        slot, further = n // devices % self.setup.buffers, n % devices * self.layout.step
        self.memory.write(self.layout.send + further + slot * STRIDE, answer.payload)
        values = {
            "address": SEND + further + slot * STRIDE,
            "bytes": len(answer.payload),
            "destination": answer.destination,
            "token": n & 0xFFFF,
            "flags": 0,
            "reserved": 0,
            "lap": n // (devices * self.setup.buffers) + 1,
        } | answer.descriptor
        sizes = (8, 4, 4, 4, 4, 4, 4)
        descriptor = b"".join(
            value.to_bytes(size, "little") for value, size in zip(values.values(), sizes, strict=True)
        )
        self.memory.write(self.layout.ring + further + 32 * slot, descriptor)
        self.posted[n] = answer
        await self.write("doorbell", n & 0xFFFFFFFF)

    def late_packet(self, frame: int) -> bytes:
        """Return the header-only packet of a frame."""
        return ((self.setup.late_template & ~0xFFFFFF) | frame).to_bytes(8, "little")


def account(counters: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Check the counter identities at the end of docs/formats.md, and those of the MACs."""
    total = lambda prefix: sum(value for name, value in counters.items() if name.startswith(prefix))  # noqa: E731
    lost = ("duplicate", "late", "replayed_sequence", "overrun", "segment_overflow", "unconfirmed_jump")
    frames = {name.removeprefix("frames."): value for name, value in counters.items()}
    decided = frames["packets_used"] + frames["burst_markers"] + total("bad_packets.")
    udp = sum(counters[f"verdicts[{c}].udp"] for c in range(2))
    return {
        "packets": (frames["packets_in"], decided + sum(counters[f"lost.{name}"] for name in lost)),
        "datagrams": (udp, frames["packets_in"] + counters["lost.socket_overflow"]),
        "frames": (frames["frames_in"], frames["frames_out"]),
        "answers": (frames["frames_out"], frames["frames_answered"] + frames["frames_late"]),
    }
