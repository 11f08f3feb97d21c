# SPDX-License-Identifier: SHL-2.1
"""Bench of send_path: every owed number leaves once, in order, answered or header-only at its deadline."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from send_model import DEADLINE, LATE, SendBench, late_packet, random_answers
from simulate import simulate
from transmit_model import IP, MAC, PORT, TO_IP, TO_PORT, MacSink, frame_of


class Bench(SendBench):
    """Send path and MAC."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0, latency=(5, 40), mac_rate: float = 1.0):
        super().__init__(dut, rng, rate, latency)
        self.mac = MacSink(dut, mac_rate, rng)
        dut.source_mac.value, dut.source_ip.value, dut.source_port.value = MAC, IP, PORT
        cocotb.start_soon(self._reads_are_taken())

    async def _reads_are_taken(self) -> None:
        """Read data must be accepted in every cycle: a stalled response blocks those of other masters."""
        while True:
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            assert not int(self.dut.rd_data_valid.value) or int(self.dut.rd_data_ready.value)

    @property
    def sent(self) -> list[bytes]:
        return self.mac.frames


@cocotb.test()
async def random_consumer(dut):
    """Answers in any order: early, late, wrong or none; check counter sums and every packet."""
    rng = random.Random(int(cocotb.RANDOM_SEED))
    bench = Bench(dut, rng, rate=rng.choice([1.0, 0.5]), latency=(5, 120))
    packets = await random_answers(bench, rng)
    assert bench.mac.frames == [frame_of(payload, TO_IP + to, TO_PORT + to) for payload, to in packets]


@cocotb.test()
async def on_time_at_the_deadline(dut):
    """Header-only at the deadline and not before, whatever the latency of the answer's read."""
    rng = random.Random(2)
    bench = Bench(dut, rng, latency=(5, 5))
    await bench.start()
    stamp = bench.now
    bench.owe(0, 9, stamp)
    await bench.cycles(DEADLINE - 200)
    assert bench.counts["out"] == 0
    bench.slave.holds = True  # the host stops responding
    bench.post(0, bytes(range(200)))
    bench.owe(1, 10, stamp + 50)
    bench.owe(2, 11, stamp + 5000)
    await bench.cycles(400)
    assert [e.n for _, e in bench.events] == [0, 1]
    for (_, event), due in zip(bench.events, (stamp + DEADLINE, stamp + 50 + DEADLINE), strict=True):
        assert event.flags == LATE and due <= event.stamp <= due + 40
    assert bench.mac.frames == [frame_of(late_packet(9)), frame_of(late_packet(10))]
    # The late read responses belong to no number; number 2 is answered normally.
    bench.slave.holds = False
    await bench.cycles(100)
    bench.post(2, b"the answer of 2", destination=1)
    await bench.until(3)
    assert bench.mac.frames[2] == frame_of(b"the answer of 2", TO_IP + 1, TO_PORT + 1)
    assert bench.counts["after_deadline"] == 1


@cocotb.test()
async def deadline_while_the_payload_comes(dut):
    """The payload's read hangs past the deadline: header-only; its words never join the next packet."""
    rng = random.Random(3)
    bench = Bench(dut, rng, latency=(5, 5))
    await bench.start()
    stamp = bench.now
    bench.owe(0, 1, stamp)
    hold = hold_payload(bench)
    cocotb.start_soon(hold)
    bench.post(0, rng.randbytes(1472))
    await bench.cycles(DEADLINE + 100)
    assert bench.counts["late"] == 1 and bench.counts["after_deadline"] == 1
    bench.slave.holds = False
    bench.owe(1, 2)
    bench.post(1, b"one")
    await bench.until(2)
    assert bench.mac.frames == [frame_of(late_packet(1)), frame_of(b"one")]


async def hold_payload(bench: Bench) -> None:
    """Stop read responses after the payload's request."""
    while not any(command.length != 32 for command in bench.slave.reads):
        await RisingEdge(bench.dut.clk)
    bench.slave.holds = True


@cocotb.test()
async def a_mac_that_stands_holds_up_no_reads(dut):
    """Stalled MAC: reads continue for as many of the longest payloads as fit, the others follow later."""
    rng = random.Random(6)
    bench = Bench(dut, rng)
    await bench.start(deadline=0)
    bench.mac.rate = 0.0
    payloads = [rng.randbytes(1472) for _ in range(6)]
    for n, payload in enumerate(payloads):
        bench.owe(n, n)
        bench.post(n, payload)
    await bench.cycles(3000)
    read = sum(command.length != 32 for command in bench.slave.reads)
    assert bench.counts["out"] == read == 2 and not bench.mac.frames
    bench.mac.rate = 1.0
    await bench.until(6)
    await bench.cycles(2000 * 8 // (len(dut.mac_tdata) // 8))
    assert bench.mac.frames == [frame_of(payload) for payload in payloads]


@cocotb.test()
async def doorbell_is_a_hint(dut):
    """One doorbell with any number covers all posted answers; with polling none is needed."""
    rng = random.Random(4)
    bench = Bench(dut, rng)
    await bench.start()
    for n in range(4):
        bench.owe(n, n)
    await bench.cycles(100)
    for n in (2, 1, 3, 0):
        bench.post(n, bytes([n]) * 20, silent=1)
    bench.bells.append(2)
    await bench.until(4)
    assert bench.mac.frames == [frame_of(bytes([n]) * 20) for n in range(4)]
    dut.poll_cycles.value = 50
    bench.owe(4, 4)
    await bench.cycles(100)
    bench.post(4, b"polled", silent=1)
    await bench.until(5)
    assert bench.mac.frames[4] == frame_of(b"polled")


@cocotb.test()
async def read_errors_and_no_deadline(dut):
    """Failed reads are retried at the next look; without a deadline no answer is late."""
    rng = random.Random(5)
    bench = Bench(dut, rng)
    await bench.start(deadline=0)
    failing = {"on": True}
    bench.slave.error = lambda command: failing["on"] and command.length != 32
    bench.owe(0, 3)
    bench.post(0, b"x" * 100)
    await bench.cycles(300)
    assert bench.counts["out"] == 0 and bench.counts["read_error"] >= 1
    bench.slave.error = lambda command: failing["on"]
    bench.bells.append(0)
    await bench.cycles(8000)
    assert bench.counts["out"] == 0
    failing["on"] = False
    bench.bells.append(0)
    await bench.until(1)
    assert bench.mac.frames == [frame_of(b"x" * 100)]


@pytest.mark.parametrize(("width", "mac", "devices"), [(128, 8, 1), (256, 64, 1), (256, 64, 2)])
def test_send_path(width, mac, devices):
    simulate(
        "send_path",
        "test_send_path",
        {
            "DATA_W": width,
            "MAC_W": mac,
            "DEVICES": devices,
            "DESTINATIONS": 2,
            "TX_PENDING": 64,
            "REMEMBERED": 64,
        },
    )
