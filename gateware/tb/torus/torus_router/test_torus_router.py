# SPDX-License-Identifier: SHL-2.1
"""Networks of routers: latency of a hop, deliveries, saturation, deadlock, planted faults."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import build_harness, cached
from sources import GATEWARE, RTL, packages

SIM = GATEWARE / "sim"
SOURCES = (SIM / "torus_network.cpp", SIM / "torus_router_sim.sv")
PACKET = 18  # words with header and footer
AGE = 8000  # cycles of a packet between header sent and header received, at most


def network(depth: int = 64, rtl: Path | None = None) -> Path:
    """Program with input buffers of `depth` words; `rtl` replaces modules."""
    names = sorted(path.name for path in rtl.glob("*_pkg.sv")) if rtl else []
    types = [rtl / path.name if path.name in names else path for path in packages()]
    sources = [GATEWARE / "lint.vlt", *types, SIM / "torus_router_sim.sv"]
    return build_harness("torus_router_sim", SIM / "torus_network.cpp", {"DEPTH": depth}, sources, rtl=rtl)


def run(program: Path, **options: float | str) -> dict[str, float]:
    """Result of a run, with its exit status as `status`."""
    given = [f"{name}={value}" for name, value in options.items()]
    done = subprocess.run([program, *given], capture_output=True, text=True, check=False, timeout=900)
    return json.loads(done.stdout) | {"status": done.returncode}


def cube(k: int) -> dict[str, int]:
    """Lattice of k nodes in each dimension."""
    return {"x": k, "y": k, "z": k}


@cached(*SOURCES)
def test_header_takes_five_cycles_a_hop():
    for size in (cube(2), {"x": 4, "y": 3, "z": 2}):
        result = run(network(), **size, single=1, load=0.05, cycles=8000, warm=0, payload=3, drain=1)
        assert result["status"] == 0
        assert result["hop_cycles"] == 5
        assert result["packets"] > 50


@pytest.mark.parametrize(
    "traffic",
    [
        "uniform",
        *(
            pytest.param(other, marks=pytest.mark.complete)
            for other in ("neighbour", "transpose", "tornado", "hotspot")
        ),
    ],
)
@cached(*SOURCES)
def test_every_packet_arrives_once_and_in_order(traffic):
    for extra in ({}, {"stall": 0.3}, {"atomic": 1}, {"balanced": 1}, {"reserve": 1}, {"astray": 0.1}):
        result = run(
            network(), x=3, y=2, z=4, traffic=traffic, load=0.9, mixed=1, cycles=1500, drain=1, **extra
        )
        assert result["status"] == 0, (extra, result)
        assert result["in_flight"] == 0
        assert (result["astray"] > 0) == ("astray" in extra)


@cached(*SOURCES)
def test_packets_above_4096_bytes_are_delivered_without_payload():
    options = {"load": 0.5, "mixed": 1, "cycles": 6000, "drain": 1, "long": 0.01, "patience": 20_000}
    result = run(network(), x=3, y=2, z=2, **options)
    assert result["status"] == result["in_flight"] == 0, result
    assert result["astray"] > 10


@cached(*SOURCES)
def test_a_word_per_cycle_leaves_every_output():
    # Neighbour traffic: the link and the node's output of every node are busy.
    result = run(network(), **cube(2), traffic="neighbour", load=1.2, cycles=4000)
    assert result["status"] == 0
    assert result["accepted"] > 0.97


@cached(*SOURCES)
def test_no_deadlock_with_buffers_of_one_packet():
    for extra in ({}, {"balanced": 1}, {"atomic": 1}, {"reserve": 1}):
        result = run(
            network(), x=3, y=2, z=1, depth=PACKET, load=1.0, cycles=20_000, drain=1, age=AGE, **extra
        )
        assert result["status"] == 0, result
        assert result["in_flight"] == 0


@pytest.mark.complete
@pytest.mark.parametrize("option", ["", "balanced", "reserve"])
@cached(*SOURCES)
def test_saturation(option):
    """Accepted words per node and cycle, uniform packets of 18 words, buffers of 3.5 packets."""
    given = {option: 1} if option else {}
    four = run(network(), **cube(4), load=1.0, cycles=4000, **given)
    eight = run(network(), **cube(8), load=0.5, cycles=2000, **given)
    print(f"{option}: 4x4x4 {four['accepted']}, 8x8x8 {eight['accepted']}")
    assert four["status"] == eight["status"] == 0
    assert four["accepted"] >= {"": 0.66, "balanced": 0.70, "reserve": 0.69}[option]
    assert eight["accepted"] >= (0.45 if option else 0.42)


@pytest.mark.complete
@pytest.mark.parametrize("size", [cube(2), {"x": 3, "y": 2, "z": 1}, cube(5)], ids=str)
@cached(*SOURCES)
def test_no_deadlock_in_a_long_run(size):
    cycles = 1_000_000 if size["x"] * size["y"] * size["z"] < 10 else 20_000
    result = run(network(), **size, depth=PACKET, load=1.0, cycles=cycles, drain=1, age=AGE)
    assert result["status"] == 0, result
    assert 0 < result["age"] < AGE


FAULTS = {
    "no dateline": ("nanet_torus_pkg", "vc         = {3'b0, chosen.wraps};", "vc         = 4'd0;"),
    "no space for the packet": (
        "torus_front",
        "fit |= {1'b0, words} <= avail[l] && edges[l] &&",
        "fit |=",
    ),
    "owner not exclusive": ("torus_output", "busy = (busy_q | heads) & ~tails;", "busy = '0;"),
    "space not reserved": ("torus_space", "reserved_q.data + more.data", "reserved_q.data"),
}


@pytest.mark.complete
@pytest.mark.parametrize("fault", FAULTS)
@cached(*SOURCES)
def test_planted_fault_is_found(fault, tmp_path):
    module, text, other = FAULTS[fault]
    for path in (RTL / "torus").glob("*.sv"):
        shutil.copy(path, tmp_path)
    path = tmp_path / f"{module}.sv"
    source = path.read_text()
    assert source.count(text) == 1
    path.write_text(source.replace(text, other))
    program = network(rtl=tmp_path)
    options = {"load": 1.0, "depth": PACKET, "cycles": 20_000, "patience": 3000, "drain": 1, "astray": 0.02}
    bad = [run(program, **size, **options) for size in (cube(2), {"x": 5, "y": 1, "z": 1}, cube(4))]
    assert any(result["status"] for result in bad)
