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


def saturation(
    k: int,
    *,
    balanced: bool = False,
    payload_bytes: int = 256,
    buffer_words: int = 63,
    load: float = 1.0,
    cycles: int = 8000,
) -> dict[str, Any]:
    """Accepted load of a k^3 torus under uniform traffic at full load, buffers of 3.5 packets of 18 words."""
    from nanet import _core

    timing = {**_core.torus.timing("router"), "buffer_words": buffer_words}
    model = _core.torus.Model((k, k, k), timing, balanced)
    return model.run("uniform", load, payload_bytes, 2000, cycles)
