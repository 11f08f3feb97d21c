# SPDX-License-Identifier: Apache-2.0
"""`nanet bench detector`: hits outside the packets of NA62's RICH.

Arrays: `analysis.reconstruct(x, y, event)` on events of 20 hits, against the bare algorithm over the same
hits. Both on one thread, by CPU time: the least of several turns. Bare, one call: the algorithm called once,
with all rings kept. Bare, batches: 4096 events a call, each batch overwrites the rings of the former.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nanet.bench import Settings, Sheet

EVENTS, HITS = 1_000_000, 20
TURNS = 9
BATCH = 4096


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows per form of the arrays; figures `arrays_over_bare`, `arrays_over_bare_batches`."""
    arrays(settings, sheet)


def circles(events: int) -> tuple[np.ndarray, np.ndarray]:
    """Hits of one ring per event, shape (events, HITS), float32, mm."""
    random = np.random.default_rng(20261123)
    angle = random.uniform(0, 2 * np.pi, (events, HITS)).astype(np.float32)
    radius = random.uniform(100, 190, (events, 1)).astype(np.float32)
    centre = random.normal(0, 60, (2, events, 1)).astype(np.float32)
    spread = random.normal(0, 4.85, (events, HITS)).astype(np.float32)
    x = np.cos(angle) * (radius + spread) + centre[0] - np.float32(152)
    return x, np.sin(angle) * (radius + spread) + centre[1]


def arrays(settings: Settings, sheet: Sheet) -> None:
    """Time of each form of the arrays and of the bare algorithm, in turns."""
    import pyarrow as pa

    from nanet import _core
    from nanet.analysis import reconstruct

    events, name = settings.events or EVENTS, settings.only or "math"
    sheet(f"{name}: {events} events of {HITS} hits")
    x, y = (part.reshape(-1) for part in circles(events))
    number = np.repeat(np.arange(events, dtype=np.int64), HITS)
    first = np.arange(events + 1, dtype=np.uint32) * np.uint32(HITS)
    lists = [pa.ListArray.from_arrays(pa.array(first.astype(np.int32)), pa.array(part)) for part in (x, y)]
    wide = [part.astype(np.float64) for part in (x, y)]

    def table(*hits: Any) -> Callable[[], float]:
        def timed() -> float:
            start = time.thread_time()
            found = reconstruct(*hits, algorithm=name, threads=1)
            taken = time.thread_time() - start
            if found.num_rows < events:
                raise RuntimeError(f"{found.num_rows} rows for {events} events")
            return taken

        return timed

    forms: dict[str, Callable[[], float]] = {
        "bare, one call": lambda: _core.time_points(name, x, y, first),
        "bare, batches": lambda: _core.time_points(name, x, y, first, BATCH),
        "float32, event int64": table(x, y, number),
        "float32, event int32": table(x, y, number.astype(np.int32)),
        "float64, event int64": table(*wide, number),
        "lists of float32": table(*lists),
    }
    least = dict.fromkeys(forms, float("inf"))
    for _ in range(max(settings.runs, TURNS)):
        for form, timed in forms.items():
            least[form] = min(least[form], timed())
    bare, batches = least["bare, one call"], least["bare, batches"]
    for form, seconds in least.items():
        sheet.rows.append(
            {"form": form, "events": events, "cpu_s": seconds, "over_bare": seconds / bare,
             "over_bare_batches": seconds / batches}
        )  # fmt: skip
    sheet.figures["arrays_over_bare"] = least["float32, event int64"] / bare
    sheet.figures["arrays_over_bare_batches"] = least["float32, event int64"] / batches
