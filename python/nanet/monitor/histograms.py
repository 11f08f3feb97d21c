# SPDX-License-Identifier: Apache-2.0
"""Latency histograms of the trigger in the buckets of the Prometheus metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Upper edges of the buckets (s): 1, 2, 5 from 1 µs to 1 s.
EDGES_S = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0)

Histograms = Mapping[str, tuple[Any, Any]]  # stage -> upper edges (µs), counts


def coarse(histograms: Histograms) -> dict[str, dict[str, Any]]:
    """Latency histograms in the metric's buckets: stage -> cumulative counts, n, sum in seconds."""
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
