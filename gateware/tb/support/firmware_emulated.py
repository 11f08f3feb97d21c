# SPDX-License-Identifier: SHL-2.1
"""Emulated firmware: cross-compiled for microcontrollers, executed by Unicorn behind any register bus.

The registers of the firmware port are mapped into the emulated memory, as on a card. Instructions are
counted.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from firmware_host import BUILD, FIRMWARE, STRICT

CODE, DATA, STACK, PORT, END = 0x0010_0000, 0x2000_0000, 0x2010_0000, 0x4000_0000, 0x0FFF_F000
PAGE = 0x1000
TARGETS = {
    "riscv32": ["--target=riscv32-unknown-elf", "-march=rv32imc", "-mno-relax"],
    "cortex-m3": ["--target=thumbv7m-none-eabi", "-mcpu=cortex-m3"],
}
# Target-specific additions to the firmware: the bus, and functions that the compiler calls implicitly.
MACHINE = f"""
#include <stddef.h>
#include "nanet_fw.c"
uint32_t port_read(void* context, uint32_t address) {{
  (void)context;
  return *(volatile uint32_t*)({PORT}u + address);
}}
void port_write(void* context, uint32_t address, uint32_t value) {{
  (void)context;
  *(volatile uint32_t*)({PORT}u + address) = value;
}}
void* memset(void* to, int value, size_t bytes) {{
  for (unsigned char* at = to; bytes; --bytes) *at++ = (unsigned char)value;
  return to;
}}
void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {{
  unsigned char* at = to;
  for (const unsigned char* next = from; bytes; --bytes) *at++ = *next++;
  return to;
}}
#ifdef __arm__
void __aeabi_memclr(void* to, size_t bytes) {{ memset(to, 0, bytes); }}
void __aeabi_memclr4(void* to, size_t bytes) {{ memset(to, 0, bytes); }}
void __aeabi_memclr8(void* to, size_t bytes) {{ memset(to, 0, bytes); }}
void __aeabi_memcpy(void* to, const void* from, size_t bytes) {{ memcpy(to, from, bytes); }}
void __aeabi_memcpy4(void* to, const void* from, size_t bytes) {{ memcpy(to, from, bytes); }}
void __aeabi_memcpy8(void* to, const void* from, size_t bytes) {{ memcpy(to, from, bytes); }}
#endif
"""
CALL_THUMB, CALL_RISCV = 10, (18, 19)  # ELF relocation types of a call


@dataclass(frozen=True)
class Image:
    """Linked code as loaded at CODE, with the addresses of its functions."""

    text: bytes
    symbols: dict[str, int]


def cross_compiler() -> str | None:
    """Return a cross compiler, or None."""
    return shutil.which("clang") or shutil.which("clang-14")


@functools.cache
def image(target: str) -> Image:
    """Compile the firmware for a target and link its single section."""
    place = BUILD / target
    place.mkdir(parents=True, exist_ok=True)
    source, out = place / "machine.c", place / "machine.o"
    source.write_text(MACHINE)
    flags = [*TARGETS[target], *STRICT, "-Os", "-ffreestanding", "-fno-builtin", "-fno-unwind-tables"]
    subprocess.run([cross_compiler(), *flags, f"-I{FIRMWARE}", "-c", str(source), "-o", str(out)], check=True)
    return link(out.read_bytes())


def link(elf: bytes) -> Image:
    """Return a relocatable ELF file's .text with resolved calls; anything else to link is an error."""
    (at,) = struct.unpack_from("<I", elf, 32)
    size, count, names = struct.unpack_from("<3H", elf, 46)
    headers = [struct.unpack_from("<10I", elf, at + i * size) for i in range(count)]
    name = {i: string(elf, headers[names][4] + h[0]) for i, h in enumerate(headers)}
    section = {name[i]: h for i, h in enumerate(headers)}
    text = bytearray(content(elf, section[".text"]))
    strings = section[".strtab"][4]
    values, symbols = [], {}
    for word, value, _, info, _, where in struct.iter_unpack("<3I2BH", content(elf, section[".symtab"])):
        values.append(value if name.get(where) == ".text" else None)
        if info & 15 == 2:
            symbols[string(elf, strings + word)] = CODE + value
    for title, entry in ((".rel.text", "<2I"), (".rela.text", "<2Ii")):
        for offset, info, *_ in (
            struct.iter_unpack(entry, content(elf, section[title])) if title in section else ()
        ):
            target = values[info >> 8]
            if target is None or info & 255 not in (CALL_THUMB, *CALL_RISCV):
                raise ValueError(f"unsupported relocation in the firmware: {info & 255}")
            resolve(text, offset, target, info & 255 == CALL_THUMB)
    for title, header in section.items():
        if title.startswith((".data", ".bss", ".rodata")) and header[5]:
            raise ValueError(f"unsupported section in the firmware: {title}")
    return Image(bytes(text), symbols)


def resolve(text: bytearray, offset: int, target: int, thumb: bool) -> None:
    """Write a call's distance into its instruction."""
    if thumb:
        distance = (target & ~1) - offset - 4
        sign = distance < 0
        upper = 0xF000 | sign << 10 | distance >> 12 & 0x3FF
        i1, i2 = distance >> 23 & 1, distance >> 22 & 1
        lower = 0xD000 | (i1 ^ sign ^ 1) << 13 | (i2 ^ sign ^ 1) << 11 | distance >> 1 & 0x7FF
        struct.pack_into("<2H", text, offset, upper, lower)
        return
    distance = target - offset
    upper, lower = struct.unpack_from("<2I", text, offset)
    high = distance + 0x800 & 0xFFFF_F000
    struct.pack_into("<2I", text, offset, upper & 0xFFF | high, lower & 0xF_FFFF | (distance & 0xFFF) << 20)


def content(elf: bytes, header: tuple[int, ...]) -> bytes:
    """Return the contents of a section."""
    return elf[header[4] : header[4] + header[5]]


def string(elf: bytes, at: int) -> str:
    """Return the null-terminated string at an offset."""
    return elf[at : elf.index(0, at)].decode()


class EmulatedFirmware:
    """Same interface as `Firmware` of firmware_host. `instructions`, `accesses`: counts of the last call."""

    target = "riscv32"

    def __init__(self, read: Callable[[int], int], write: Callable[[int, int], None]):
        import unicorn
        from unicorn import arm_const, riscv_const

        self.thumb = self.target != "riscv32"
        self.image = image(self.target)
        if self.thumb:
            self.cpu = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
            self.cpu.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M3)
            names = ("UC_ARM_REG_SP", "UC_ARM_REG_LR", "UC_ARM_REG_R0", "UC_ARM_REG_R1")
            self.registers = [getattr(arm_const, name) for name in names]
        else:
            self.cpu = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
            names = ("UC_RISCV_REG_SP", "UC_RISCV_REG_RA", "UC_RISCV_REG_A0", "UC_RISCV_REG_A1")
            self.registers = [getattr(riscv_const, name) for name in names]
        self.instructions = self.accesses = 0
        self.lengths: dict[tuple[int, int], int] = {}
        self.trouble: Exception | None = None
        self.cpu.mem_map(CODE, 8 * PAGE)
        self.cpu.mem_map(END, PAGE)
        self.cpu.mem_map(DATA, 8 * PAGE)
        self.cpu.mem_map(STACK - 4 * PAGE, 4 * PAGE)
        self.cpu.mem_write(CODE, self.image.text)

        def load(_cpu: object, offset: int, _size: int, _data: object) -> int:
            self.accesses += 1
            try:
                return read(offset)
            except Exception as error:  # the exception cannot pass the C frames of the emulator
                self.stop(error)
                return 0

        def store(_cpu: object, offset: int, _size: int, value: int, _data: object) -> None:
            self.accesses += 1
            try:
                write(offset, value & 0xFFFF_FFFF)
            except Exception as error:
                self.stop(error)

        self.cpu.mmio_map(PORT, PAGE, load, None, store, None)
        self.cpu.hook_add(unicorn.UC_HOOK_BLOCK, self.count)

    def stop(self, error: Exception) -> None:
        """Store an exception of the bus; `call` raises it."""
        self.trouble = self.trouble or error
        self.cpu.emu_stop()

    def count(self, _cpu: object, address: int, size: int, _data: object) -> None:
        """Add the instructions of a block; their first bits give their length, two or four bytes."""
        key = (address, size)
        if key not in self.lengths:
            text, at, number = self.cpu.mem_read(address, size), 0, 0
            while at < size:
                long = text[at + 1] >> 3 >= 0b11101 if self.thumb else text[at] & 3 == 3
                at, number = at + (4 if long else 2), number + 1
            self.lengths[key] = number
        self.instructions += self.lengths[key]

    def call(self, function: str, *arguments: int) -> int:
        """Run a function to its end and return its result."""
        stack, link_register, result, second = self.registers
        self.instructions = self.accesses = 0
        self.cpu.reg_write(stack, STACK)
        self.cpu.reg_write(link_register, END | self.thumb)
        for register, value in zip((result, second), arguments, strict=False):
            self.cpu.reg_write(register, value)
        # A request takes some hundred instructions; the limit of a million catches endless loops.
        self.cpu.emu_start(self.image.symbols[function] | self.thumb, END, count=1_000_000)
        if self.trouble:
            trouble, self.trouble = self.trouble, None
            raise trouble
        return self.cpu.reg_read(result)

    def init(self) -> None:
        """Run nanet_fw_init."""
        functions = [self.image.symbols[name] | self.thumb for name in ("port_read", "port_write")]
        self.cpu.mem_write(DATA, struct.pack("<3I", 0, *functions))
        self.call("nanet_fw_init", DATA + 16, DATA)

    def step(self) -> bool:
        """Handle one request; return False if none is pending."""
        return bool(self.call("nanet_fw_step", DATA + 16))
