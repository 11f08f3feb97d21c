# SPDX-License-Identifier: SHL-2.1
"""Networks of nodes with links, both protocols: deliveries, bit errors, a cut link."""

import json
import subprocess
from pathlib import Path

import pytest
from harness import build_harness, cached
from sources import GATEWARE, packages

SIM = GATEWARE / "sim"
SOURCES = (SIM / "torus_network.cpp", SIM / "torus_node_sim.sv")
CELL = 17  # words of a full cell with its control word


def network() -> Path:
    """Program."""
    sources = [GATEWARE / "lint.vlt", *packages(), SIM / "torus_node_sim.sv"]
    program = SIM / "torus_network.cpp"
    return build_harness("torus_node_sim", program, {"DEPTH": 512}, sources, define="TORUS_LINKS")


def run(**options: float | str) -> dict[str, float]:
    """Result of a run, with its exit status as `status`."""
    given = {"depth": 512, "quiet": 400, "warm": 400, "mixed": 1, "payload": 64, "load": 0.5} | options
    line = [f"{name}={value}" for name, value in given.items()]
    done = subprocess.run([network(), *line], capture_output=True, text=True, check=False, timeout=900)
    return json.loads(done.stdout) | {"status": done.returncode}


@pytest.mark.complete
@pytest.mark.parametrize("compatible", [0, 1])
@pytest.mark.parametrize("size", [(2, 2, 2), (3, 2, 2), (1, 1, 4)], ids=str)
@cached(*SOURCES)
def test_every_packet_arrives_once_and_in_order(size, compatible):
    x, y, z = size
    result = run(x=x, y=y, z=z, compatible=compatible, cycles=6000, drain=1)
    assert result["status"] == 0, result
    assert result["in_flight"] == result["lost"] == 0
    assert result["packets"] > 100


@pytest.mark.complete
@pytest.mark.parametrize("rate", [1e-3, 1e-2])
@cached(*SOURCES)
def test_every_packet_arrives_under_bit_errors(rate):
    result = run(x=3, y=2, z=2, error=rate / CELL, cycles=10_000, drain=1)
    assert result["status"] == 0, result
    assert result["in_flight"] == result["lost"] == 0


@pytest.mark.complete
@pytest.mark.parametrize("compatible", [0, 1])
@cached(*SOURCES)
def test_a_cut_link_stops_no_node(compatible):
    result = run(
        x=3,
        y=2,
        z=2,
        compatible=compatible,
        break_at=3000,
        break_for=2000,
        cycles=12_000,
        drain=1,
        patience=3000,
    )
    assert result["status"] == 0, result
    assert result["lost"] > 0
    # The compatible link does not acknowledge: packets on the wire are lost without a count.
    assert result["in_flight"] <= result["lost"] + 16 * compatible
