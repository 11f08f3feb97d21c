# SPDX-License-Identifier: SHL-2.1
"""Bench of sender: every owed number once, in order and on time, at any pace of its neighbours."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from send_model import DEADLINE, LATE, SendBench, late_packet, random_answers
from simulate import simulate
from transmit_model import TO_IP, TO_PORT

MAX_READS = 8
PAYLOAD = 1  # tag value of payload reads


class Transmitter:
    """Model of udp_transmit: collects payload words; a command sends or drops them."""

    def __init__(self, bench: SendBench, rate: float):
        self.bench, self.rate = bench, rate
        self.packets: list[tuple[bytes, int]] = []  # (payload, destination)
        self.thrown: list[bytes] = []
        self.commands: list[int] = []  # card clock
        self.asks: list[tuple[int, int]] = []  # (card clock of a read's first offer, its bytes)
        self.answers: list[int] = []  # card clock of each response's last word
        self.owed = self.bell = 0  # card clock of the last number and of the last doorbell
        self.reads = 0
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, rng, part, shown = self.bench.dut, self.bench.rng, bytearray(), False
        room = had_room = 0
        width = len(dut.data) // 8
        while True:
            takes_data, takes_command = rng.random() < self.rate, rng.random() < self.rate
            dut.data_ready.value, dut.cmd_ready.value = int(takes_data), int(takes_command)
            had_room, room = room, int(rng.random() < self.rate)
            dut.data_room.value = room
            await FallingEdge(dut.clk)
            await ReadOnly()
            now = self.bench.now
            if int(dut.tx_pending_valid.value) and int(dut.tx_pending_ready.value):
                self.owed = now
            if int(dut.bell_valid.value):
                self.bell = now
            if takes_data and int(dut.data_valid.value):
                count = int(dut.data_bytes.value)
                assert 1 <= count <= width
                part += int(dut.data.value).to_bytes(width, "little")[:count]
            if takes_command and int(dut.cmd_valid.value):
                self.commands.append(now)
                if int(dut.cmd_send.value):
                    to = int(dut.cmd_to.value)
                    port, ip = to >> 1 & 0xFFFF, to >> 17 & 0xFFFF_FFFF
                    assert to & 1 and ip - TO_IP == port - TO_PORT
                    assert len(part) == int(dut.cmd_bytes.value)
                    self.packets.append((bytes(part), port - TO_PORT))
                else:
                    self.thrown.append(bytes(part))
                part.clear()
            if int(dut.rd_valid.value):
                if not shown:
                    self.asks.append((now, int(dut.rd_cmd.value) >> 8 & 0xFFFF))
                    assert had_room or int(dut.rd_cmd.value) & 3 != PAYLOAD, "read data without a receiver"
                assert not int(dut.rd_cmd.value) & 0xC0, "tags have six bits"
                shown = not int(dut.rd_ready.value)
                self.reads += not shown
            if int(dut.rd_data_valid.value) and int(dut.rd_data_ready.value) and int(dut.rd_data_last.value):
                self.answers.append(now)
                self.reads -= 1
            assert self.reads <= MAX_READS, "too many reads in flight"
            await RisingEdge(dut.clk)


class Bench(SendBench):
    def __init__(self, dut, rng: random.Random, rate: float = 1.0, latency=(5, 40), transmit: float = 1.0):
        super().__init__(dut, rng, rate, latency)
        self.transmitter = Transmitter(self, transmit)

    @property
    def sent(self) -> list[tuple[bytes, int]]:
        return self.transmitter.packets


@cocotb.test()
@cocotb.parametrize((("rate", "transmit"), [(1.0, 0.3), (0.5, 1.0)]))
async def random_consumer(dut, rate, transmit):
    """Answers in any order: early, late, wrong or none; check counter sums and every packet."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, rate, (5, 120), transmit)
    assert await random_answers(bench, rng) == bench.sent


@cocotb.test()
async def takes_the_documented_cycles(dut):
    """Check the latency table of doc/send.md, with a memory and a transmitter that never stall."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, latency=(5, 5))
    await bench.start()
    bench.slave.rate = 1.0
    transmitter = bench.transmitter
    for size in (8, 40, 200):
        n = bench.counts["out"]
        payload = rng.randbytes(size)
        bench.owe(n, n)
        asks, answers = len(transmitter.asks), len(transmitter.answers)
        await bench.cycles(60)
        assert transmitter.asks[asks][0] - transmitter.owed == 8, "pending number to descriptor read"
        bench.post(n, payload)
        await bench.cycles(120)
        assert len(bench.sent) == n + 1 and bench.sent[n] == (payload, 0)
        (look, _), (read, length) = transmitter.asks[asks + 1 : asks + 3]
        assert length == size and look - transmitter.bell == 2, "doorbell to descriptor read"
        descriptor, last = transmitter.answers[answers + 1 : answers + 3]
        assert read - descriptor == 5, "descriptor to payload read"
        assert transmitter.commands[-1] - last == 1, "payload to command"


@cocotb.test()
async def on_time_at_the_deadline(dut):
    """Header-only at most 6 cycles after the deadline, also with up to 8 hanging reads."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, latency=(5, 5))
    await bench.start()
    stamp, transmitter = bench.now, bench.transmitter
    for n in range(20):
        bench.owe(n, 100 + n, stamp + 100 * n)
    await bench.cycles(DEADLINE - 100)
    assert not bench.sent
    bench.slave.holds = True  # memory stops responding
    for _ in range(20):
        bench.bells.append(0)
        await bench.cycles(100)
    await bench.cycles(300)
    assert bench.sent == [(late_packet(100 + n), 0) for n in range(20)]
    for n, cycle in enumerate(transmitter.commands):
        due = stamp + 100 * n + DEADLINE
        # `now` is visible one cycle later.
        assert due < cycle <= due + 6
    assert transmitter.reads == MAX_READS
    # Memory responds again, and the next number is processed normally.
    bench.slave.holds = False
    await bench.cycles(100)
    bench.owe(20, 120)
    bench.post(20, b"an answer")
    await bench.until(21)
    assert bench.sent[20] == (b"an answer", 0) and not bench.events[20][1].flags & LATE


@cocotb.test()
async def ttc_time_advances_the_deadline(dut):
    """Answers up to the frame that TTC time names are late, and no others."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, latency=(5, 5))
    dut.overdue_valid.value, dut.overdue_frame.value = 0, 102
    await bench.start()
    for n in range(5):
        bench.owe(n, 100 + n)
    await bench.cycles(100)
    assert not bench.sent
    dut.overdue_valid.value = 1
    await bench.until(3)
    await bench.cycles(100)
    assert bench.sent == [(late_packet(100 + n), 0) for n in range(3)]
    bench.post(3, b"in time")
    await bench.until(4)
    assert bench.sent[3] == (b"in time", 0)
    dut.overdue_frame.value = 104
    await bench.until(5)
    assert bench.sent[4] == (late_packet(104), 0)
    dut.overdue_valid.value = 0
    assert bench.counts["late"] == 4 and bench.counts["answered"] == 1


@cocotb.test()
async def what_comes_too_late_is_thrown_away(dut):
    """The deadline passes while payload words arrive: they are dropped, and header-only is sent."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, latency=(5, 5))
    await bench.start()
    stamp = bench.now
    bench.owe(0, 1, stamp)
    await bench.cycles(DEADLINE - 250)
    bench.slave.rate = 0.1
    bench.post(0, rng.randbytes(1472))
    await bench.cycles(270)
    bench.slave.rate = 1.0
    await bench.cycles(200)
    assert bench.sent == [(late_packet(1), 0)]
    assert len(bench.transmitter.thrown) == 1 and 0 < len(bench.transmitter.thrown[0]) < 1472
    bench.owe(1, 2)
    bench.post(1, b"one")
    await bench.until(2)
    assert bench.sent[1] == (b"one", 0)
    # Its answer was too late: counted once.
    assert bench.counts["after_deadline"] == 1 and bench.counts["late"] == 1


@pytest.mark.parametrize(("width", "devices"), [(128, 1), (256, 1), (256, 2)])
def test_sender(width, devices):
    simulate(
        "sender",
        "test_sender",
        {"DATA_W": width, "DEVICES": devices, "DESTINATIONS": 2, "TX_PENDING": 64, "REMEMBERED": 64},
    )
