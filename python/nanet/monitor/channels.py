# SPDX-License-Identifier: Apache-2.0
"""Dead and hot photomultipliers, found by comparison with their neighbours."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

NEIGHBOURS = 2.06  # in pitches: two rings of the hexagonal lattice, 18 neighbours
DEAD_BELOW = 20.0  # expected hits; probability of zero by chance: 2e-9
HOT_FACTOR, HOT_SIGMA = 3.0, 8.0


@functools.cache
def _neighbours(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of each PM on its disk, shape (PMs, most neighbours), and the mask of valid entries."""
    place, pitch = _positions(file)
    far = NEIGHBOURS * pitch
    order = np.argsort(place[:, 0], kind="stable")
    along = place[order, 0]
    near = []
    for x, y, disk in place.tolist():
        some = order[np.searchsorted(along, x - far) : np.searchsorted(along, x + far, "right")]
        dx, dy = place[some, 0] - x, place[some, 1] - y
        distance = np.hypot(dx, dy)
        near.append(np.sort(some[(distance > 0) & (distance < far) & (place[some, 2] == disk)]))
    most = max(1, *map(len, near))
    index, taken = np.zeros((len(near), most), int), np.zeros((len(near), most), bool)
    for pm, others in enumerate(near):
        index[pm, : len(others)] = others
        taken[pm, : len(others)] = True
    return index, taken


def _positions(file: str) -> tuple[np.ndarray, float]:
    """Position on the disk and number of the disk of each PM, shape (PMs, 3), and the pitch, in mm."""
    if file:
        from nanet.detector import load_or_default

        detector = load_or_default(file)
        position, disk, pitch = detector.position, detector.disk, detector.display.pitch_mm
    else:
        from nanet import _core

        position = _core.pm_positions_disk()
        disk, pitch = np.arange(len(position)) // (len(position) // 2), 18.0
    return np.column_stack((position.astype(float), disk)), pitch


def expected(occupancy: Sequence[int] | np.ndarray, detector: str = "") -> np.ndarray:
    """Expected count of each PM: the median of its neighbours. detector: its file; "": NA62's."""
    index, taken = _neighbours(detector)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a PM without neighbours has no expectation
        return np.nan_to_num(
            np.nanmedian(np.where(taken, np.asarray(occupancy, float)[index], np.nan), axis=1)
        )


def judge(
    occupancy: Sequence[int] | np.ndarray, masked: Sequence[int] = (), detector: str = ""
) -> dict[str, list[int]]:
    """PM IDs that are dead (no hits, unlike the neighbours), hot (far above the neighbours), and masked.

    Masked PMs are not judged: their counts date from before the mask.
    """
    counts = np.asarray(occupancy, float)
    wanted = expected(counts, detector)
    dead = (counts == 0) & (wanted >= DEAD_BELOW)
    excess = counts - wanted
    hot = (counts > HOT_FACTOR * wanted) & (excess > HOT_SIGMA * np.sqrt(wanted + 1)) & (counts >= DEAD_BELOW)
    silenced = np.zeros(len(counts), bool)
    silenced[list(masked)] = True
    return {"dead": _ids(dead & ~silenced), "hot": _ids(hot & ~silenced), "masked": _ids(silenced)}


def _ids(mask: np.ndarray) -> list[Any]:
    return np.flatnonzero(mask).tolist()
