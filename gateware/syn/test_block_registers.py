# SPDX-License-Identifier: SHL-2.1
"""Tests of block_registers: registers are absorbed only if no other logic is affected."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import block_registers
import pytest

Netlist = dict[str, Any]
CLOCK, ENABLE, OTHER = 2, 3, 4


def cell(
    kind: str, parameters: dict[str, str], outputs: set[str], pins: dict[str, list[Any]]
) -> dict[str, Any]:
    """Return a cell as yosys writes it."""
    directions = {pin: "output" if pin in outputs else "input" for pin in pins}
    return {"type": kind, "parameters": parameters, "port_directions": directions, "connections": pins}


def register(take: int, give: int) -> dict[str, Any]:
    """Return a flip-flop without reset that is always enabled."""
    pins = {"CLK": [CLOCK], "DI": [take], "LSR": ["0"], "Q": [give]}
    return cell("TRELLIS_FF", {"CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR"}, {"Q"}, pins)


def memory() -> Netlist:
    """Return a memory with two registered output bits, and one gate after each register."""
    ram = cell(
        "DP16KD",
        {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG"},
        {"DOB0", "DOB1", "DOB2"},
        {"CLKA": [CLOCK], "CLKB": [CLOCK], "OCEB": ["1"], "DOB0": [10], "DOB1": [11], "DOB2": [12]},
    )
    cells = {
        "ram": ram,
        "one": register(10, 20),
        "two": register(11, 21),
        "gate": cell("LUT4", {}, {"Z"}, {"A": [20], "B": [21], "Z": [30]}),
    }
    return {"modules": {"top": {"ports": {"out": {"direction": "output", "bits": [30]}}, "cells": cells}}}


def take(netlist: Netlist) -> int:
    """Return the number of absorbed registers."""
    return block_registers.take(netlist["modules"]["top"])


def cells(netlist: Netlist) -> dict[str, Any]:
    """Return the cells of the module."""
    return netlist["modules"]["top"]["cells"]


def test_registers_are_taken() -> None:
    """The RAM drives the register outputs; an unused output is unchanged."""
    netlist = memory()
    assert take(netlist) == 2
    assert set(cells(netlist)) == {"ram", "gate"}
    ram = cells(netlist)["ram"]
    assert ram["parameters"] == {"REGMODE_A": "NOREG", "REGMODE_B": "OUTREG"}
    assert [ram["connections"][pin] for pin in ("DOB0", "DOB1", "DOB2", "OCEB")] == [[20], [21], [12], ["1"]]


def test_an_enable_of_all_is_the_output_registers() -> None:
    """Registers with a common enable pass it to the port."""
    netlist = memory()
    for name in ("one", "two"):
        cells(netlist)[name]["parameters"]["CEMUX"] = "CE"
        cells(netlist)[name]["connections"]["CE"] = [ENABLE]
    assert take(netlist) == 2
    assert cells(netlist)["ram"]["connections"]["OCEB"] == [ENABLE]


def reset(netlist: Netlist) -> None:
    """One register is reset."""
    cells(netlist)["two"]["connections"]["LSR"] = [OTHER]


def other_clock(netlist: Netlist) -> None:
    """One register has another clock."""
    cells(netlist)["two"]["connections"]["CLK"] = [OTHER]


def falling_edge(netlist: Netlist) -> None:
    """One register uses the falling edge."""
    cells(netlist)["two"]["parameters"]["CLKMUX"] = "INV"


def enables_differ(netlist: Netlist) -> None:
    """One register has an enable, the other does not."""
    cells(netlist)["two"]["parameters"]["CEMUX"] = "CE"
    cells(netlist)["two"]["connections"]["CE"] = [ENABLE]


def enabled_by_a_zero(netlist: Netlist) -> None:
    """One register has an active-low enable."""
    cells(netlist)["two"]["parameters"]["CEMUX"] = "INV"


def read_twice(netlist: Netlist) -> None:
    """A gate reads the RAM before the register."""
    cells(netlist)["gate"]["connections"]["C"] = [11]
    cells(netlist)["gate"]["port_directions"]["C"] = "input"


def shown(netlist: Netlist) -> None:
    """An output port of the module is driven by the RAM bit."""
    netlist["modules"]["top"]["ports"]["out"]["bits"].append(11)


def other_input(netlist: Netlist) -> None:
    """The bit drives a control input of a register."""
    cells(netlist)["two"]["connections"] |= {"DI": [OTHER], "CE": [11]}
    cells(netlist)["two"]["port_directions"]["CE"] = "input"


@pytest.mark.parametrize(
    "change",
    [reset, other_clock, falling_edge, enables_differ, enabled_by_a_zero, read_twice, shown, other_input],
)
def test_what_would_behave_otherwise_stays(change: Callable[[Netlist], None]) -> None:
    """The module is unchanged."""
    netlist = memory()
    change(netlist)
    before = copy.deepcopy(netlist)
    assert take(netlist) == 0
    assert netlist == before


def multiplier() -> Netlist:
    """Return a registered 2 x 1 bit multiplier, and a gate after its output registers."""
    product = cell(
        "MULT18X18D",
        {},
        {"P0", "P1", "P2"},
        {"A0": [20], "A1": [21], "A2": ["0"], "B0": [22], "P0": [30], "P1": [31], "P2": [32]},
    )
    inputs = {f"in{i}": register(10 + i, 20 + i) for i in range(3)}
    outputs = {f"out{i}": register(30 + i, 40 + i) for i in range(2)}
    gate = cell("LUT4", {}, {"Z"}, {"A": [40], "B": [41], "Z": [50]})
    ports = {"out": {"direction": "output", "bits": [50]}}
    return {
        "modules": {"top": {"ports": ports, "cells": {"product": product, **inputs, **outputs, "gate": gate}}}
    }


def test_a_multiplier_takes_the_registers_around_it() -> None:
    """Factors connect directly, the product is registered; an unused output is unchanged."""
    netlist = multiplier()
    assert take(netlist) == 5
    assert set(cells(netlist)) == {"product", "gate"}
    product = cells(netlist)["product"]
    pins = product["connections"]
    assert [pins[pin] for pin in ("A0", "A1", "A2", "B0")] == [[10], [11], ["0"], [12]]
    assert [pins[pin] for pin in ("P0", "P1", "P2", "CLK0", "CE0")] == [[40], [41], [32], [CLOCK], ["1"]]
    assert {product["parameters"][f"REG_{rank}_CLK"] for rank in ("INPUTA", "INPUTB", "OUTPUT")} == {"CLK0"}


def test_a_factor_that_others_read_too_keeps_its_register() -> None:
    """The multiplier gets a copy of the register."""
    netlist = multiplier()
    cells(netlist)["gate"]["connections"]["A1"] = [21]
    cells(netlist)["gate"]["port_directions"]["A1"] = "input"
    assert take(netlist) == 5
    assert set(cells(netlist)) == {"product", "gate", "in1"}
    assert cells(netlist)["product"]["connections"]["A1"] == [11]


def factor_without_register(netlist: Netlist) -> None:
    """A gate drives one bit of a factor."""
    cells(netlist)["in1"] = cell("LUT4", {}, {"Z"}, {"A": [11], "Z": [21]})


def factor_from_a_pin(netlist: Netlist) -> None:
    """An input port drives one bit of a factor."""
    del cells(netlist)["in2"]
    netlist["modules"]["top"]["ports"]["in"] = {"direction": "input", "bits": [22]}


def factor_reset(netlist: Netlist) -> None:
    """One factor's register is reset."""
    cells(netlist)["in0"]["connections"]["LSR"] = [OTHER]


def factor_of_another_clock(netlist: Netlist) -> None:
    """One factor's register has another clock."""
    cells(netlist)["in0"]["connections"]["CLK"] = [OTHER]


def product_enabled(netlist: Netlist) -> None:
    """One register of the product has an enable."""
    cells(netlist)["out1"]["parameters"]["CEMUX"] = "CE"
    cells(netlist)["out1"]["connections"]["CE"] = [ENABLE]


def product_read_before(netlist: Netlist) -> None:
    """A gate reads the unregistered product."""
    cells(netlist)["gate"]["connections"]["C"] = [31]
    cells(netlist)["gate"]["port_directions"]["C"] = "input"


def product_shown(netlist: Netlist) -> None:
    """An output port of the module is driven by a product bit."""
    netlist["modules"]["top"]["ports"]["out"]["bits"].append(30)


@pytest.mark.parametrize(
    "change",
    [
        factor_without_register,
        factor_from_a_pin,
        factor_reset,
        factor_of_another_clock,
        product_enabled,
        product_read_before,
        product_shown,
    ],
)
def test_a_multiplier_that_would_behave_otherwise_stays(change: Callable[[Netlist], None]) -> None:
    """The module is unchanged."""
    netlist = multiplier()
    change(netlist)
    before = copy.deepcopy(netlist)
    assert take(netlist) == 0
    assert netlist == before
