# SPDX-License-Identifier: Apache-2.0
"""Ring algorithms on arrays, and comparison of rings with the truth, for notebooks."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import pyarrow as pa

from nanet.analysis.arrays import device_of, reconstruct_arrays, resolve, warn_of_failure
from nanet.config.sections import DEFAULT_ALGORITHM
from nanet.detector import Detector, as_detector
from nanet.errors import UsageError
from nanet.files import rings as ring_files
from nanet.files import truth as truth_files
from nanet.files.provenance import check_table, marked, same_detector
from nanet.files.tables import need, offsets_and_values

MOST_HITS = 128  # of an event, as in the trigger


def reconstruct_hits(
    first: np.ndarray,
    pm: np.ndarray,
    algorithm: str = DEFAULT_ALGORITHM,
    *,
    device: str = "cpu",
    detector: str | Detector | None = None,
    **parameters: float,
) -> dict[str, np.ndarray]:
    """Runs an algorithm on events: event i has the hits pm[first[i]:first[i + 1]].

    The PM IDs of an event ascend without repeats; an event has at most 128 hits, as in the trigger.

    Returns columns with one row per ring: event, ring (0 = leading), n_rings, n_hits, x, y, r (mm, common
    plane), chi2_ndf.
    algorithm: a name, or the file of a plug-in such as ./mine.so. parameters: as in [algorithm.NAME] of
    the configuration. detector: a file, a name such as hexagonal, or a Detector; default: NA62's.
    device: cpu, cuda, cuda:N, or auto (a GPU if there is one); it changes no bit. UsageError.
    """
    from nanet import _core

    first, pm = _numbers("first", first, np.uint32), _numbers("pm", pm, np.uint16)
    _check_hits(first, pm)
    algorithm, numbers = resolve(algorithm, parameters)
    other = as_detector(detector)
    device = device_of(device, algorithm)
    try:
        found = _core.reconstruct(algorithm, first, pm, numbers, other.core() if other else None, device)
    except (ValueError, RuntimeError) as error:
        raise UsageError(str(error)) from None
    warn_of_failure(device, found)
    return found


def _check_hits(first: np.ndarray, pm: np.ndarray) -> None:
    """UsageError for hits out of order, repeated hits, or too many. Wrong offsets are left to the core."""
    offsets = first.astype(np.int64)
    if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != len(pm) or (np.diff(offsets) < 0).any():
        return
    hits = np.diff(offsets)
    if hits.size and hits.max() > MOST_HITS:
        event = int(hits.argmax())
        raise UsageError(f"first: event {event} has {hits[event]} hits; an event has at most {MOST_HITS}")
    owner = np.repeat(np.arange(len(hits)), hits)
    wrong = np.flatnonzero((np.diff(pm.astype(np.int64)) <= 0) & (owner[1:] == owner[:-1]))
    if wrong.size:
        at = int(wrong[0])
        raise UsageError(
            f"pm: PM {pm[at]} is followed by {pm[at + 1]} in event {owner[at]}: the hits of an event must "
            "ascend without repeats; apply numpy.unique to each event"
        )


def _numbers(name: str, values: Any, kind: type[np.unsignedinteger[Any]]) -> np.ndarray:
    """Array of the given type. UsageError if values are not whole or out of range."""
    given = np.asarray(values)
    most = int(np.iinfo(kind).max)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() > most):
        raise UsageError(f"{name}: must be whole numbers from 0 to {most}")
    return np.ascontiguousarray(given, dtype=kind)


@overload
def reconstruct(
    events: pa.Table,
    algorithm: str = ...,
    *,
    device: str = ...,
    detector: str | Detector | None = ...,
    **parameters: float,
) -> pa.Table: ...


@overload
def reconstruct(
    x: Any,
    y: Any,
    event: Any = ...,
    algorithm: str = ...,
    *,
    threads: int = ...,
    device: str = ...,
    detector: str | Detector | None = ...,
    **parameters: float,
) -> pa.Table: ...


def reconstruct(
    *hits: Any,
    algorithm: str = "",
    threads: int = 0,
    device: str = "cpu",
    detector: str | Detector | None = None,
    **parameters: Any,
) -> pa.Table:
    """Rings in the columns of rings.parquet, with primitive = 0. UsageError.

    reconstruct(events, "multiring", breadth=1): of events from read_events.
    reconstruct(x, y, event, "math"): of plain arrays of hits in mm; event: the number of each hit's event,
    ascending. Or x and y as lists of hits per event, without `event`. NumPy, Arrow, awkward or pandas; up to
    128 hits per event; threads: of the CPU, 0 means all. burst is then 0, and timestamp the event number.

    An event without rings has one row with ring = 255. Further keywords are parameters, as in
    [algorithm.NAME] of the configuration. device, detector: as in reconstruct_hits.
    """
    named = [parameters.pop(name) for name in ("events", "x", "y", "event") if name in parameters]
    given = [*hits, *named]
    if given and isinstance(given[-1], str) and not algorithm:
        algorithm = given.pop()
    algorithm = algorithm or DEFAULT_ALGORITHM
    if len(given) == 1:
        if threads:
            raise UsageError(f"threads = {threads}: is for hits at x, y; leave it out")
        return _reconstruct_events(given[0], algorithm, device, detector, **parameters)
    if len(given) not in (2, 3):
        raise UsageError("reconstruct: give events from read_events, or x, y and event")
    return reconstruct_arrays(
        *given, algorithm=algorithm, threads=threads, device=device, detector=detector, **parameters
    )


def _reconstruct_events(
    events: pa.Table,
    algorithm: str,
    device: str = "cpu",
    detector: str | Detector | None = None,
    **parameters: float,
) -> pa.Table:
    need(events, "events", ("burst", "event", "timestamp", "fine_time", "pm"), "the result of read_events")
    other = as_detector(detector)
    core = other.core() if other else None
    check_table("events", events, core)
    first, pm = offsets_and_values(events["pm"])
    found = reconstruct_hits(first, pm, algorithm, device=device, detector=detector, **parameters)
    none = np.ones(events.num_rows, dtype=bool)
    none[found["event"]] = False
    without = np.flatnonzero(none)
    row = np.concatenate([found["event"].astype(np.int64), without])
    order = np.argsort(row, kind="stable")
    row = row[order]

    def both(name: str, default: float) -> np.ndarray:
        return np.concatenate([found[name], np.full(len(without), default, found[name].dtype)])[order]

    columns: dict[str, Any] = {name: events[name].to_numpy()[row] for name in ("burst", "event", "timestamp")}
    columns["fine_time"] = events["fine_time"].to_numpy()[row]
    columns |= {name: both(name, np.nan) for name in ("x", "y", "r", "chi2_ndf")}
    columns |= {"ring": both("ring", ring_files.NO_RING), "n_rings": both("n_rings", 0)}
    columns |= {"n_hits": both("n_hits", 0), "event_hits": np.diff(first)[row]}
    columns["primitive"] = np.zeros(len(row), dtype=np.uint16)
    return marked(ring_files.table(columns), core)


def _events(table: pa.Table, no_ring: int) -> Any:
    from nanet.quality import evaluate as comparison

    names = ("burst", "timestamp", "fine_time", "event", "ring", "x", "y", "r", "n_hits", "event_hits")
    columns = {name: table[name].to_numpy() for name in names}
    return comparison.events_of(columns, no_ring)


def evaluate(truth: pa.Table, rings: pa.Table) -> Any:
    """Compares rings with the truth. Returns an Evaluation; its result() has the figures of docs/quality.md.

    truth: from read_truth; rings: from read_rings or reconstruct. UsageError for other tables.
    """
    from nanet.quality import evaluate as comparison

    need(truth, "truth", truth_files.RING_SCHEMA.names, "the result of read_truth")
    need(rings, "rings", ring_files.SCHEMA.names, "the result of read_rings or reconstruct")
    same_detector("rings", rings, "truth", truth)
    found, true = _events(rings, ring_files.NO_RING), _events(truth, truth_files.NO_RING)
    return comparison.compare(true, found, comparison.bounds_from_counts(true.rings.hits))
