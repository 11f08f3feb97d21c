# SPDX-License-Identifier: Apache-2.0
"""Simulated routers (gateware/sim/torus_network.cpp), built from the source tree, beside the model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nanet.simulation import GATEWARE, build
from nanet.torus.sweep import SATURATED

PROGRAM = GATEWARE / "sim" / "torus_network.cpp"
CREDIT = 63  # words of an input buffer
WORDS = 16  # payload of a packet
WARM = 2000
# Loads up to 80 in 100 of each pattern's saturation at 4x4x4, and cycles: more where the mean latency
# scatters more between runs.
LOADS = (
    ("uniform", 0.2, 24_000),
    ("uniform", 0.5, 24_000),
    ("transpose", 0.2, 24_000),
    ("transpose", 0.4, 100_000),
    ("neighbour", 0.5, 24_000),
    ("hotspot", 0.05, 160_000),
)


def network(depth: int = 64) -> Path:
    """Program of simulated routers with input buffers of `depth` words, a power of two. RuntimeError.

    Compiled at the first call.
    """
    return build(PROGRAM, GATEWARE / "sim" / "torus_router_sim.sv", {"DEPTH": depth})


def cards() -> Path:
    """Program of simulated torus cards for the processes of `nanet torus serve`. RuntimeError.

    Compiled at the first call.
    """
    source = GATEWARE.parent / "src" / "nanet"
    parts = ("torus/card/memory.cpp", "torus/packet.cpp", "gateware/torus_driver.cpp")
    return build(
        GATEWARE / "sim" / "torus_cards.cpp",
        GATEWARE / "sim" / "torus_card_sim.sv",
        {"DEPTH": 512},
        [source / part for part in parts],
    )


def payload_efficiency() -> float:
    """Payload words per word of a simulated reliable link, full packets. RuntimeError."""
    bench = GATEWARE / "tb" / "apelink" / "reliable_port" / "reliable_link.cpp"
    link = build(bench, GATEWARE / "rtl" / "apelink" / "reliable_port.sv")
    return float(run(link, mixed=0, cycles=30_000)["efficiency"])


def run(program: Path, **options: float | str) -> dict[str, Any]:
    """Result of a run. RuntimeError after a wrong delivery or a deadlock."""
    done = subprocess.run(
        [program, *(f"{name}={value}" for name, value in options.items())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"simulated routers: {done.stdout or done.stderr}")
    return json.loads(done.stdout)


def hop_cycles(program: Path) -> int:
    """Header to header in an empty network."""
    return run(program, x=2, y=2, z=2, single=1, load=0.05, cycles=3000, warm=0, payload=3, drain=1)[
        "hop_cycles"
    ]


def compare(program: Path, k: int, pattern: str, load: float, cycles: int) -> dict[str, Any]:
    """Accepted load and mean latency of a k^3 torus in both, and the relative errors of the model."""
    from nanet import _core

    seen = run(
        program,
        x=k,
        y=k,
        z=k,
        traffic=pattern,
        load=load,
        payload=WORDS,
        depth=CREDIT,
        warm=WARM,
        cycles=cycles,
    )
    timing = {**_core.torus.timing("router"), "buffer_words": CREDIT}
    model = _core.torus.Model((k, k, k), timing).run(pattern, load, WORDS * 16, WARM, cycles)
    return {
        "size": f"{k}x{k}x{k}",
        "traffic": pattern,
        "offered": load,
        "rtl_accepted": seen["accepted"],
        "model_accepted": model["accepted"],
        "rtl_cycles": seen["latency"],
        "model_cycles": model["mean_cycles"],
        "throughput_error": model["accepted"] / seen["accepted"] - 1,
        "latency_error": model["mean_cycles"] / seen["latency"] - 1,
    }


def sweep(
    size: Sequence[int],
    *,
    pattern: str,
    loads: Iterable[float],
    payload_bytes: int,
    buffer_words: int,
    balanced: bool,
    reserve: bool = False,
    warm_cycles: int,
    cycles: int,
    seed: int,
    say: Callable[[float], None],
) -> list[dict[str, Any]]:
    """Rows as of nanet.torus.sweep.sweep, without percentiles and link loads. RuntimeError."""
    program = network(1 << buffer_words.bit_length())
    rows = []
    for load in loads:
        say(load)
        seen = run(
            program, x=size[0], y=size[1], z=size[2], traffic=pattern, load=load, depth=buffer_words,
            payload=-(-payload_bytes // 16), warm=warm_cycles, cycles=cycles, balanced=int(balanced),
            reserve=int(reserve), seed=seed,
        )  # fmt: skip
        rows.append(
            {
                "offered": load,
                "accepted": seen["accepted"],
                "mean_cycles": seen["latency"],
                "max_cycles": seen["oldest"],
                "packets": seen["packets"],
                "deadlocked": bool(seen["deadlock"]),
                "saturated": seen["accepted"] < SATURATED * load,
            }
        )
    return rows
