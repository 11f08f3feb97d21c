# SPDX-License-Identifier: SHL-2.1
"""Registers behind block RAM become the RAM's own output registers, as vendors' tools do.

An ECP5 block RAM (DP16KD, PDPW16KD) gives a word 4.3 ns after the clock, or much sooner where its output
register is in use. yosys maps memories without it. Where all bits of a port that are used go to plain
registers of the port's clock and nowhere else, these are the output register: same cycles, same values.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

# Of each cell: its read ports as (outputs, clock, parameter of the register, enable of the register).
PORTS = {
    "DP16KD": (
        (("DOA", 18), "CLKA", "REGMODE_A", "OCEA"),
        (("DOB", 18), "CLKB", "REGMODE_B", "OCEB"),
    ),
    "PDPW16KD": ((("DO", 36), "CLKR", "REGMODE", "OCER"),),
}


@dataclass(frozen=True)
class Register:
    """A flip-flop: its name, the net it gives, what enables it (a net, or "1")."""

    name: str
    gives: int
    enable: int | str


def plain(name: str, cell: dict[str, Any], clock: int | str) -> Register | None:
    """Return the flip-flop if it is of `clock`, is neither reset nor preset, and takes DI; else None."""
    if cell["type"] != "TRELLIS_FF" or cell["parameters"].get("CLKMUX", "CLK") != "CLK":
        return None
    pins, parameters = cell["connections"], cell["parameters"]
    if pins.get("CLK") != [clock] or pins.get("LSR", ["0"]) not in (["0"], ["x"], []):
        return None
    if parameters.get("LSRMUX", "LSR") not in ("LSR", "0") or "DI" not in pins or not pins.get("Q"):
        return None
    mux = parameters.get("CEMUX", "CE")
    enable: int | str = "1" if mux.strip() == "1" else pins.get("CE", ["1"])[0]
    return Register(name, pins["Q"][0], enable) if mux.strip() in ("1", "CE") else None


def take(netlist: dict[str, Any], top: str) -> int:
    """Change the module `top` of yosys's JSON; return how many registers went into block RAM."""
    module = netlist["modules"][top]
    cells: dict[str, Any] = module["cells"]
    readers: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"].get(pin) == "input":
                for bit in bits:
                    if isinstance(bit, int):
                        readers[bit].append((name, pin))
    shown = {bit for port in module["ports"].values() for bit in port["bits"]}

    taken = 0
    for cell in [cell for cell in cells.values() if cell["type"] in PORTS]:
        pins = cell["connections"]
        for (prefix, width), clock, mode, enable in PORTS[cell["type"]]:
            used = [f"{prefix}{i}" for i in range(width) if pins.get(f"{prefix}{i}", ["x"])[0] in readers]
            if not used or cell["parameters"].get(mode, "NOREG") != "NOREG" or not pins.get(clock):
                continue
            if any(pins[f"{prefix}{i}"][0] in shown for i in range(width) if pins.get(f"{prefix}{i}")):
                continue
            found: list[Register] = []
            for output in used:
                to = readers[pins[output][0]]
                register = plain(to[0][0], cells[to[0][0]], pins[clock][0]) if len(to) == 1 else None
                if register and to[0][1] == "DI":
                    found.append(register)
            if len(found) != len(used) or len({register.enable for register in found}) != 1:
                continue
            for output, register in zip(used, found, strict=True):
                pins[output] = [register.gives]
                del cells[register.name]
            cell["parameters"][mode] = "OUTREG"
            pins[enable] = [found[0].enable]
            cell["port_directions"][enable] = "input"
            taken += len(used)
    return taken
