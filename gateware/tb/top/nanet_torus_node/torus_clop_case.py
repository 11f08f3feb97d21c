# SPDX-License-Identifier: SHL-2.1
"""CLOP filled by a MAC of the same node and, over a torus link, by one of the neighbour."""

import cocotb
import mgp
import reference_mgp
import test_receive_path
from clop_traffic import traffic
from cocotb.triggers import ClockCycles, RisingEdge
from test_receive_path import on_wire


class Bench(test_receive_path.Bench):
    """Receive path whose second MAC is at another node."""

    async def start(self, **given):
        await super().start(sob=False, **given)
        while not (int(self.dut.n0_up.value) & 1 and int(self.dut.n1_up.value) & 8):
            await RisingEdge(self.dut.clk)
        markers = [mgp.marker(board, reference_mgp.SOB) for board in range(4)]
        await self.paced([on_wire(self.take(marker)) for marker in markers])


@cocotb.test()
async def datagrams_of_another_node_fill_the_clop(dut):
    """Frames of two boards arrive at this node, those of the others at its neighbour."""
    bench = Bench(dut)
    await bench.start()
    packets = [bench.take(data) for data in traffic(bench.rng, 12)]
    await bench.send([on_wire(data) for data in packets])
    await ClockCycles(dut.clk, 2000)
    bench.compare()
    assert bench.verdicts == {"udp": len(packets) + 4}
