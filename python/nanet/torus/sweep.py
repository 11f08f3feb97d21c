# SPDX-License-Identifier: Apache-2.0
"""Load sweep of the torus model: latency and accepted load against offered load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

SATURATED = 0.95  # accepted / offered below this: the network is saturated


def sweep(
    size: tuple[int, int, int],
    timing: Mapping[str, Any],
    *,
    pattern: str = "uniform",
    loads: Iterable[float],
    payload_bytes: int = 256,
    balanced: bool = False,
    warm_cycles: int = 2000,
    cycles: int = 8000,
    seed: int = 1,
    say: Callable[[float], None] = lambda load: None,
) -> list[dict[str, Any]]:
    """One row per offered load: result of Model.run, and `saturated`."""
    from nanet import _core

    model = _core.torus.Model(size, dict(timing), balanced, seed)
    rows = []
    for load in loads:
        say(load)
        row = model.run(pattern, load, payload_bytes, warm_cycles, cycles)
        row["saturated"] = row["accepted"] < SATURATED * load
        rows.append(row)
    return rows


# Loads around the saturation of k^3 nodes.
AROUND = {4: (0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0), 8: (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 1.0)}


def saturation(
    k: int, *, balanced: bool = False, reserve: bool = False, cycles: int = 8000
) -> list[dict[str, Any]]:
    """Rows of a sweep around the saturation of a k^3 torus: uniform packets of 18 words, direct wires.

    Buffers of 63 words, 3.5 packets. The largest `accepted` is the saturation.
    """
    from nanet import _core

    timing = {**_core.torus.timing("router"), "buffer_words": 63, "reserve": reserve}
    return sweep((k, k, k), timing, loads=AROUND[k], balanced=balanced, cycles=cycles)
