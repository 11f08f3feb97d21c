# SPDX-License-Identifier: SHL-2.1
"""Exhaustive comparison of route() with the reference model: all pairs of nodes, both orders and VC rules."""

import subprocess
from array import array
from itertools import product
from pathlib import Path

import pytest
from harness import build_harness, cached
from reference_torus import INJECT, LOCAL, ZYX, route
from sources import GATEWARE, packages

HERE = Path(__file__).resolve().parent
SOURCES = (HERE / "route_table.cpp", HERE / "route_table.sv")
XYZ = (0, 1, 2)
PAIRS = 12_000  # about a second


def lattices() -> list[tuple[int, int, int]]:
    """Cubes of 2 to 8, and lattices with three sizes."""
    return [*((k, k, k) for k in range(2, 9)), (1, 2, 3), (4, 3, 2), (3, 5, 2), (2, 6, 3), (1, 1, 9)]


def variants() -> list[tuple[int, int, int, int]]:
    """(input port, VC code, balanced, order X, Y, Z)."""
    network = [(port, code, 1, 0) for port in range(6) for code in (0, 1)]
    return [
        (LOCAL, INJECT, 0, 0),
        (0, 0, 0, 0),
        (3, 1, 0, 1),
        (LOCAL, 1, 0, 0),
        (LOCAL, INJECT, 1, 0),
        *network,
    ]


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(size, marks=[] if (size[0] * size[1] * size[2]) ** 2 < PAIRS else pytest.mark.complete)
        for size in lattices()
    ],
    ids=str,
)
@cached(*SOURCES)
def test_route_equals_the_reference_for_all_pairs(size):
    sources = [GATEWARE / "lint.vlt", *packages(), HERE / "route_table.sv"]
    program = build_harness("route_table", HERE / "route_table.cpp", {}, sources)
    every = variants() if (size[0] * size[1] * size[2]) ** 2 < PAIRS else variants()[:5]
    lines = "".join(" ".join(map(str, (*size, *variant))) + "\n" for variant in every)
    done = subprocess.run([program], input=lines.encode(), capture_output=True, check=True)
    table = iter(array("H", done.stdout))
    nodes = [tuple(reversed(at)) for at in product(*(range(k) for k in reversed(size)))]
    for from_port, code, balanced, xyz in every:
        for me, to in product(nodes, nodes):
            want = route(size, me, from_port, to, code, XYZ if xyz else ZYX, bool(balanced))
            bits = want.port << 6 | want.vchan << 1 | want.out_of_lattice
            assert next(table) == bits, (me, to, from_port, code, balanced, xyz)
    assert next(table, None) is None
