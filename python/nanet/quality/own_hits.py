# SPDX-License-Identifier: Apache-2.0
"""Hits that belong to one true ring only; rings that share their hits are hard to count."""

from __future__ import annotations

import numpy as np

from nanet.quality.evaluate import MOST_RINGS, Evaluation

ENOUGH = (2, 3, 4)


def own_hits(
    evaluation: Evaluation, ring: np.ndarray, pm: np.ndarray, positions: np.ndarray, reach_mm: float = 12.0
) -> np.ndarray:
    """Per true ring: number of its hits out of reach of every other counting ring of the event.

    ring, pm: hits by source, from evaluate.ring_of_hits; positions: of the PMs, mm. reach_mm:
    largest distance of a hit from its circle.
    """
    rings, counts = evaluation.true.rings, evaluation.counts
    x, y = positions[pm].T
    alone = np.ones(len(ring), dtype=bool)
    for step in (*range(1 - MOST_RINGS, 0), *range(1, MOST_RINGS)):  # rings of an event are adjacent
        other = np.clip(ring + step, 0, len(rings.event) - 1)
        is_other = (ring + step == other) & (rings.event[other] == rings.event[ring]) & counts[other]
        distance = np.abs(np.hypot(x - rings.x[other], y - rings.y[other]) - rings.r[other])
        alone &= ~(is_other & (distance < reach_mm))
    return np.bincount(ring[alone], minlength=len(rings.event))


def separable(evaluation: Evaluation, own: np.ndarray) -> dict[str, dict[str, float]]:
    """Share of isolated events of K counting true rings in which each ring has at least M separate hits.

    Keys: str(M), then str(K); NaN without such events.
    """
    true, counts = evaluation.true, evaluation.counts
    number = true.ring_counts(counts)
    result = {}
    for enough in ENOUGH:
        lacking = true.ring_counts(counts & (own < enough)) > 0
        per_number = {}
        for k in range(1, MOST_RINGS + 1):
            chosen = evaluation.isolated & (number == k)
            per_number[str(k)] = float((~lacking[chosen]).mean()) if chosen.any() else float("nan")
        result[str(enough)] = per_number
    return result
