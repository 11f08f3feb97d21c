# SPDX-License-Identifier: SHL-2.1
"""Bench of axis_mux: whole frames in round-robin order; a stopped port begins no frame."""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from handshake import reset, start_clock
from simulate import simulate

PORTS = 3


def words(frame):
    """Return the (data, keep, last) words of 8 B of a frame."""
    for at in range(0, len(frame), 8):
        part = frame[at : at + 8]
        yield int.from_bytes(part, "little"), (1 << len(part)) - 1, int(at + 8 >= len(frame))


class Bench:
    def __init__(self, dut, rng, rate):
        self.dut, self.rng, self.rate = dut, rng, rate
        self.waiting = [[] for _ in range(PORTS)]
        self.out = []
        start_clock(dut)
        dut.stop.value = dut.s_axis_tvalid.value = 0
        cocotb.start_soon(self.run())

    async def run(self):
        dut, part, now = self.dut, bytearray(), [[] for _ in range(PORTS)]
        while True:
            for p in range(PORTS):
                if not now[p] and self.waiting[p]:
                    now[p] = list(words(self.waiting[p].pop(0)))
            heads = [queue[0] if queue else (0, 0, 0) for queue in now]
            dut.s_axis_tvalid.value = sum(bool(queue) << p for p, queue in enumerate(now))
            dut.s_axis_tdata.value = sum(head[0] << 64 * p for p, head in enumerate(heads))
            dut.s_axis_tkeep.value = sum(head[1] << 8 * p for p, head in enumerate(heads))
            dut.s_axis_tlast.value = sum(head[2] << p for p, head in enumerate(heads))
            willing = self.rng.random() < self.rate
            dut.m_axis_tready.value = int(willing)
            await FallingEdge(dut.clk)
            await ReadOnly()
            valid, ready = int(dut.m_axis_tvalid.value), int(dut.s_axis_tready.value)
            assert valid or not part, "a gap inside a frame"
            if valid and willing:
                count = int(dut.m_axis_tkeep.value).bit_count()
                part += int(dut.m_axis_tdata.value).to_bytes(8, "little")[:count]
                if int(dut.m_axis_tlast.value):
                    self.out.append(bytes(part))
                    part.clear()
            for p in range(PORTS):
                if ready >> p & 1 and now[p]:
                    now[p].pop(0)
            await RisingEdge(dut.clk)


@cocotb.test()
async def in_turn(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, rng.choice([1.0, 0.6]))
    await reset(dut)
    frames = [[bytes([p]) + rng.randbytes(rng.randrange(0, 70)) for _ in range(20)] for p in range(PORTS)]
    for p in range(PORTS):
        bench.waiting[p] = list(frames[p])
    while len(bench.out) < 20 * PORTS:
        await RisingEdge(dut.clk)
    for p in range(PORTS):
        assert [frame for frame in bench.out if frame[0] == p] == frames[p]
    # All ports wait all the time: no port is served twice before the others.
    for at in range(0, 20 * PORTS, PORTS):
        assert {frame[0] for frame in bench.out[at : at + PORTS]} == set(range(PORTS))
    # A port alone has no idle cycles for the others' turns; once stopped, it begins no frame.
    bench.waiting[2] = [bytes(200), bytes(200)]
    await ClockCycles(dut.clk, 6)
    dut.stop.value = 1 << 2
    assert int(dut.busy.value) == 1 << 2
    bench.waiting[0] = [bytes(20)]
    await ClockCycles(dut.clk, 200)
    assert bench.out[20 * PORTS :] == [bytes(200), bytes(20)] and not int(dut.busy.value)
    dut.stop.value = 0
    await ClockCycles(dut.clk, 200)
    assert bench.out[20 * PORTS + 2 :] == [bytes(200)]


def test_axis_mux():
    simulate("axis_mux", "test_axis_mux", {"PORTS": PORTS})
