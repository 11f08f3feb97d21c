# SPDX-License-Identifier: SHL-2.1
"""Driver of all masters in front of an arbiter of the card's internal DMA interface."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge


class Masters:
    """Drives all masters from one task: packed ports cannot be driven field by field by independent drivers.

    Responses have either a port for each master or one shared port.
    """

    def __init__(self, dut, rate: float, rng: random.Random, prefix: str = "m_"):
        self.dut, self.rate, self.rng = dut, rate, rng
        self.signal = lambda name: getattr(dut, prefix + name)
        self.ports = len(self.signal("wr_valid"))
        self.width = len(self.signal("wr_data")) // self.ports // 8
        self.writes = [[] for _ in range(self.ports)]  # (Command, bytes)
        self.asks = [[] for _ in range(self.ports)]
        self.done = [[] for _ in range(self.ports)]
        self.answers = [[] for _ in range(self.ports)]  # (tag, bytes, error)
        self.task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut, ports, width, signal = self.dut, self.ports, self.width, self.signal
        showing = [None] * ports
        word_at = [0] * ports
        asking = [None] * ports
        parts = [bytearray() for _ in range(ports)]
        while True:
            taking = 0
            for p in range(ports):
                if showing[p] is None and self.writes[p] and self.rng.random() < self.rate:
                    command, data = self.writes[p][0]
                    at = word_at[p] * width
                    last = at + width >= len(data)
                    showing[p] = (command.pack(), int.from_bytes(data[at : at + width], "little"), int(last))
                if asking[p] is None and self.asks[p] and self.rng.random() < self.rate:
                    asking[p] = self.asks[p][0].pack()
                taking |= int(self.rng.random() < self.rate) << p
            signal("wr_valid").value = sum(int(s is not None) << p for p, s in enumerate(showing))
            signal("wr_cmd").value = sum((s[0] if s else 0) << (88 * p) for p, s in enumerate(showing))
            signal("wr_data").value = sum(
                (s[1] if s else 0) << (8 * width * p) for p, s in enumerate(showing)
            )
            signal("wr_last").value = sum((s[2] if s else 0) << p for p, s in enumerate(showing))
            signal("rd_valid").value = sum(int(a is not None) << p for p, a in enumerate(asking))
            signal("rd_cmd").value = sum((a or 0) << (88 * p) for p, a in enumerate(asking))
            signal("rd_data_ready").value = taking
            await FallingEdge(dut.clk)
            await ReadOnly()
            taken = int(signal("wr_valid").value) & int(signal("wr_ready").value)
            asked = int(signal("rd_valid").value) & int(signal("rd_ready").value)
            done, answer = int(signal("wr_done_valid").value), int(signal("rd_data_valid").value) & taking
            for p in range(ports):

                def field(name, bits, p=p):
                    value, at = int(signal(name).value), bits * p if len(signal(name)) > bits else 0
                    return value >> at & (1 << bits) - 1

                if taken >> p & 1:
                    word_at[p] += 1
                    if showing[p][2]:
                        self.writes[p].pop(0)
                        word_at[p] = 0
                    showing[p] = None
                if asked >> p & 1:
                    self.asks[p].pop(0)
                    asking[p] = None
                if done >> p & 1:
                    self.done[p].append(field("wr_done_tag", 8))
                if answer >> p & 1:
                    parts[p] += field("rd_data", 8 * width).to_bytes(width, "little")
                    if field("rd_data_last", 1):
                        self.answers[p].append(
                            (field("rd_data_tag", 8), bytes(parts[p]), field("rd_data_error", 1))
                        )
                        parts[p].clear()
            await RisingEdge(dut.clk)
