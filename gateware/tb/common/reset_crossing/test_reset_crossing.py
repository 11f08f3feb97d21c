# SPDX-License-Identifier: SHL-2.1
"""Bench of reset_crossing: a request resets both sides; the FIFOs clear while both are in reset."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer
from simulate import simulate


class Side:
    """One side: requests resets in its clock; checks the permitted activity of both sides."""

    def __init__(self, dut, name, period):
        self.clk, self.rst, self.out, self.clear = (
            getattr(dut, f"{name}_{port}") for port in ("clk", "rst", "out", "clear")
        )
        self.rng = random.Random(f"{cocotb.RANDOM_SEED}{name}")
        # Side in reset; its FIFO ends are in reset, or were and nothing arrived since.
        self.stands = self.empty = True
        self.served = True  # during its reset, both FIFO ends were empty
        self.resets = self.clears = 0
        self.rst.value = 1
        cocotb.start_soon(Clock(self.clk, period, "ps").start())

    async def ask(self, times):
        for length in [60, *[self.rng.choice([1, 1, 2, 30]) for _ in range(times)]]:
            await FallingEdge(self.clk)
            self.rst.value = 1
            for _ in range(length):
                await FallingEdge(self.clk)
            self.rst.value = 0
            for _ in range(self.rng.choice([1, 3, 10, 25, 200])):
                await RisingEdge(self.clk)

    async def watch(self, other):
        while True:
            await FallingEdge(self.clk)
            await ReadOnly()
            out, clear = int(self.out.value), int(self.clear.value)
            assert out or not int(self.rst.value)
            if clear:
                assert out and other.stands, "FIFO pointers jump outside a reset"
            if self.stands and not out:
                assert self.empty and self.served, "reset released before the FIFOs were cleared"
                self.resets += 1
            await RisingEdge(self.clk)
            # Effect of the last edge.
            self.clears += clear and not self.empty
            self.served &= self.stands
            self.stands, self.empty = bool(out), bool(clear) or (self.empty and bool(out))
            if self.empty and other.empty:
                self.served = other.served = True


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(("periods", ((6400, 4000), (4000, 8000), (5000, 5000), (3000, 40000))))
async def both_are_reset_together(dut, periods):
    sides = [Side(dut, name, period) for name, period in zip("ab", periods, strict=True)]
    asking = [cocotb.start_soon(side.ask(25)) for side in sides]
    await Timer(40 * max(periods), "ps")  # undefined register values after power-up have settled
    watching = [cocotb.start_soon(sides[i].watch(sides[1 - i])) for i in range(2)]
    for task in asking:
        await task
    await Timer(60 * max(periods), "ps")
    for side in sides:
        assert not int(side.out.value) and side.resets > 5 and side.clears > 5
    for task in watching:
        task.cancel()


def test_reset_crossing():
    simulate("reset_crossing", "test_reset_crossing")
