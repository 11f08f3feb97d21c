# SPDX-License-Identifier: SHL-2.1
"""Absorption of registers into block RAM and multipliers, as in vendor tools.

An ECP5 block RAM (DP16KD, PDPW16KD) has a clock-to-output delay of 4.3 ns, or much less with its output
register. A multiplier (MULT18X18D) takes 3.1 ns and has input and output registers. yosys maps both without
these registers. Registers of the port clock that are the only load of all used bits of a RAM port become its
output register. Registers that feed both factors, and registers that are the only load of the product, become
the multiplier's registers. Cycles and values do not change.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

# Read ports per cell: (outputs, clock, register parameter, register enable).
PORTS = {
    "DP16KD": (
        (("DOA", 18), "CLKA", "REGMODE_A", "OCEA"),
        (("DOB", 18), "CLKB", "REGMODE_B", "OCEB"),
    ),
    "PDPW16KD": ((("DO", 36), "CLKR", "REGMODE", "OCER"),),
}


@dataclass(frozen=True)
class Register:
    """A flip-flop: name, output net, enable (a net, or "1")."""

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


class _Netlist:
    """The cells of a module, with loads and driver of each net."""

    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, Any] = module["cells"]
        self.readers: dict[int, list[tuple[str, str]]] = defaultdict(list)
        self.drivers: dict[int, str] = {}
        self.shown = {bit for port in module["ports"].values() for bit in port["bits"]}
        for name, cell in self.cells.items():
            for pin, bits in cell["connections"].items():
                for bit in bits:
                    if not isinstance(bit, int):
                        continue
                    if cell["port_directions"].get(pin) == "input":
                        self.readers[bit].append((name, pin))
                    else:
                        self.drivers[bit] = name

    def register_behind(self, net: int, clock: int | str) -> Register | None:
        """Return the plain register that is the only load of `net`; else None."""
        to = self.readers[net]
        if len(to) != 1 or to[0][1] != "DI" or net in self.shown:
            return None
        return plain(to[0][0], self.cells[to[0][0]], clock)

    def register_before(self, net: int, clock: int | str) -> Register | None:
        """Return the plain register that drives `net`; else None."""
        name = self.drivers.get(net)
        return plain(name, self.cells[name], clock) if name is not None else None

    def clock_of(self, name: str) -> int | str | None:
        """Return the clock net of a cell, or None."""
        return self.cells[name]["connections"].get("CLK", [None])[0]


def _ram(netlist: _Netlist, cell: dict[str, Any]) -> int:
    """Absorb the output registers of a block RAM; return their number."""
    taken = 0
    pins = cell["connections"]
    for (prefix, width), clock, mode, enable in PORTS[cell["type"]]:
        outputs = [f"{prefix}{i}" for i in range(width) if pins.get(f"{prefix}{i}", ["x"]) != ["x"]]
        used = [pin for pin in outputs if pins[pin][0] in netlist.readers]
        if not used or cell["parameters"].get(mode, "NOREG") != "NOREG" or not pins.get(clock):
            continue
        if any(pins[pin][0] in netlist.shown for pin in outputs):
            continue
        maybe = [netlist.register_behind(pins[pin][0], pins[clock][0]) for pin in used]
        found = [register for register in maybe if register]
        if len(found) != len(used) or len({register.enable for register in found}) != 1:
            continue
        for pin, register in zip(used, found, strict=True):
            pins[pin] = [register.gives]
            del netlist.cells[register.name]
        cell["parameters"][mode] = "OUTREG"
        pins[enable] = [found[0].enable]
        cell["port_directions"][enable] = "input"
        taken += len(used)
    return taken


def _multiplier(netlist: _Netlist, name: str) -> int:
    """Absorb the input and output registers of a multiplier; return their number."""
    cell = netlist.cells[name]
    pins = cell["connections"]
    if any(key.startswith("REG_") for key in cell["parameters"]):
        return 0
    factors = [f"{factor}{i}" for factor in "AB" for i in range(18)]
    factors = [pin for pin in factors if isinstance(pins.get(pin, ["0"])[0], int)]
    outputs = [pin for pin in (f"P{i}" for i in range(36)) if isinstance(pins.get(pin, ["x"])[0], int)]
    products = [pin for pin in outputs if pins[pin][0] in netlist.readers]
    if not products or any(pins[pin][0] in netlist.shown for pin in outputs):
        return 0
    clock = netlist.clock_of(netlist.readers[pins[products[0]][0]][0][0])
    before = [netlist.register_before(pins[pin][0], clock) for pin in factors]
    behind = [netlist.register_behind(pins[pin][0], clock) for pin in products]
    ranks = [register for register in (*before, *behind) if register and register.enable == "1"]
    if len(ranks) != len(factors) + len(products):
        return 0
    for pin, register in zip(factors, ranks, strict=False):
        pins[pin] = netlist.cells[register.name]["connections"]["DI"]
        # A register with further loads stays; the multiplier gets a copy.
        netlist.readers[register.gives] = [to for to in netlist.readers[register.gives] if to != (name, pin)]
    for pin, register in zip(products, ranks[len(factors) :], strict=True):
        pins[pin] = [register.gives]
    for register in ranks:
        if register in behind or not (netlist.readers[register.gives] or register.gives in netlist.shown):
            netlist.cells.pop(register.name, None)
    for rank in ("INPUTA", "INPUTB", "OUTPUT"):
        cell["parameters"] |= {f"REG_{rank}_CLK": "CLK0", f"REG_{rank}_CE": "CE0", f"REG_{rank}_RST": "RST0"}
    for pin, net in (("CLK0", clock), ("CE0", "1"), ("RST0", "0")):
        pins[pin] = [net]
        cell["port_directions"][pin] = "input"
    return len(ranks)


def take(module: dict[str, Any]) -> int:
    """Change a module of yosys's JSON in place; return the number of absorbed registers."""
    netlist = _Netlist(module)
    rams = [cell for cell in netlist.cells.values() if cell["type"] in PORTS]
    taken = sum(_ram(netlist, cell) for cell in rams)
    netlist = _Netlist(module)
    multipliers = [name for name, cell in netlist.cells.items() if cell["type"] == "MULT18X18D"]
    return taken + sum(_multiplier(netlist, name) for name in multipliers)
