# SPDX-License-Identifier: Apache-2.0
"""One line of JSON for each burst: what it counted, how long it took, under which configuration."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO, Any

from nanet.output import plain

QUIET_S = 0.5  # nothing came and nothing is owed for so long: the burst is over
LOOK_S = 0.1
LEVELS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999))
# Upper edges of the metric's buckets, in seconds: 1, 2, 5 from 1 µs to 1 s.
EDGES_S = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0)

Histograms = Mapping[str, tuple[Any, Any]]  # stage -> upper edges in µs, counts


def coarse(histograms: Histograms) -> dict[str, dict[str, Any]]:
    """The latency histograms in the metric's buckets: stage -> cumulative counts, n, sum in seconds."""
    import numpy as np

    out = {}
    for stage, (edges, counts) in histograms.items():
        running = np.concatenate([[0], np.cumsum(counts)])
        at = np.searchsorted(edges, np.array(EDGES_S) * 1e6, side="right")
        out[stage] = {
            "buckets": running[at].astype(int).tolist(),
            "n": int(running[-1]),
            "sum_s": float(np.dot(edges, counts)) * 1e-6,
        }
    return out


def percentiles(now: tuple[Any, Any], before: tuple[Any, Any] | None) -> dict[str, float]:
    """Percentiles in µs of what a histogram gained since `before`; the largest to the width of its bin."""
    gained = dict(zip(now[0].tolist(), now[1].tolist(), strict=True))
    if before is not None:
        for edge, count in zip(before[0].tolist(), before[1].tolist(), strict=True):
            gained[edge] = gained.get(edge, 0) - count
    rows = [(edge, count) for edge, count in sorted(gained.items()) if count > 0]
    n = sum(count for _, count in rows)
    out: dict[str, float] = {}
    if n:
        wanted = list(LEVELS)
        seen = 0
        for edge, count in rows:
            seen += count
            while wanted and seen >= math.ceil(wanted[0][1] * n):
                out[wanted.pop(0)[0]] = edge
        out["max"] = rows[-1][0]
    return {**out, "n": n}


def gained(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Differences of all counts, objects of counts included; what is no count is left out."""
    out: dict[str, Any] = {}
    for key, value in now.items():
        if isinstance(value, Mapping) and key != "latency_us":
            out[key] = gained(value, before.get(key, {}))
        elif isinstance(value, int) and not isinstance(value, bool):
            out[key] = value - before.get(key, 0)
    return out


MOVING = ("packets_in", "frames_out", "events_built")  # the trigger has work while one of these grows
SETTINGS = ("threads", "buffers", "bursts")  # whole numbers of a snapshot that are no counts of a burst


class BurstLog:
    """Looks at the trigger's counters and writes a line when a burst is over."""

    def __init__(self, file: IO[str], config_hash: str) -> None:
        self._file = file
        self._hash = config_hash
        self._next = 0.0
        self._start: tuple[dict[str, Any], Histograms] = ({}, {})  # counts at the end of the last line
        self._last: dict[str, Any] = {}
        self._began: float | None = None
        self._moved = 0.0
        self._part = 1
        self._written = 0  # number of the burst of the last line

    def update(self, core: Any, final: bool = False) -> None:
        """Looks whether it is time to; final: the trigger has ended."""
        now = time.time()
        if now < self._next and not final:
            return
        self._next = now + LOOK_S
        snapshot = core.snapshot()
        before, self._last = self._last, snapshot
        if before and snapshot["bursts"] > before["bursts"] and self._open(before):
            self._write(before["bursts"], snapshot, core.histograms(), exact=False)
        if not before or any(snapshot[key] != before[key] for key in MOVING):
            self._moved = now
        if not self._open(snapshot):
            return
        if self._began is None:
            self._began = now
        owed = snapshot["frames_in"] - snapshot["frames_out"]
        if final or (not owed and now - self._moved >= QUIET_S):
            self._write(snapshot["bursts"], snapshot, core.histograms(), exact=True)

    def _open(self, snapshot: Mapping[str, Any]) -> bool:
        return any(snapshot[key] > self._start[0].get(key, 0) for key in MOVING)

    def _write(self, number: int, snapshot: dict[str, Any], histograms: Histograms, exact: bool) -> None:
        counts, stages = self._start
        self._part = self._part + 1 if number == self._written else 1
        line = {
            "kind": "burst",
            "burst": number,
            "part": self._part,
            "began": _iso(self._began or self._moved),
            "ended": _iso(self._moved),
            "edges": "exact" if exact else f"within {LOOK_S:g} s",
            "config_hash": self._hash,
            "algorithm": snapshot["algorithm"],
            "device": snapshot["device"],
            "deadline_us": snapshot["deadline_us"],
            "account_closes": snapshot["account_closes"],
            "counts": {key: value for key, value in gained(snapshot, counts).items() if key not in SETTINGS},
            "latency_us": {
                stage: percentiles(histogram, stages.get(stage)) for stage, histogram in histograms.items()
            },
        }
        self._file.write(json.dumps(plain(line), allow_nan=False) + "\n")
        self._file.flush()
        self._start, self._began, self._written = (snapshot, histograms), None, number


def _iso(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).isoformat(timespec="milliseconds")
