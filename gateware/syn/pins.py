# SPDX-License-Identifier: SHL-2.1
"""Register and pin wrapper around a synthesised card, for placement and routing.

A card has more ports than a device has pins. Without pins, the placement has no anchor and clocks do not use
the global network. Inputs are loaded through register chains, outputs end in registers. Nets with very high
fan-out, such as a reset, come from a pin.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

CHAIN = 16  # registers behind a pin
MANY = 500  # cells
REGISTER = {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"}


def _clocks(cells: dict) -> set[int]:
    """Return the nets that clock anything."""
    return {
        bit
        for cell in cells.values()
        for port, bits in cell["connections"].items()
        if port.startswith("CLK")
        for bit in bits
        if isinstance(bit, int)
    }


def surround(netlist: dict[str, Any], top: str) -> None:
    """Wrap the module `top` of yosys's JSON in place; exactly one of its ports must be a clock."""
    module = netlist["modules"][top]
    cells, ports = module["cells"], module["ports"]
    used = _clocks(cells)
    clocks = [
        name for name, port in ports.items() if port["direction"] == "input" and port["bits"][0] in used
    ]
    if len(clocks) != 1:
        raise ValueError(f"{top} has the clocks {', '.join(clocks) or 'none'}: there has to be one")
    clock = ports.pop(clocks[0])
    loads = Counter(bit for cell in cells.values() for bits in cell["connections"].values() for bit in bits)
    free = max(bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)) + 1
    bits = [bit for port in ports.values() if port["direction"] == "input" for bit in port["bits"]]
    inputs = [bit for bit in bits if loads[bit] <= MANY]
    outputs = [bit for port in ports.values() if port["direction"] == "output" for bit in port["bits"]]
    ports.clear()
    ports[clocks[0]] = clock
    for bit in bits:
        if loads[bit] > MANY:
            ports[f"direct_{bit}"] = {"direction": "input", "bits": [bit]}

    def register(name: str, before: int | str, after: int) -> None:
        nets = {"CLK": clock["bits"], "DI": [before], "Q": [after], "CE": ["1"], "LSR": ["0"]}
        directions = {port: "output" if port == "Q" else "input" for port in nets}
        cells[name] = {
            "hide_name": 0,
            "type": "TRELLIS_FF",
            "parameters": REGISTER,
            "attributes": {},
            "port_directions": directions,
            "connections": nets,
        }

    for place, bit in enumerate(inputs):
        if place % CHAIN == 0:
            before, free = free, free + 1
            ports[f"pin_{place // CHAIN}"] = {"direction": "input", "bits": [before]}
        register(f"pin_in_{place}", before, bit)
        before = bit
    for place, bit in enumerate(outputs):
        register(f"pin_out_{place}", bit, free)
        free += 1
