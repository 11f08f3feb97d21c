# SPDX-License-Identifier: SHL-2.1
"""Microcontroller model: the real firmware behind the fw_* bus, with configurable delays."""

from __future__ import annotations

import cocotb
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, Lock, RisingEdge
from firmware_host import Firmware


class Microcontroller:
    """Runs nanet_fw_step while fw_interrupt is high.

    `wake`: cycles from the interrupt to the first access. `think`: cycles per request. `beside`:
    microcontroller of another stream of the card on the same bus.
    """

    def __init__(
        self, dut, wake: int = 0, think: int = 0, stream: int = 0, beside: Microcontroller | None = None
    ):
        self.dut, self.wake, self.think, self.stream = dut, wake, think, stream
        self.steps = 0
        self.lock = beside.lock if beside else Lock()
        dut.fw_request.value = dut.fw_write.value = 0
        self.firmware = Firmware(resume(self._read), resume(self._write))
        cocotb.start_soon(self._run())

    async def _access(self, address: int, write: int, value: int = 0) -> int:
        dut = self.dut
        async with self.lock:
            dut.fw_addr.value, dut.fw_write.value = self.stream << 8 | address, write
            dut.fw_wdata.value, dut.fw_request.value = value, 1
            await RisingEdge(dut.clk)
            while not int(dut.fw_acknowledge.value):
                await RisingEdge(dut.clk)
            dut.fw_request.value = 0
            got = int(dut.fw_rdata.value)
            await RisingEdge(dut.clk)
        return got

    async def _read(self, address: int) -> int:
        return await self._access(address, 0)

    async def _write(self, address: int, value: int) -> None:
        await self._access(address, 1, value)

    async def _run(self) -> None:
        step = bridge(self.firmware.step)
        begun = False
        while True:
            while not int(self.dut.fw_interrupt.value) >> self.stream & 1:
                await RisingEdge(self.dut.clk)
            if not begun:
                await bridge(self.firmware.init)()
                begun = True
            await ClockCycles(self.dut.clk, self.wake + 1)
            while True:
                if self.think:
                    await ClockCycles(self.dut.clk, self.think)
                if not await step():
                    break
                self.steps += 1
            await RisingEdge(self.dut.clk)
