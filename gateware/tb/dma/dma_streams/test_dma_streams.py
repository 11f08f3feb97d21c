# SPDX-License-Identifier: SHL-2.1
"""Bench of dma_streams: whole requests in round-robin order; responses return in order with the full tag."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from dma_masters import Masters
from dma_model import Command, Memory, MemorySlave
from handshake import reset, start_clock
from simulate import simulate

COUNT = 60  # requests per stream, above the limit in flight


@cocotb.test()
async def everything_arrives(dut):
    """Concurrent writes and reads; slow responses fill the order queue."""
    start_clock(dut)
    await reset(dut)
    most = 0
    for rate, slave_rate, latency in ((1.0, 1.0, (1, 12)), (0.3, 0.6, (1, 12)), (1.0, 1.0, (80, 300))):
        rng = random.Random(f"{rate} {slave_rate} {latency} {cocotb.RANDOM_SEED}")
        memory = Memory()
        slave = MemorySlave(dut, memory, rate=slave_rate, latency=latency, rng=rng)
        slave.error = lambda command: command.addr % 64 == 4
        streams = Masters(dut, rate, rng, "s_")
        sent, asked = [], []
        for s in range(streams.ports):
            lengths = [rng.choice([1, 4, 32, 33, rng.randint(1, 300)]) for _ in range(COUNT)]
            tags = [rng.randrange(256) for _ in range(COUNT)]
            writes = zip(lengths, tags, strict=True)
            sent.append(
                [(Command(s << 20 | i << 10, n, tag), rng.randbytes(n)) for i, (n, tag) in enumerate(writes)]
            )
            asked.append(
                [
                    Command(
                        1 << 30 | s << 20 | i << 10 | 4 * (i % 2), rng.randint(1, 200), rng.randrange(256)
                    )
                    for i in range(COUNT)
                ]
            )
            for command in asked[s]:
                memory.write(command.addr, rng.randbytes(command.length))
            streams.writes[s] += sent[s]
            streams.asks[s] += asked[s]
        for _ in range(60_000):
            await RisingEdge(dut.clk)
            most = max(most, len(slave.reads) - sum(map(len, streams.answers)))
            if all(len(d) == COUNT for d in streams.done + streams.answers):
                break
        for s in range(streams.ports):
            assert streams.done[s] == [command.tag for command, _ in sent[s]]
            arrived = [(addr, data) for addr, data in slave.writes if addr >> 20 == s]
            assert arrived == [(command.addr, data) for command, data in sent[s]]
            assert [tag for tag, _, _ in streams.answers[s]] == [command.tag for command in asked[s]]
            for command, (_, data, error) in zip(asked[s], streams.answers[s], strict=True):
                assert data[: command.length] == memory.read(command.addr, command.length)
                assert error == (command.addr % 64 == 4)
        await ClockCycles(dut.clk, 4)  # end of the last completion
        streams.task.cancel()
        slave.stop()
        await RisingEdge(dut.clk)
    assert most == 32


@cocotb.test()
async def no_stream_starves(dut):
    start_clock(dut)
    await reset(dut)
    rng = random.Random(3)
    MemorySlave(dut, rng=rng)
    streams = Masters(dut, 1.0, rng, "s_")
    for s in range(streams.ports):
        streams.writes[s] += [(Command(s << 16, 64, 0), bytes(64))] * 100
    for _ in range(40 * streams.ports):
        await RisingEdge(dut.clk)
    counts = [len(d) for d in streams.done]
    assert min(counts) > 0 and max(counts) - min(counts) <= 2, counts


@pytest.mark.parametrize("streams", [2, 3])
def test_dma_streams(streams):
    simulate("dma_streams", "test_dma_streams", {"STREAMS": streams})
