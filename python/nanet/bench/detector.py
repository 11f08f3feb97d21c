# SPDX-License-Identifier: Apache-2.0
"""`nanet bench detector`: detectors from files, and hits outside the packets of NA62's RICH.

File: NA62's detector from its file beside the compiled one, in turns: processor time of this process for
generation and for replays. `file_over_builtin`: the largest of the medians of the ratios.

Arrays: `analysis.reconstruct(x, y, event)` on events of 20 hits, against the bare algorithm over the same
hits. Both on one thread, by CPU time, in turns whose order alternates: medians of the ratios within a turn.
Memory of the results is in use before the first turn that counts. Bare, one call: the algorithm called once,
with all rings kept. Bare, batches: 4096 events a call, each batch overwrites the rings of the former.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nanet.bench import Settings, Sheet, median
from nanet.detector import load

EVENTS, HITS = 1_000_000, 20
TURNS = 15
BATCH = 4096
FILE_EVENTS, PAIRS, ALGORITHMS = 300_000, 9, ("math", "multiring")


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows per work and per form of the arrays; `file_over_builtin`, `arrays_over_bare`, `…_batches`."""
    file(settings, sheet)
    arrays(settings, sheet)


def file(settings: Settings, sheet: Sheet) -> None:
    """Pairs of runs; the order within a pair alternates. Both must give the same results."""
    from nanet import _core

    events = settings.events or FILE_EVENTS
    from_file = load("na62").dictionary()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        capture = str(Path(folder) / "run.pcap")

        def generate(detector: dict[str, Any] | None) -> Any:
            core = _core.Capture({"events": events, "seed": 20, "detector": detector}, capture)
            while core.next(2048):
                pass
            return core.totals()

        def replay(algorithm: str, detector: dict[str, Any] | None) -> Any:
            core = _core.Replay({"pcap": capture, "algorithm": algorithm, "detector": detector})
            core.run()
            result = core.result()
            return [result[key] for key in ("events_built", "hits_in", "rings", "primitives_out")]

        pairs(sheet, "generate", generate, from_file)
        for algorithm in ALGORITHMS:
            pairs(sheet, f"replay, {algorithm}", partial(replay, algorithm), from_file)
    sheet.figures["file_over_builtin"] = max(float(row["file_over_builtin"]) for row in sheet.rows)


def pairs(
    sheet: Sheet,
    what: str,
    work: Callable[[dict[str, Any] | None], Any],
    from_file: dict[str, Any],
) -> None:
    """Times one kind of work in pairs. RuntimeError if the results differ."""
    sheet(what)
    spent: dict[bool, list[float]] = {True: [], False: []}
    results = []
    work(None)  # the first run finds cold caches
    for pair in range(PAIRS):
        for by_file in (pair % 2 == 0, pair % 2 == 1):
            began = time.process_time()
            results.append(work(from_file if by_file else None))
            spent[by_file].append(time.process_time() - began)
    if any(result != results[0] for result in results):
        raise RuntimeError(f"{what}: the detector from the file gives other results than the compiled one")
    ratios = [mine / other for mine, other in zip(spent[True], spent[False], strict=True)]
    sheet.rows.append(
        {
            "work": what,
            "pairs": PAIRS,
            "builtin_s": median(spent[False]),
            "file_s": median(spent[True]),
            "file_over_builtin": median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
        }
    )


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
    spent: dict[str, list[float]] = {form: [] for form in forms}
    for turn in range(-1, max(settings.runs, TURNS)):
        for form in list(forms)[:: 1 if turn % 2 else -1]:
            seconds = forms[form]()
            if turn >= 0:
                spent[form].append(seconds)

    def ratios(form: str, bare: str) -> list[float]:
        return [mine / other for mine, other in zip(spent[form], spent[bare], strict=True)]

    for form, seconds in spent.items():
        over = ratios(form, "bare, one call")
        sheet.rows.append(
            {"form": form, "events": events, "turns": len(seconds), "cpu_s": median(seconds),
             "over_bare": median(over), "over_bare_batches": median(ratios(form, "bare, batches")),
             "lowest": min(over), "highest": max(over)}
        )  # fmt: skip
    chosen = "float32, event int64"
    sheet.figures["arrays_over_bare"] = median(ratios(chosen, "bare, one call"))
    sheet.figures["arrays_over_bare_batches"] = median(ratios(chosen, "bare, batches"))
