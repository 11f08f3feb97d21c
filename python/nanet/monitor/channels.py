# SPDX-License-Identifier: Apache-2.0
"""Dead and hot photomultipliers, found by comparison with their neighbours."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

NEIGHBOURS_MM = 37.0  # two rings of the lattice: 18 neighbours
DEAD_BELOW = 20.0  # expected hits; probability of zero by chance: 2e-9
HOT_FACTOR, HOT_SIGMA = 3.0, 8.0


@functools.cache
def _neighbours() -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of each PM on its disk, shape (1952, 18), and the mask of valid entries."""
    from nanet import _core

    disk = _core.pm_positions_disk().astype(float)
    number = len(disk)
    half = number // 2
    index = np.zeros((number, 18), int)
    taken = np.zeros((number, 18), bool)
    for pm in range(number):
        first = 0 if pm < half else half
        distance = np.hypot(*(disk[first : first + half] - disk[pm]).T)
        near = np.flatnonzero((distance > 0) & (distance < NEIGHBOURS_MM)) + first
        index[pm, : len(near)] = near
        taken[pm, : len(near)] = True
    return index, taken


def expected(occupancy: Sequence[int] | np.ndarray) -> np.ndarray:
    """Expected count of each of the 1952 PMs: the median of its neighbours."""
    index, taken = _neighbours()
    return np.nanmedian(np.where(taken, np.asarray(occupancy, float)[index], np.nan), axis=1)


def judge(occupancy: Sequence[int] | np.ndarray, masked: Sequence[int] = ()) -> dict[str, list[int]]:
    """PM IDs that are dead (no hits, unlike the neighbours), hot (far above the neighbours), and masked.

    Masked PMs are not judged: their counts date from before the mask.
    """
    counts = np.asarray(occupancy, float)
    wanted = expected(counts)
    dead = (counts == 0) & (wanted >= DEAD_BELOW)
    excess = counts - wanted
    hot = (counts > HOT_FACTOR * wanted) & (excess > HOT_SIGMA * np.sqrt(wanted + 1)) & (counts >= DEAD_BELOW)
    silenced = np.zeros(len(counts), bool)
    silenced[list(masked)] = True
    return {"dead": _ids(dead & ~silenced), "hot": _ids(hot & ~silenced), "masked": _ids(silenced)}


def _ids(mask: np.ndarray) -> list[Any]:
    return np.flatnonzero(mask).tolist()
