# SPDX-License-Identifier: Apache-2.0
"""Figures of an evaluation against hits, radius and distance of rings, for isolated events."""

from __future__ import annotations

from typing import Any

import numpy as np

from nanet.quality.evaluate import CENTRE_MM, RADIUS_MM, Evaluation, cut_variance

EDGES: dict[str, np.ndarray] = {
    "rings": np.arange(0.5, 5.0, 1.0),
    "ring_hits": np.arange(3.5, 25.0, 1.0),
    "event_hits": np.arange(3.5, 64.0, 4.0),
    "radius": np.append(np.arange(60.0, 180.0, 10.0), (180.0, 185.0, 191.0)),
    "separation": np.array((0, 10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 180, 220, 280.0)),
    "distance": np.array((0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 13, 16, 20.0)),
}
Curve = dict[str, list[float]]


def _bins(values: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bin of each value (low edge included; outside: len(edges) - 1), and the number in each bin."""
    size = len(edges) - 1
    index = np.searchsorted(edges, values, side="right") - 1
    index = np.where((index < 0) | (index >= size), size, index)
    return index, np.bincount(index, minlength=size + 1)[:size]


def _curve(edges: np.ndarray, n: np.ndarray, **columns: np.ndarray) -> Curve:
    """Rows of the non-empty bins."""
    some = n > 0
    parts = {"low": edges[:-1], "high": edges[1:], "n": n, **columns}
    return {name: values[some].tolist() for name, values in parts.items()}


def share_curve(values: np.ndarray, passed: np.ndarray, edges: np.ndarray) -> Curve:
    """Share of passed entries in each bin of `values`: low, high, n, value, error (binomial)."""
    index, n = _bins(values, edges)
    part = np.bincount(index[passed], minlength=len(edges))[: len(edges) - 1]
    share = part / np.maximum(n, 1)
    return _curve(edges, n, value=share, error=np.sqrt(share * (1 - share) / np.maximum(n, 1)))


def spread_curve(
    values: np.ndarray, difference: np.ndarray, variance: np.ndarray, edges: np.ndarray
) -> Curve:
    """Standard deviation of `difference` in each bin of `values`: low, high, n, value, error, bound.

    variance: lower bound of each entry's variance; `bound` is the root of its mean.
    """
    index, n = _bins(values, edges)
    at_least_one = np.maximum(n, 1)

    def mean(of: np.ndarray) -> np.ndarray:
        return np.bincount(index, weights=of, minlength=len(edges))[: len(edges) - 1] / at_least_one

    sigma = np.sqrt(np.maximum(mean(difference**2) - mean(difference) ** 2, 0))
    return _curve(
        edges, n, value=sigma, error=sigma / np.sqrt(2 * at_least_one), bound=np.sqrt(mean(variance))
    )


def of(evaluation: Evaluation) -> dict[str, Curve]:
    """All curves of one evaluation of the standard mix, isolated events.

    Efficiency against the counting true rings of the event (rings), the ring's hits (ring_hits;
    single_ring_hits: in events of one true ring), the event's hits (event_hits), the true radius
    (radius).
    For events of two counting rings, also against the distance of the centres in mm (separation), and
    against the distance in units of the matching (distance): sqrt((dcentre / 15 mm)^2 + (dR / 10 mm)^2).
    sigma_r_*: resolution of the radius with its bound.
    """
    true, rings = evaluation.true, evaluation.true.rings
    chosen = evaluation.counts & evaluation.isolated[rings.event]
    matched = evaluation.match >= 0
    number = true.ring_counts(evaluation.counts)[rings.event]
    against: dict[str, np.ndarray] = {
        "rings": number.astype(float),
        "ring_hits": rings.hits.astype(float),
        "event_hits": true.hits[rings.event].astype(float),
        "radius": rings.r,
    }
    curves = {
        name: share_curve(values[chosen], matched[chosen], EDGES[name]) for name, values in against.items()
    }
    single = chosen & (number == 1)
    curves["single_ring_hits"] = share_curve(
        against["ring_hits"][single], matched[single], EDGES["ring_hits"]
    )
    first, second = pairs_of_two(evaluation)
    keep = evaluation.isolated[rings.event[first]]
    first, second = first[keep], second[keep]
    centre = np.hypot(rings.x[first] - rings.x[second], rings.y[first] - rings.y[second])
    both = np.hypot(centre / CENTRE_MM, (rings.r[first] - rings.r[second]) / RADIUS_MM)
    for name, values in (("separation", centre), ("distance", both)):
        passed = np.concatenate((matched[first], matched[second]))
        curves[name] = share_curve(np.concatenate((values, values)), passed, EDGES[name])

    good = chosen & matched & ~np.isnan(evaluation.bounds.r)
    difference = evaluation.found.rings.r[evaluation.match[good]] - rings.r[good]
    variance = cut_variance(evaluation.bounds.r[good])
    for name in ("rings", "ring_hits", "radius"):
        curves[f"sigma_r_{name}"] = spread_curve(against[name][good], difference, variance, EDGES[name])
    return curves


def pairs_of_two(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """The two rings of each event with exactly two counting true rings: indices into true.rings."""
    rings = np.flatnonzero(evaluation.counts)
    event = evaluation.true.rings.event[rings]
    two = np.bincount(event, minlength=len(evaluation.true.time))[event] == 2
    ring = rings[two]  # sorted by event
    return ring[0::2], ring[1::2]


def against_noise(per_noise: dict[int, dict[str, Any]]) -> dict[str, Curve]:
    """Figures of the noise samples as curves: efficiency_K, count_right_K and fakes_per_event."""
    noises = sorted(per_noise)
    parts = {noise: per_noise[noise]["isolated"] for noise in noises}
    curves: dict[str, Curve] = {}
    for name, key in (("efficiency", "efficiency"), ("count_right", "ring_count_accuracy")):
        for rings in parts[noises[0]][key]:
            curves[f"{name}_{rings}"] = {
                "noise": list(noises),
                "value": [parts[n][key][rings] for n in noises],
            }
    for key in ("fakes_per_event", "fakes_per_event_noise_only"):
        curves[key] = {"noise": list(noises), "value": [parts[n][key] for n in noises]}
    return curves
