# SPDX-License-Identifier: Apache-2.0
"""Reference trigger, rings: MATH in double precision, with bounds on the error of single precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


def pm_positions() -> np.ndarray:
    """Positions in the common plane (mm), shape (1952, 2): docs/detector.md. Rows are 9 sqrt(3) mm apart."""
    inside = [(-18, -1), (0, -1), (18, -1), (-9, 0), (9, 0), (-18, 1), (0, 1), (18, 1)]
    up = [(-243, 109.12), (-234, 155.88), (-180, 187.06), (-171, 233.83), (-117, 265.00), (-18, 280.59)]
    down = [(-252, 62.35), (-261, 15.59), (-270, -31.18), (-279, -77.94), (-243, -140.30), (-207, -202.65)]
    disk = [
        (x + 45 * cell + dx, (round(y / 15.588) - cell + dy) * 9 * math.sqrt(3))
        for rows in (up, down)
        for (x, y), cells in zip(rows, (12, 12, 11, 11, 9, 6), strict=True)
        for cell in range(cells)
        for dx, dy in inside
    ]
    both = np.array(disk + disk)
    both[:976, 0] -= 127
    both[976:, 0] -= 177
    return both


PLANE = pm_positions()


@dataclass
class Fit:
    """A circle in double precision, with bounds on the error of single precision."""

    x: float = 0.0
    y: float = 0.0
    r: float = 0.0
    chi2_ndf: float = 0.0
    slack: float = 0.0  # mm
    found: bool = False
    doubtful: bool = False  # too close to a limit to decide whether there is a ring


def math_ring(pms: list[int]) -> Fit:
    """Circle that minimises sum((d^2 - r^2)^2), by least squares: the algorithm MATH."""
    if len(pms) < 4:
        return Fit()
    points = PLANE[pms]
    mean = points.mean(axis=0)
    local = points - mean
    moments = local.T @ local
    flatness = np.linalg.det(moments) / np.trace(moments) ** 2  # 0 for a line, at most 1/4
    if flatness < 0.9e-5:
        return Fit(doubtful=flatness > 0.5e-5)
    # x^2 + y^2 = 2 a x + 2 b y + c is linear in a, b, c.
    matrix = np.column_stack([2 * local, np.ones(len(pms))])
    (a, b, c), *_ = np.linalg.lstsq(matrix, (local**2).sum(axis=1), rcond=None)
    r = math.sqrt(c + a * a + b * b)
    off = (local[:, 0] - a) ** 2 + (local[:, 1] - b) ** 2 - r * r
    chi2_ndf = float(off @ off) / (2 * r * 4.85) ** 2 / (len(pms) - 3)
    # Error of single precision in the sums of p (x^2 + y^2 - usual), propagated through the normal equations.
    about = points - [-152.0, 0.0]
    sums = np.abs(about).T @ np.abs((about**2).sum(axis=1) - 32768.0)
    rounding = 4 * 2.0**-24 * sums.max() / np.linalg.eigvalsh(moments)[0]
    slack = max(1e-3 * max(1.0, 0.02 / flatness), rounding)
    doubtful = flatness < 1.1e-5 or min(abs(r - 50), abs(r - 201)) < slack
    return Fit(mean[0] + a, mean[1] + b, r, chi2_ndf, slack, 50 <= r <= 201, doubtful)
