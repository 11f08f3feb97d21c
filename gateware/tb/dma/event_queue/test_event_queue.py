# SPDX-License-Identifier: SHL-2.1
"""Bench of event_queue: entries, laps, promises and room, with a consumer that reads by the contract."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from dma_model import EventReader, Memory, MemorySlave, pack_event
from handshake import reset
from simulate import simulate

BASE, FINISHED = 0x1_2345_6000, 0x9000


async def start(dut, log2_entries: int, poll: int = 5):
    cocotb.start_soon(Clock(dut.clk, 6400, "ps").start())
    dut.ev_valid.value = 0
    dut.rd_data_valid.value = 0
    dut.enable.value = 0
    dut.promise.value = 0
    dut.queue_base.value = BASE
    dut.log2_entries.value = log2_entries
    dut.finished_addr.value = FINISHED
    dut.poll_cycles.value = poll
    await reset(dut)
    dut.enable.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)


@cocotb.test()
async def laps_and_room(dut):
    """400 unpromised events through 16 entries with a stalling consumer: none lost, none overwritten."""
    for rate, slave_rate, eager in ((1.0, 1.0, 1.0), (0.5, 0.4, 0.1), (1.0, 0.2, 0.02)):
        rng = random.Random(f"{rate} {slave_rate}")
        memory = Memory()
        slave = MemorySlave(dut, memory, rate=slave_rate, latency=(1, 9), rng=rng)
        await start(dut, 4)
        consumer = EventReader(memory, BASE, FINISHED, 4)
        events = [
            {
                "kind": rng.choice([3, 4, 5]),
                "n": rng.getrandbits(32),
                "stream": rng.getrandbits(8),
                "flags": rng.getrandbits(16),
                "buffer": rng.getrandbits(32),
                "bytes_": rng.getrandbits(32),
                "frame": i,
                "stamp": rng.getrandbits(64),
            }
            for i in range(400)
        ]
        dut.ev_promised.value = 0
        sent, cycles = 0, 0
        offered = False
        while len(consumer.events) < len(events):
            offered = sent < len(events) and (offered or rng.random() < rate)
            dut.ev_valid.value = int(offered)
            if offered:
                dut.ev.value = pack_event(**events[sent])
            await RisingEdge(dut.clk)
            if offered and int(dut.ev_ready.value):
                sent += 1
                offered = False
            if rng.random() < eager:
                while consumer.poll():
                    pass
                consumer.publish()
            cycles += 1
            assert cycles < 100_000
        for want, got in zip(events, consumer.events, strict=True):
            assert got.kind == want["kind"] and got.n == want["n"] and got.flags == want["flags"]
            assert got.buffer == want["buffer"] and got.bytes == want["bytes_"] and got.frame == want["frame"]
            assert got.stamp == want["stamp"] and got.stream == want["stream"]
        assert all(len(data) == 32 for _, data in slave.writes)
        dut.ev_valid.value = 0
        slave.stop()
        dut.enable.value = 0
        await RisingEdge(dut.clk)


@cocotb.test()
async def promises_are_kept_free(dut):
    """With 6 of 16 entries promised, 10 others fit; the promised ones still fit, then none."""
    memory = Memory()
    slave = MemorySlave(dut, memory)
    await start(dut, 4, poll=1000)
    assert int(dut.room.value) == 16 and int(dut.half_free.value) == 1
    for _ in range(3):
        dut.promise.value = 1
        await RisingEdge(dut.clk)
    dut.promise.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert int(dut.room.value) == 10

    async def offer(promised: int, cycles: int) -> int:
        taken = 0
        dut.ev.value = pack_event(3)
        dut.ev_promised.value = promised
        dut.ev_valid.value = 1
        for _ in range(cycles):
            await RisingEdge(dut.clk)
            taken += int(dut.ev_ready.value)
        dut.ev_valid.value = 0
        await RisingEdge(dut.clk)
        return taken

    assert await offer(0, 60) == 10
    assert int(dut.room.value) == 0 and int(dut.half_free.value) == 0
    assert await offer(1, 60) == 6
    assert len(slave.writes) == 16
    memory.write(FINISHED, (16).to_bytes(8, "little"))
    for _ in range(1100):
        await RisingEdge(dut.clk)
    assert int(dut.room.value) == 16
    # Impossible values of the consumer's counter are ignored.
    memory.write(FINISHED, (4711).to_bytes(8, "little"))
    assert await offer(0, 60) == 16
    for _ in range(1100):
        await RisingEdge(dut.clk)
    assert int(dut.room.value) == 0
    slave.stop()


@pytest.mark.parametrize("width", [128, 256])
def test_event_queue(width):
    simulate("event_queue", "test_event_queue", {"DATA_W": width})
