# SPDX-License-Identifier: SHL-2.1
"""MAC model for benches of the whole card: sends frames on all channels at once, collects the output."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

import cocotb
from cocotb.triggers import Event, FallingEdge, ReadOnly, RisingEdge


class Wire:
    """Receive and transmit side of all MACs of `dut`."""

    def __init__(self, dut, rng: random.Random, rate: float = 1.0):
        self.dut, self.rng, self.rate = dut, rng, rate
        self.channels = len(dut.s_axis_rx_tvalid)
        self.lanes = len(dut.s_axis_rx_tdata) // self.channels // 8
        self.queues: list[deque[tuple[bytes, int]]] = [deque() for _ in range(self.channels)]
        self.out: list[list[bytes]] = [[] for _ in range(self.channels)]
        self.begun = [0] * self.channels  # cycle of the latest frame's first word
        self.cycle = 0
        self.idle = Event()
        dut.s_axis_rx_tvalid.value = dut.s_axis_rx_tuser.value = 0
        cocotb.start_soon(self._send())
        cocotb.start_soon(self._take())

    def put(self, frames: Iterable[tuple[int, bytes]], gap: int = 3) -> None:
        """Queue (channel, frame) pairs. `gap`: idle cycles after each frame; 10 GbE alternates 3 and 2."""
        for channel, frame in frames:
            self.queues[channel].append((frame, gap))
        self.idle.clear()

    async def send(self, frames: Iterable[tuple[int, bytes]], gap: int = 3) -> None:
        """Queue frames and wait until the last one is sent."""
        self.put(frames, gap)
        await self.idle.wait()

    async def _send(self) -> None:
        dut, lanes = self.dut, self.lanes
        state: list[tuple[bytes, int, int]] = [(b"", 0, 0)] * self.channels
        while True:
            valid = data = keep = last = 0
            for c in range(self.channels):
                frame, at, wait = state[c]
                if not frame and wait == 0 and self.queues[c]:
                    frame, wait = self.queues[c].popleft()
                    at = 0
                    self.begun[c] = self.cycle
                elif not frame:
                    state[c] = (b"", 0, max(0, wait - 1))
                    continue
                part = frame[at : at + lanes]
                valid |= 1 << c
                data |= int.from_bytes(part, "little") << 8 * lanes * c
                keep |= ((1 << len(part)) - 1) << lanes * c
                if at + lanes >= len(frame):
                    last |= 1 << c
                    state[c] = (b"", 0, wait)
                else:
                    state[c] = (frame, at + lanes, wait)
            dut.s_axis_rx_tvalid.value = valid
            if valid:
                dut.s_axis_rx_tdata.value = data
                dut.s_axis_rx_tkeep.value = keep
                dut.s_axis_rx_tlast.value = last
            elif not any(self.queues) and not any(frame for frame, _, _ in state):
                self.idle.set()
            await RisingEdge(dut.clk)
            self.cycle += 1

    async def _take(self) -> None:
        dut, lanes = self.dut, self.lanes
        parts = [bytearray() for _ in range(self.channels)]
        while True:
            willing = sum((self.rng.random() < self.rate) << c for c in range(self.channels))
            dut.m_axis_tx_tready.value = willing
            await FallingEdge(dut.clk)
            await ReadOnly()
            valid = int(dut.m_axis_tx_tvalid.value)
            for c in range(self.channels):
                assert valid >> c & 1 or not parts[c], "a gap inside a frame"
                if not valid & willing & 1 << c:
                    continue
                keep = int(dut.m_axis_tx_tkeep.value) >> lanes * c & (1 << lanes) - 1
                last = int(dut.m_axis_tx_tlast.value) >> c & 1
                count = keep.bit_count()
                assert keep == (1 << count) - 1 and count and (last or count == lanes)
                word = int(dut.m_axis_tx_tdata.value) >> 8 * lanes * c & (1 << 8 * lanes) - 1
                parts[c] += word.to_bytes(lanes, "little")[:count]
                if last:
                    self.out[c].append(bytes(parts[c]))
                    parts[c].clear()
            await RisingEdge(dut.clk)
