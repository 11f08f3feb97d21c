# SPDX-License-Identifier: SHL-2.1
"""Host build of the card's firmware: a shared library of gateware/firmware behind any register bus."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

FIRMWARE = Path(__file__).resolve().parents[2] / "firmware"
BUILD = FIRMWARE.parent.parent / "build" / "gateware" / "firmware"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion"]


def compile_shared(name: str, sources: Sequence[Path], command: Sequence[str]) -> Path:
    """Compile sources to build/gateware/firmware/<name>.so and return its path."""
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / f"{name}.so"
    unique = BUILD / f"{name}.{os.getpid()}.so"  # parallel tests may compile the same library
    cached = ["ccache"] if shutil.which("ccache") else []
    objects = []
    for source in sources:
        objects.append(str(BUILD / f"{name}.{source.stem}.{os.getpid()}.o"))
        subprocess.run([*cached, *command, "-fPIC", "-c", str(source), "-o", objects[-1]], check=True)
    subprocess.run([command[0], "-shared", *objects, "-o", str(unique)], check=True)
    unique.replace(out)
    for path in objects:
        Path(path).unlink()
    return out


def compiler(language: str) -> str:
    """Return the host's compiler; `language` is `c` or `c++`."""
    names = {"c": ("CC", "gcc", "clang"), "c++": ("CXX", "g++", "clang++")}[language]
    for name in (os.environ.get(names[0]), *names[1:]):
        if name and shutil.which(name):
            return name
    raise FileNotFoundError(f"no {language} compiler")


def constants() -> dict[str, int]:
    """Return the enumerations of nanet_fw.h by name, without the prefix."""
    text = re.sub(r"//.*", "", (FIRMWARE / "nanet_fw.h").read_text())
    out = {}
    for name, value in re.findall(r"NANET_FW_(\w+)\s*=\s*([^,}\n]+)", text):
        out[name] = eval(value, {"__builtins__": {}})
    return out


Read = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
Write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


@functools.cache
def library() -> Path:
    """Compile and load the firmware for this machine."""
    return compile_shared("nanet_fw", [FIRMWARE / "nanet_fw.c"], [compiler("c"), *STRICT, "-O2"])


class Bus(ctypes.Structure):
    """ctypes mirror of nanet_fw_bus."""

    _fields_ = (("context", ctypes.c_void_p), ("read32", Read), ("write32", Write))


class Firmware:
    """Firmware instance with `read` and `write` as its bus."""

    SIZE = 1 << 16  # upper bound for sizeof(nanet_fw)

    def __init__(self, read: Callable[[int], int], write: Callable[[int, int], None]):
        self.lib = ctypes.CDLL(str(library()))
        # References keep the ctypes callbacks alive.
        self.read = Read(lambda _, address: read(address))
        self.write = Write(lambda _, address, value: write(address, value))
        self.state = ctypes.create_string_buffer(self.SIZE)
        self.bus = Bus(None, self.read, self.write)

    def init(self) -> None:
        """Run nanet_fw_init."""
        self.lib.nanet_fw_init(self.state, ctypes.byref(self.bus))

    def step(self) -> bool:
        """Handle one request; return False if none is pending."""
        return bool(self.lib.nanet_fw_step(self.state))
