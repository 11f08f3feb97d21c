# SPDX-License-Identifier: Apache-2.0
"""Tables of rings and truth made elsewhere: columns of rings.parquet and run.parquet from plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nanet.errors import UsageError
from nanet.files import rings as ring_files
from nanet.files import truth as truth_files
from nanet.files.provenance import with_detector_of
from nanet.files.tables import need, offsets_and_values


def ring_table(
    events: pa.Table | Any,
    event: Any,
    x: Any,
    y: Any,
    r: Any,
    n_hits: Any,
    chi2_ndf: Any = None,
) -> pa.Table:
    """Rings of another finder as a table for evaluate, in the columns of rings.parquet. UsageError.

    events: from read_events, or the number of hits of each event (event i at time i, as in reconstruct on
    arrays). event: the ring's event, as row of `events`; x, y, r in mm (common plane); n_hits: hits of the
    ring. Rings of an event are ordered by n_hits; events without rings get their row.
    """
    columns = _rows(events, event, x, y, r, n_hits, chi2_ndf)
    columns["primitive"] = np.zeros(len(columns["event"]), dtype=np.uint16)
    return with_detector_of(events, ring_files.table(columns))


def truth_table(events: Any, event: Any, x: Any, y: Any, r: Any, n_hits: Any) -> pa.Table:
    """True rings of other data as a table for evaluate, in the columns of run.parquet. UsageError.

    Arguments as in ring_table. particle and momentum are null.
    """
    columns = _rows(events, event, x, y, r, n_hits, None)
    none = pa.nulls(len(columns["event"]))
    columns |= {"particle": none, "momentum": none}
    arrays = []
    for field in truth_files.RING_SCHEMA:
        values = columns[field.name]
        if isinstance(values, np.ndarray):
            missing = np.isnan(values) if pa.types.is_floating(field.type) else None
            arrays.append(pa.array(values, type=field.type, mask=missing))
        else:
            arrays.append(values.cast(field.type))
    return with_detector_of(events, pa.Table.from_arrays(arrays, schema=truth_files.RING_SCHEMA))


def _rows(
    events: Any, event: Any, x: Any, y: Any, r: Any, n_hits: Any, chi2_ndf: Any
) -> dict[str, np.ndarray]:
    """Rows of rings and of events without rings, ordered by event and number of the ring."""
    times, hits = _times(events)
    given = {"x": x, "y": y, "r": r, "n_hits": n_hits}
    given |= {"chi2_ndf": chi2_ndf} if chi2_ndf is not None else {}
    values = {name: np.asarray(column) for name, column in given.items()}
    row = np.asarray(event)
    if row.size == 0:
        row = row.astype(np.int64)
    for name, column in values.items():
        if column.shape != row.shape or column.ndim != 1 or column.dtype.kind not in "fiu":
            raise UsageError(f"{name}: must be {row.size} numbers, one per ring, as event has")
        if not np.isfinite(column).all():
            raise UsageError(f"{name}: has values that are not finite")
    if row.dtype.kind not in "iu" or (row.size and (row.min() < 0 or row.max() >= len(hits))):
        raise UsageError(f"event: must be rows of events, whole numbers from 0 to {len(hits) - 1}")
    if row.size and (values["n_hits"].min() < 0 or values["n_hits"].max() > ring_files.NO_RING):
        raise UsageError(f"n_hits: must be from 0 to {ring_files.NO_RING}")
    order = np.lexsort((-values["r"].astype(np.float64), -values["n_hits"].astype(np.float64), row))
    row = row[order].astype(np.int64)
    count = np.bincount(row, minlength=len(hits))
    if row.size and count.max() >= ring_files.NO_RING:
        raise UsageError(f"event: {int(count.argmax())} has {count.max()} rings; at most 254")
    first = np.cumsum(count) - count
    ring = np.arange(len(row)) - first[row]
    without = np.flatnonzero(count == 0)
    every = np.concatenate([row, without])
    final = np.argsort(every, kind="stable")

    def column(name: str, default: float) -> np.ndarray:
        found = values[name][order].astype(np.float64) if name in values else np.full(len(row), np.nan)
        return np.concatenate([found, np.full(len(without), default)])[final]

    every_ring = np.concatenate([ring, np.full(len(without), ring_files.NO_RING)])[final]
    every = every[final]
    columns = {name: part[every] for name, part in times.items()}
    columns |= {name: column(name, np.nan) for name in ("x", "y", "r", "chi2_ndf")}
    columns |= {"ring": every_ring.astype(np.uint8), "n_rings": count[every].astype(np.uint8)}
    columns |= {"n_hits": column("n_hits", 0).astype(np.uint8), "event_hits": hits[every].astype(np.uint16)}
    return columns


def _times(events: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Number and time of each event, and its hits."""
    if isinstance(events, pa.Table):
        need(
            events, "events", ("burst", "event", "timestamp", "fine_time", "pm"), "the result of read_events"
        )
        names = ("burst", "event", "timestamp", "fine_time")
        hits = np.diff(offsets_and_values(events["pm"])[0])
        return {name: events[name].to_numpy() for name in names}, hits
    hits = np.asarray(events)
    if hits.ndim != 1 or hits.dtype.kind not in "iu":
        raise UsageError("events: give the result of read_events, or the number of hits of each event")
    number = np.arange(len(hits))
    zero = np.zeros(len(hits), dtype=np.uint16)
    return {"burst": zero, "event": number, "timestamp": number, "fine_time": zero}, hits
