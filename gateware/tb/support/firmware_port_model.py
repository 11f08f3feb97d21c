# SPDX-License-Identifier: SHL-2.1
"""Reference model of firmware_port: the firmware's registers and their effects."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping

from firmware_host import Firmware, constants

FW = constants()
NEVER = 1 << 64
PAGE_LIST = 0x1234_5678_9000
_WIDE = ("SILENCE", "NOW", "NEWEST", "ALARM", "REPORT", "MISS", "FILL", "FETCH", "FETCHED", "CLOP", "PAGES")
_REGISTERS = (
    *(
        "ID",
        "STATUS",
        "CONFIG",
        "TIMEOUT",
        "GRACE",
        "SLOWPATH",
        "STAMP",
        "FILLED",
        "COUNT",
        "FRAME",
        "NUMBER",
    ),
    *("COMMAND", *_WIDE),
)
NAMES = {FW[name]: name for name in _REGISTERS}
NAMES |= {FW[name] + 4: f"{name}+4" for name in _WIDE}
NAMES |= {FW["HEADER"] + 4 * i: f"HEADER{i}" for i in range(4)}


class Port:
    """Firmware with its registers; a subclass supplies the fast path that executes the commands."""

    packets = 0  # packets per buffer in gather mode `packets`
    processor: type = Firmware  # class that executes the firmware

    def __init__(
        self,
        boards: int,
        timeout: int,
        silence: int,
        replay: bool,
        pages: Mapping[int, int] | None,
        clop: int,
        page_shift: int,
    ):
        self.boards, self.timeout, self.silence, self.replay = boards, timeout, silence, replay
        self.pages, self.clop, self.page_shift = dict(pages or {}), clop, page_shift
        self.now = self.last_packet = 0
        self.start, self.drain_due = True, False
        self.rare: dict[str, int] | None = None
        self.rare_header = bytes(16)
        self.rare_stamp = 0
        self.misses: deque[int] = deque()
        self.fills: list[tuple[int, int, bool]] = []
        self.alarm = NEVER
        self.answer: int | None = None
        self.written: dict[int, int] = {}
        self.fetched = (0, False)
        self.reports = [0, 0]
        self.high = 0
        self.requests = 0
        self.firmware = self.processor(self.read, self.write)
        self.firmware.init()

    def command(self, word: int) -> None:
        """Execute a firmware command."""
        raise NotImplementedError

    def read(self, address: int) -> int:
        """Read a register of firmware_port."""
        name = NAMES[address]
        wide = {
            "SILENCE": self.silence,
            "FETCHED": self.fetched[0],
            "CLOP": self.clop,
            "PAGES": PAGE_LIST,
            "MISS": self.misses[0] if self.misses else 0,
        }
        if name in ("NOW", "NEWEST"):
            value = self.now if name == "NOW" else self.last_packet
            self.high = value >> 32
            return value & 0xFFFFFFFF
        if name in ("NOW+4", "NEWEST+4"):
            return self.high
        if name.removesuffix("+4") in wide:
            return wide[name.removesuffix("+4")] >> (32 if name.endswith("+4") else 0) & 0xFFFFFFFF
        if name == "STATUS":
            return (
                self.start
                | (self.rare is not None) << 1
                | bool(self.misses) << 2
                | (self.now >= self.alarm) << 3
                | self.drain_due << 4
                | self.fetched[1] << 9
            )
        if name.startswith("HEADER"):
            return struct.unpack_from("<I", self.rare_header, address - FW["HEADER"])[0]
        return {
            "ID": 0x3157464E,
            "CONFIG": self.boards | self.replay << 4 | bool(self.packets) << 5 | self.page_shift << 8,
            "TIMEOUT": self.timeout,
            "GRACE": 0,
            "SLOWPATH": self.rare_word(),
            "STAMP": self.rare_stamp & 0xFFFFFFFF,
            "COUNT": max(self.pages, default=-1) + 1,
        }[name]

    def rare_word(self) -> int:
        rare = self.rare or {}
        return sum(FW[f"SLOWPATH_{name}"] for name, set_ in rare.items() if set_ and name != "CHANNEL")

    def write(self, address: int, value: int) -> None:
        """Write a register of firmware_port."""
        name = NAMES[address]
        self.written[address] = value
        if name == "STATUS":
            self.start &= not value & FW["HAS_START"]
            self.drain_due &= not value & FW["HAS_DRAIN"]
            if value & FW["HAS_ALARM"]:
                self.alarm = NEVER
        elif name == "ALARM+4":
            self.alarm = self.written[FW["ALARM"]] | value << 32
        elif name.startswith("REPORT"):
            self.reports[name.endswith("+4")] = value
        elif name == "FETCH+4":
            index = ((self.written[FW["FETCH"]] | value << 32) - PAGE_LIST) // 8
            self.fetched = (self.pages.get(index, 0), index not in self.pages)
        elif name == "FILLED":
            paddr = self.written.get(FW["FILL"], 0) | self.written.get(FW["FILL"] + 4, 0) << 32
            self.fills.append((self.misses.popleft(), paddr, bool(value & 1)))
        elif name == "COMMAND":
            self.command(value)
        else:
            assert name in ("FRAME", "NUMBER", "ALARM", "FETCH", "FILL", "FILL+4"), name
