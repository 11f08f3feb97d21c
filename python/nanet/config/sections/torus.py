# SPDX-License-Identifier: Apache-2.0
"""Section of the torus model."""

from __future__ import annotations

from typing import ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.sections import shared
from nanet.config.values import check_of


@attrs.frozen(kw_only=True)
class Torus(Section):
    """Event-driven torus model."""

    name: ClassVar[str] = "torus"

    engine: str = option(
        "model",
        "Event-driven model, or simulated routers (source tree with Verilator).",
        choices=("model", "rtl"),
    )
    size: str = option("4x4x4", "Nodes per dimension.", check=check_of(values.torus_size))
    traffic: str = option(
        "uniform",
        "Traffic pattern.",
        choices=("uniform", "transpose", "neighbour", "hotspot", "halo"),
    )
    load: str = option(
        "0.05,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
        "Offered loads, words per node and cycle, by commas.",
        check=check_of(values.torus_loads),
    )
    payload: int = option(256, "Payload of a packet.", low=0, high=4096, unit="B")
    link: str = option(
        "router",
        "Link between routers: direct wires, or a protocol.",
        choices=("router", "reliable", "apelink"),
    )
    vc_rule: str = option(
        "infn", "Virtual channel of packets that do not wrap.", choices=("infn", "balanced")
    )
    injection: str = option(
        "plain",
        "Space that a packet from a node needs: its own, or reserve: further space for packets under way.",
        choices=("plain", "reserve"),
    )
    buffer: int = option(0, "Words of an input buffer per VC; 0: 512.", low=0, high=1 << 20, unit="words")
    cycles: int = option(8000, "Measured cycles per load.", low=1, high=10**9)
    warm: int = option(2000, "Cycles before.", low=0, high=10**9)
    seed: int = shared.seed("Seed of the traffic.")
    iterations: int = option(60, "Iterations of the program (demo).", low=3, high=1_000_000)
    errors: float = option(
        0.01, "Share of words that one link damages in the middle third (demo).", low=0.0, high=0.1
    )
    gflops: float = option(135.0, "Sustained speed of one GPU (lqcd).", low=1.0, high=1e6, unit="Gflop/s")
