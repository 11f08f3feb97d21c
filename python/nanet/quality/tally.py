# SPDX-License-Identifier: Apache-2.0
"""Sums from which the quality figures follow; tallies of several captures add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

MOST_RINGS = 4
NUMBERS = tuple(str(k) for k in range(MOST_RINGS + 1))  # of true rings, as keys
BIN_MM = 0.005  # of the radius differences, for the median deviation of several captures
RANGE_MM = 10.0  # matched rings differ less


@attrs.frozen
class Spread:
    """Number, mean and sum of squared deviations of values."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Spread of an array."""
        if not len(values):
            return cls()
        mean = values.mean()
        return cls(len(values), float(mean), float(((values - mean) ** 2).sum()))

    def __add__(self, other: Spread) -> Spread:
        """Spread of both sets (Chan, Golub, LeVeque 1979)."""
        if not self.n or not other.n:
            return self if self.n else other
        n, apart = self.n + other.n, other.mean - self.mean
        squares = self.squares + other.squares + apart * apart * self.n * other.n / n
        return Spread(n, self.mean + apart * other.n / n, squares)

    @property
    def average(self) -> float:
        """Mean; NaN without values."""
        return self.mean if self.n else math.nan

    @property
    def sigma(self) -> float:
        """Standard deviation; NaN without values."""
        return math.sqrt(self.squares / self.n) if self.n else math.nan


def mad(values: np.ndarray) -> float:
    """1.4826 x the median absolute deviation; NaN without values."""
    return float(1.4826 * np.median(np.abs(values - np.median(values)))) if len(values) else math.nan


def _binned_mad(counts: np.ndarray) -> float:
    """The same from a histogram of bins of BIN_MM, accurate to a bin."""
    if not counts.any():
        return math.nan
    value = (np.arange(len(counts)) + 0.5) * BIN_MM - RANGE_MM
    centre = _median(value, counts)
    distance = np.abs(value - centre)
    order = np.argsort(distance, kind="stable")
    return 1.4826 * _median(distance[order], counts[order])


def _median(value: np.ndarray, counts: np.ndarray) -> float:
    """Median of ascending values that occur `counts` times."""
    until = np.cumsum(counts)
    middle = (int(until[-1]) - 1) / 2
    low, high = np.searchsorted(until, (math.floor(middle), math.ceil(middle)), "right")
    return float((value[low] + value[high]) / 2)


def _add(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: value + other[key] for key, value in one.items()}


@attrs.frozen(kw_only=True)
class Tally:
    """Sums over selected true events. Objects: by number of counting true rings."""

    events: int
    events_paired: int
    true_rings: int
    matched_rings: int
    fakes: int
    ringless: int
    fakes_ringless: int
    rings_of: dict[str, int]
    matched_of: dict[str, int]
    paired_of: dict[str, int]
    right_of: dict[str, int]
    ring_count_matrix: list[list[int]]
    dr: Spread
    dxy: Spread
    bound_r: Spread  # variances
    bound_xy: Spread
    dr_bins: list[int]
    dr_mad: float | None  # exact, of one capture

    def __add__(self, other: Tally) -> Tally:
        """Tally of both sets of events."""
        out: dict[str, Any] = {"dr_mad": None}
        for field in attrs.fields(Tally):
            a, b = getattr(self, field.name), getattr(other, field.name)
            if field.name in ("ring_count_matrix", "dr_bins"):
                out[field.name] = (np.asarray(a) + np.asarray(b)).tolist()
            elif isinstance(a, dict):
                out[field.name] = _add(a, b)
            elif field.name != "dr_mad":
                out[field.name] = a + b
        return Tally(**out)

    def figures(self) -> dict[str, Any]:
        """Figures, with the keys of `nanet evaluate --json`."""
        keys = NUMBERS[1:]
        return {
            "events": self.events,
            "events_paired": self.events_paired,
            "true_rings": self.true_rings,
            "matched_rings": self.matched_rings,
            "fakes": self.fakes,
            "efficiency": {k: _ratio(self.matched_of[k], self.rings_of[k]) for k in keys},
            "fakes_per_event": _ratio(self.fakes, self.events),
            "fakes_per_event_noise_only": _ratio(self.fakes_ringless, self.ringless),
            "ring_count_accuracy": {k: _ratio(self.right_of[k], self.paired_of[k]) for k in NUMBERS},
            "ring_count_matrix": self.ring_count_matrix,
            "sigma_r_mm": self.dr.sigma,
            "sigma_r_mad_mm": _binned_mad(np.asarray(self.dr_bins)) if self.dr_mad is None else self.dr_mad,
            "sigma_xy_mm": self.dxy.sigma,
            "bias_r_mm": self.dr.average,
            "crlb_sigma_r_mm": math.sqrt(self.bound_r.average),
            "crlb_sigma_xy_mm": math.sqrt(self.bound_xy.average),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values; from_json restores them exactly."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Tally:
        """Tally of plain values."""
        spreads = {name: Spread(**kept[name]) for name in ("dr", "dxy", "bound_r", "bound_xy")}
        return cls(**{**kept, **spreads})


def bins(values: np.ndarray) -> list[int]:
    """Histogram of radius differences, for Tally.dr_bins."""
    size = round(2 * RANGE_MM / BIN_MM)
    index = np.clip(((values + RANGE_MM) / BIN_MM).astype(np.int64), 0, size - 1)
    return np.bincount(index, minlength=size).tolist()


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
