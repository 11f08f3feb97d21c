# SPDX-License-Identifier: Apache-2.0
"""Selection of one event from the tables: hits in the common plane, found rings, true rings."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from nanet.detector import Detector, as_detector
from nanet.errors import UsageError
from nanet.files import rings as ring_files
from nanet.files import truth as truth_files
from nanet.files.captures import EVENT_SCHEMA
from nanet.files.provenance import check_table
from nanet.files.tables import need

LSB_NS = 0.097464731802
PAIR_NS = 5.0  # largest time difference between an event and its truth, as in nanet.quality.evaluate
NO_RING = 255


@attrs.frozen
class Ring:
    """Ring in the common plane (mm). chi2_ndf: found rings only; particle, momentum (GeV/c): true ones."""

    x: float
    y: float
    r: float
    hits: int
    chi2_ndf: float | None = None
    particle: str = ""
    momentum: float | None = None


@attrs.frozen
class Event:
    """One event. Positions in the common plane (mm), times (ns); rings are None if unknown."""

    burst: int
    number: int
    timestamp: int
    fine_time: int
    fragments: int
    truncated: bool
    pm: np.ndarray
    dt: np.ndarray
    x: np.ndarray
    y: np.ndarray
    rings: tuple[Ring, ...] | None
    true_rings: tuple[Ring, ...] | None

    @property
    def time_ns(self) -> float:
        """Time since the start of the burst (ns)."""
        return (self.timestamp * 256 + self.fine_time) * LSB_NS

    @property
    def frame(self) -> int:
        """Frame within the burst."""
        return self.timestamp >> 8

    def title(self) -> str:
        """Title of a drawing, one line."""
        hits = len(self.pm)
        return (
            f"event {self.number}, burst {self.burst}, frame {self.frame}, {self.time_ns:.1f} ns, {hits} hits"
        )


def pm_positions(detector: str | Detector | None = None) -> np.ndarray:
    """Positions of the PMs in the common plane (mm), by PM ID: float32, shape (channels, 2); NA62: 1952.

    detector: a file, a name such as hexagonal, or a Detector; default: NA62's. UsageError.
    """
    from nanet import _core

    other = as_detector(detector)
    if other:
        return other.common

    return _core.pm_positions_common()


def event(
    events: pa.Table,
    number: int,
    rings: pa.Table | None = None,
    truth: pa.Table | None = None,
    detector: str | Detector | None = None,
) -> Event:
    """Event `number` of read_events, with rings and truth if given. UsageError: no such event, wrong tables.

    rings: from read_rings or reconstruct; rings at the event's time are used. truth: from read_truth; the
    rings of the nearest true event are used, up to 5 ns away. detector: as in pm_positions.
    """
    need(events, "events", EVENT_SCHEMA.names, "the result of read_events")
    other = as_detector(detector)
    check_table("events", events, other.core() if other else None)
    if rings is not None:
        need(rings, "rings", ring_files.SCHEMA.names, "the result of read_rings or reconstruct")
    if truth is not None:
        need(truth, "truth", truth_files.RING_SCHEMA.names, "the result of read_truth")
    if not isinstance(number, int | np.integer):
        raise UsageError(f"event {number!r}: must be a number")
    if not 0 <= number < events.num_rows:
        last = events.num_rows - 1
        right = f"must be 0 to {last}" if last >= 0 else "there are no events"
        raise UsageError(f"event {number}: {right}")
    row = events.slice(number, 1).to_pylist()[0]
    pm = np.asarray(row["pm"], dtype=np.int64)
    position = pm_positions(detector)[pm] if len(pm) else np.zeros((0, 2))
    return Event(
        row["burst"], row["event"], row["timestamp"], row["fine_time"], row["fragments"], row["truncated"],
        pm, np.asarray(row["dt"], dtype=np.float64) * LSB_NS, position[:, 0], position[:, 1],
        None if rings is None else _found(row, rings),
        None if truth is None else _true(row, truth),
    )  # fmt: skip


def _time(table: pa.Table) -> np.ndarray:
    return table["timestamp"].to_numpy().astype(np.int64) * 256 + table["fine_time"].to_numpy()


def _rows(table: pa.Table, mask: np.ndarray) -> list[dict]:
    return [table.slice(int(row), 1).to_pylist()[0] for row in np.flatnonzero(mask)]  # few


def _found(row: dict, rings: pa.Table) -> tuple[Ring, ...]:
    time = row["timestamp"] * 256 + row["fine_time"]
    same = (rings["burst"].to_numpy() == row["burst"]) & (_time(rings) == time)
    numbered = same & (rings["event"].to_numpy() == row["event"])
    rows = _rows(rings, numbered if numbered.any() else same)
    return tuple(
        Ring(r["x"], r["y"], r["r"], r["n_hits"], chi2_ndf=r["chi2_ndf"])
        for r in rows
        if r["ring"] != NO_RING
    )


def _true(row: dict, truth: pa.Table) -> tuple[Ring, ...] | None:
    time = row["timestamp"] * 256 + row["fine_time"]
    period = int((truth.schema.metadata or {}).get(truth_files.PERIOD_KEY, b"0"))
    mask = np.ones(truth.num_rows, dtype=bool)
    if period:  # the truth covers a pool of frames that was sent repeatedly
        time %= period << 16
    else:
        mask = truth["burst"].to_numpy() == row["burst"]
    off = np.where(mask, np.abs(_time(truth) - time), np.iinfo(np.int64).max)
    if not len(off) or off.min() > PAIR_NS / LSB_NS:
        return None
    key = truth["event"].to_numpy()
    rows = _rows(truth, mask & (key == key[off.argmin()]))
    return tuple(
        Ring(r["x"], r["y"], r["r"], r["n_hits"], particle=r["particle"], momentum=r["momentum"])
        for r in rows
        if r["ring"] != NO_RING
    )
