# SPDX-License-Identifier: SHL-2.1
"""Registers of a SystemRDL map by name, and a master of the register bus."""

from __future__ import annotations

from dataclasses import dataclass

from cocotb.triggers import RisingEdge
from sources import GATEWARE
from systemrdl import RDLCompiler
from systemrdl.node import RegNode


@dataclass(frozen=True)
class Register:
    """Register with the bits that a write changes and a read shows."""

    address: int
    reset: int
    writes: int
    reads: int
    fields: dict[str, tuple[int, int]]  # (lowest bit, width)


def register_map(name: str) -> dict[str, Register]:
    """Registers of regs/<name>.rdl by their path without the map's name."""
    compiler = RDLCompiler()
    compiler.compile_file(str(GATEWARE / "regs" / f"{name}.rdl"))
    found = {}
    for node in compiler.elaborate(top_def_name=name).top.descendants(unroll=True):
        if not isinstance(node, RegNode):
            continue
        reset = writes = reads = 0
        for field in node.fields():
            mask = (1 << field.width) - 1 << field.low
            reset |= (field.get_property("reset") or 0) << field.low
            writes |= mask if field.is_sw_writable and not field.get_property("singlepulse") else 0
            reads |= mask if field.is_sw_readable else 0
        fields = {field.inst_name: (field.low, field.width) for field in node.fields()}
        path = node.get_path().removeprefix(f"{name}.")
        found[path] = Register(node.absolute_address, reset, writes, reads, fields)
    return found


class RegisterBus:
    """Master of the register bus of a bench, by the names of a map."""

    def __init__(self, dut, name: str):
        self.dut, self.registers = dut, register_map(name)
        for signal in ("reg_request", "reg_write", "reg_bar", "reg_addr", "reg_wdata", "reg_enable"):
            getattr(dut, signal).value = 0

    async def access(self, address: int, write: bool, data: int = 0, bar: int = 0, enable: int = 15) -> int:
        """One access; AssertionError without an acknowledgement."""
        dut = self.dut
        dut.reg_addr.value, dut.reg_write.value, dut.reg_bar.value = address, int(write), bar
        dut.reg_wdata.value, dut.reg_enable.value, dut.reg_request.value = data, enable, 1
        for _ in range(50):
            await RisingEdge(dut.clk)
            if int(dut.reg_acknowledge.value):
                break
        else:
            raise AssertionError(f"no acknowledgement at {address:#x}")
        got = int(dut.reg_rdata.value)
        dut.reg_request.value = 0
        await RisingEdge(dut.clk)
        return got

    async def read(self, path: str, field: str | None = None) -> int:
        """Value of a register, or of one of its fields."""
        register = self.registers[path]
        value = await self.access(register.address, False)
        if field is None:
            return value
        low, width = register.fields[field]
        return value >> low & (1 << width) - 1

    async def write(self, path: str, data: int = 0, **fields: int) -> None:
        """Write a register: data, and fields on top of it."""
        register = self.registers[path]
        for name, value in fields.items():
            low, width = register.fields[name]
            assert value < 1 << width, f"{path}.{name} = {value}"
            data |= value << low
        await self.access(register.address, True, data)

    async def write_pair(self, path: str, value: int) -> None:
        """Write a 64-bit value, low word first."""
        await self.write(f"{path}.low", value & 0xFFFFFFFF)
        await self.write(f"{path}.high", value >> 32)

    async def read_pair(self, path: str) -> int:
        """64-bit value that does not change."""
        return await self.read(f"{path}.low") | await self.read(f"{path}.high") << 32
