# SPDX-License-Identifier: Apache-2.0
"""Oracle: circles fitted to the true hits of each ring, an upper limit for ring finders.

`oracle` is the geometric least-squares fit. `oracle_prior` also uses the constraints of the detector: the
largest radius (beta = 1), and the distribution of centres.
"""

from __future__ import annotations

import numpy as np

from nanet.quality.evaluate import MIN_HITS, Bounds, Evaluation, Events, Rings, compare
from nanet.quality.samples import Limits

NA62 = Limits()
STEPS = 40


def taubin(group: np.ndarray, x: np.ndarray, y: np.ndarray, groups: int) -> np.ndarray:
    """Circles (x, y, R) through groups of points, shape (groups, 3), by Taubin's algebraic fit.

    G. Taubin, IEEE PAMI 13 (1991) 1115. group: of each point. Not finite if the points define no circle.
    """

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(group, weights=values, minlength=groups)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        n = np.bincount(group, minlength=groups)
        mean_x, mean_y = total(x) / n, total(y) / n
        u, v = x - mean_x[group], y - mean_y[group]
        w = u * u + v * v
        uu, vv, uv, uw, vw, ww = (total(p) / n for p in (u * u, v * v, u * v, u * w, v * w, w * w))
        # Smallest root of the characteristic polynomial, by Newton's method from 0, which is below it.
        z, det, spread = uu + vv, uu * vv - uv * uv, ww - (uu + vv) ** 2
        a0 = uw * (uw * vv - vw * uv) + vw * (vw * uu - uw * uv) - spread * det
        a1 = spread * z + 4 * det * z - uw * uw - vw * vw
        a2, a3 = -3 * z * z - ww, 4 * z
        root = np.zeros(groups)
        for _ in range(12):
            value, slope = a0 + root * (a1 + root * (a2 + root * a3)), a1 + root * (2 * a2 + 3 * root * a3)
            root = root - value / slope
        below = 2 * (root * root - root * z + det)
        a, b = (uw * (vv - root) - vw * uv) / below, (vw * (uu - root) - uw * uv) / below
        return np.stack((a + mean_x, b + mean_y, np.sqrt(a * a + b * b + z)), axis=1)


def geometric(
    group: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    *,
    prior: bool = False,
    limits: Limits = NA62,
) -> np.ndarray:
    """Circles of least sum (distance - R)^2, by damped Gauss-Newton from `start`, shape (groups, 3).

    prior: adds ((centre - centre_mm) / centre_sigma_mm)^2 of the limits in units of a hit's error, and
    limits R to largest_mm.
    """
    weight = (limits.hit_sigma_mm / limits.centre_sigma_mm) ** 2 if prior else 0.0
    circles = _descend(group, x, y, start, weight, limits.centre_mm, free=True)
    beyond = np.flatnonzero(circles[:, 2] > limits.largest_mm)
    if prior and len(beyond):  # second fit, with R at the limit
        start = circles[beyond]
        start[:, 2] = limits.largest_mm
        circles[beyond] = _descend(
            *_only(beyond, len(circles), group, x, y), start, weight, limits.centre_mm, free=False
        )
    return circles


def _only(
    groups: np.ndarray, of: int, group: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the selected groups, with new consecutive group numbers."""
    number = np.full(of, -1)
    number[groups] = np.arange(len(groups))
    keep = number[group] >= 0
    return number[group[keep]], x[keep], y[keep]


def _descend(
    group: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    weight: float,
    centre: tuple[float, float],
    *,
    free: bool,
) -> np.ndarray:
    """Minimum near `start`. free: whether R is fitted. Converged groups are skipped."""
    result = start.copy()
    left = np.arange(len(start))
    p, damping = start.copy(), np.full(len(start), 1e-3)
    cost = _cost(group, x, y, p, weight, centre)
    diagonal = np.arange(3)
    for _ in range(STEPS):
        if not len(left):
            break

        def total(values: np.ndarray | None = None, group: np.ndarray = group, n: int = len(p)) -> np.ndarray:
            return np.bincount(group, weights=values, minlength=n)

        dx, dy = x - p[group, 0], y - p[group, 1]
        d = np.maximum(np.hypot(dx, dy), 1e-9)
        c, s, e = dx / d, dy / d, d - p[group, 2]
        # Normal equations of the residuals e with derivatives (-c, -s, -1).
        matrix, right = np.zeros((len(p), 3, 3)), np.zeros((len(p), 3))
        matrix[:, 0, 0], matrix[:, 1, 1] = total(c * c) + weight, total(s * s) + weight
        matrix[:, 0, 1] = matrix[:, 1, 0] = total(c * s)
        matrix[:, 2, 2] = total() if free else 1.0
        right[:, 0] = total(c * e) - weight * (p[:, 0] - centre[0])
        right[:, 1] = total(s * e) - weight * (p[:, 1] - centre[1])
        if free:
            matrix[:, 0, 2] = matrix[:, 2, 0] = total(c)
            matrix[:, 1, 2] = matrix[:, 2, 1] = total(s)
            right[:, 2] = total(e)
        matrix[:, diagonal, diagonal] = matrix[:, diagonal, diagonal] * (1 + damping[:, None]) + 1e-9
        step = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        trial = p + step
        trial_cost = _cost(group, x, y, trial, weight, centre)
        better = (trial_cost <= cost) & (trial[:, 2] > 0)
        p[better], cost[better] = trial[better], trial_cost[better]
        damping = np.where(better, damping * 0.2, damping * 8).clip(1e-9, 1e9)
        result[left] = p
        going = np.flatnonzero(~better | (np.abs(step).max(axis=1) > 1e-3))
        group, x, y = _only(going, len(p), group, x, y)
        left, p, damping, cost = left[going], p[going], damping[going], cost[going]
    return result


def _cost(
    group: np.ndarray, x: np.ndarray, y: np.ndarray, p: np.ndarray, weight: float, centre: tuple[float, float]
) -> np.ndarray:
    e = np.hypot(x - p[group, 0], y - p[group, 1]) - p[group, 2]
    far = (p[:, 0] - centre[0]) ** 2 + (p[:, 1] - centre[1]) ** 2
    return np.bincount(group, weights=e * e, minlength=len(p)) + weight * far


def oracle(
    true: Events,
    ring: np.ndarray,
    pm: np.ndarray,
    positions: np.ndarray,
    bounds: Bounds,
    *,
    prior: bool,
    limits: Limits = NA62,
) -> Evaluation:
    """Evaluation of fits to the hits of each counting true ring, with the true events.

    ring, pm: hits by source, from evaluate.ring_of_hits; positions: of the PMs, mm.
    """
    wanted = np.flatnonzero(true.rings.hits >= MIN_HITS)
    group_of = np.full(len(true.rings.event), -1)
    group_of[wanted] = np.arange(len(wanted))
    own = group_of[ring] >= 0
    group, x, y = group_of[ring[own]], positions[pm[own], 0], positions[pm[own], 1]
    start = taubin(group, x, y, len(wanted))
    # Hits nearly on a line give no circle or a huge one: start from their mean instead.
    lost = ~np.isfinite(start).all(axis=1) | (start[:, 2] > 2 * limits.largest_mm)
    n = np.maximum(np.bincount(group, minlength=len(wanted)), 1)
    start[lost, 0] = (np.bincount(group, weights=x, minlength=len(wanted)) / n)[lost]
    start[lost, 1] = (np.bincount(group, weights=y, minlength=len(wanted)) / n)[lost]
    start[lost, 2] = limits.largest_mm / 2
    circles = geometric(group, x, y, start, prior=prior, limits=limits)

    seen = np.flatnonzero(true.hits > 0)
    index = np.full(len(true.time), -1)
    index[seen] = np.arange(len(seen))
    rings = Rings(
        index[true.rings.event[wanted]], *circles.T, true.rings.hits[wanted], true.rings.number[wanted]
    )
    found = Events(true.time[seen], true.hits[seen], true.key[seen], rings)
    return compare(true, found, bounds)
