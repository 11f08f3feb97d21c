# SPDX-License-Identifier: Apache-2.0
"""Comparison of found rings with the truth: the quality figures, by the definitions of docs/quality.md."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations
from typing import Any

import attrs
import numpy as np

from nanet.detector import Detector
from nanet.errors import UsageError
from nanet.files import rings as found_rings
from nanet.files import truth
from nanet.files.parquet import read_columns
from nanet.files.provenance import check_metadata
from nanet.quality.tally import MOST_RINGS, NUMBERS, Spread, Tally, bins, mad

LSB_NS = 0.097464731802
PAIR_NS = 5.0  # largest time difference of a true and a found event that are paired
ISOLATED_NS = 25.0  # an isolated event is farther than this from both neighbours
CENTRE_MM, RADIUS_MM = 15.0, 10.0  # largest differences of a matched pair of rings
MIN_HITS = 4  # fewest hits of a counting true ring
HIT_SIGMA_MM = 4.85  # distance of a hit from its ring: PM 4.74 and optics 1.0 in quadrature
BURST_LSB = 1 << 41  # longer than a burst; puts bursts one after the other on a common time axis
MAX_REPEATED_ROWS = 50_000_000


@attrs.define
class Rings:
    """Rings of events, sorted by event. event: index into the events."""

    event: np.ndarray
    x: np.ndarray
    y: np.ndarray
    r: np.ndarray
    hits: np.ndarray
    number: np.ndarray  # number in the file


@attrs.define
class Events:
    """Events in order of time, with rings. time: LSB, bursts BURST_LSB apart. key: number in the file."""

    time: np.ndarray
    hits: np.ndarray
    key: np.ndarray
    rings: Rings

    def ring_counts(self, wanted: np.ndarray | None = None) -> np.ndarray:
        """Number of the selected rings per event."""
        event = self.rings.event if wanted is None else self.rings.event[wanted]
        return np.bincount(event, minlength=len(self.time))


def events_of(columns: Mapping[str, np.ndarray], no_ring: int) -> Events:
    """Rows of either file (ring = no_ring: event without rings) as events in order of time."""
    burst, number = columns["burst"].astype(np.int64), columns["event"].astype(np.int64)
    time = burst * BURST_LSB + columns["timestamp"].astype(np.int64) * 256 + columns["fine_time"]
    order = np.lexsort((columns["ring"], number, time))
    time, number, ring = time[order], number[order], columns["ring"][order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(time) != 0) | (np.diff(number) != 0)
    index = np.cumsum(new) - 1
    has = ring != no_ring
    rows = order[has]
    rings = Rings(
        index[has], *(columns[name][rows].astype(np.float64) for name in ("x", "y", "r")),
        columns["n_hits"][rows].astype(np.int64), ring[has],
    )  # fmt: skip
    return Events(time[new], columns["event_hits"][order][new].astype(np.int64), number[new], rings)


_COMMON = ("burst", "timestamp", "fine_time", "event", "ring", "x", "y", "r", "n_hits", "event_hits")


def read_found(path: str, detector: Mapping[str, Any] | None = None) -> Events:
    """Events and rings of rings.parquet. detector: dictionary for the core; None: NA62's. UsageError."""
    remedy = "give a file from `nanet replay --out`"
    columns, metadata = read_columns("--rings", path, found_rings.SCHEMA, (*_COMMON, "n_rings"), remedy)
    check_metadata(f"--rings {path}", metadata, detector)
    _check_rings("--rings", path, columns, found_rings.NO_RING)
    return events_of(columns, found_rings.NO_RING)


def read_true(path: str, found: Events, detector: Mapping[str, Any] | None = None) -> Events:
    """Events and rings of run.parquet, repeated over the time range of `found` for a readout. UsageError."""
    remedy = "give a file from `nanet generate --truth` or `nanet readout --truth`"
    columns, metadata = read_columns("--truth", path, truth.RING_SCHEMA, (*_COMMON, "momentum"), remedy)
    check_metadata(f"--truth {path}", metadata, detector)
    _check_rings("--truth", path, columns, truth.NO_RING)
    period = metadata.get(truth.PERIOD_KEY, b"0")
    if not period.isdigit():
        raise UsageError(f"--truth {path}: metadata {truth.PERIOD_KEY.decode()} is no number: {remedy}")
    if int(period):
        columns = _repeat(path, columns, int(period), found)
    return events_of(columns, truth.NO_RING)


def _check_rings(option: str, path: str, columns: dict[str, np.ndarray], no_ring: int) -> None:
    for name in ("x", "y", "r"):
        if not np.isfinite(columns[name][columns["ring"] != no_ring]).all():
            raise UsageError(f"{option} {path}: column {name} has empty places in rows that are rings")


def _repeat(path: str, columns: dict[str, np.ndarray], period: int, found: Events) -> dict[str, np.ndarray]:
    """Truth of a pool of `period` frames, repeated over the bursts of the found events."""
    burst, frame = found.time // BURST_LSB, (found.time % BURST_LSB) >> 16
    pool_frame = columns["timestamp"] >> 8
    events = int(columns["event"].max(initial=0)) + 1
    parts, rows, times = [], 0, 0
    for number in np.unique(burst):
        last = int(frame[burst == number].max())
        for start in range(0, last + 1, period):
            keep = pool_frame + np.int64(start) <= last
            part = {name: values[keep] for name, values in columns.items()}
            part["burst"] = np.full(len(part["burst"]), number, dtype=np.uint16)
            part["timestamp"] = part["timestamp"] + np.uint32(start << 8)
            part["event"] = part["event"] + np.uint64(events * times)
            parts.append(part)
            times += 1
            rows += int(keep.sum())
            if rows > MAX_REPEATED_ROWS:
                raise UsageError(
                    f"--truth {path}: repeated as often as --rings goes it has more than "
                    f"{MAX_REPEATED_ROWS} rings: give the rings of a shorter run"
                )
    return {name: np.concatenate([part[name] for part in parts]) if parts else values[:0]
            for name, values in columns.items()}  # fmt: skip


def pair(true: np.ndarray, found: np.ndarray, window: float) -> np.ndarray:
    """Pairs two ascending arrays of times one to one, nearest first, up to `window` apart.

    Returns for each entry of `true` the index into `found`, or -1. Mutual nearest neighbours among the
    remaining entries form a pair, until there are none. Of two equally near entries the earlier is nearest.
    """
    partner = np.full(len(true), -1, dtype=np.int64)
    left_true, left_found = np.arange(len(true)), np.arange(len(found))
    while len(left_true) and len(left_found):
        a, b = true[left_true], found[left_found]
        to_b, distance = _nearest(a, b)
        to_a, _ = _nearest(b, a)
        mutual = (to_a[to_b] == np.arange(len(a))) & (distance <= window)
        if not mutual.any():
            break
        partner[left_true[mutual]] = left_found[to_b[mutual]]
        keep = np.ones(len(b), dtype=bool)
        keep[to_b[mutual]] = False
        left_true, left_found = left_true[~mutual & (distance <= window)], left_found[keep]
    return partner


def _nearest(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the nearest entry of b for each entry of a (ties: the earlier), and the distance."""
    after = np.clip(np.searchsorted(b, a), 0, len(b) - 1)
    before = np.maximum(after - 1, 0)
    index = np.where(np.abs(a - b[before]) <= np.abs(a - b[after]), before, after)
    return index, np.abs(a - b[index])


def isolated(time: np.ndarray) -> np.ndarray:
    """Mask of the events (times in LSB, ascending) farther than ISOLATED_NS from both neighbours."""
    far = np.diff(time) > ISOLATED_NS / LSB_NS
    return (
        np.concatenate(([True], far)) & np.concatenate((far, [True]))
        if len(time)
        else np.zeros(0, dtype=bool)
    )


def match_rings(true: Rings, found: Rings, true_ok: np.ndarray, found_ok: np.ndarray) -> np.ndarray:
    """Matches rings of the same event one to one: the largest number of pairs, then the smallest distance.

    The `event` of both must refer to the same events. true_ok, found_ok: masks of the rings that take
    part. Returns for each true ring the index of the found one, or -1. Distance: (dcentre / 15 mm)^2 +
    (dR / 10 mm)^2.
    """
    result = np.full(len(true.event), -1, dtype=np.int64)
    a, b = np.flatnonzero(true_ok), np.flatnonzero(found_ok)
    # All pairs of rings of one event within the limits. Without rings in two pairs these are the result.
    low, high = (
        np.searchsorted(found.event[b], true.event[a]),
        np.searchsorted(found.event[b], true.event[a], "right"),
    )
    number = high - low
    i = np.repeat(a, number)
    j = b[np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number) + np.repeat(low, number)]
    centre = np.hypot(true.x[i] - found.x[j], true.y[i] - found.y[j])
    radius = np.abs(true.r[i] - found.r[j])
    near = (centre < CENTRE_MM) & (radius < RADIUS_MM)
    i, j = i[near], j[near]
    cost = (centre[near] / CENTRE_MM) ** 2 + (radius[near] / RADIUS_MM) ** 2
    contested = (np.bincount(i, minlength=len(true.event))[i] > 1) | (
        np.bincount(j, minlength=len(found.event))[j] > 1
    )
    tangled = np.isin(true.event[i], true.event[i[contested]])
    result[i[~tangled]] = j[~tangled]
    i, j, cost = i[tangled], j[tangled], cost[tangled]
    edges = np.flatnonzero(np.diff(true.event[i], prepend=-1, append=-2))
    for first, last in pairwise(edges):
        for t, f in _assign(i[first:last], j[first:last], cost[first:last]):
            result[t] = f
    return result


def _assign(i: np.ndarray, j: np.ndarray, cost: np.ndarray) -> list[tuple[int, int]]:
    """Optimal assignment within one event: most pairs, then least cost."""
    rows, columns = np.unique(i), np.unique(j)
    table = np.full((len(rows), len(columns)), 1e3)  # a forbidden pair costs more than all allowed ones
    table[np.searchsorted(rows, i), np.searchsorted(columns, j)] = cost
    if max(table.shape) <= MOST_RINGS:
        flip = table.shape[0] > table.shape[1]
        small = table.T if flip else table
        picks = min(
            permutations(range(small.shape[1]), small.shape[0]),
            key=lambda pick: sum(small[k, pick[k]] for k in range(small.shape[0])),
        )
        chosen = [(pick, k) if flip else (k, pick) for k, pick in enumerate(picks)]
    else:
        from scipy.optimize import linear_sum_assignment

        chosen = list(zip(*linear_sum_assignment(table), strict=True))
    return [(int(rows[r]), int(columns[c])) for r, c in chosen if table[r, c] < 1e3]


@attrs.define
class Bounds:
    """Cramér-Rao bounds of the true rings, mm; NaN with too few hits. source: of the hits."""

    r: np.ndarray  # of the radius
    xy: np.ndarray  # of the centre per axis, quadratic mean of both
    source: str

    def scaled(self, factor: float) -> Bounds:
        """Bounds for hits with another sigma, HIT_SIGMA_MM times the factor."""
        return Bounds(self.r * factor, self.xy * factor, self.source)


def ring_of_hits(true: Events, hits: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Hits by source as (ring, PM): index into true.rings; without noise and unknown sources."""
    rings = true.rings
    key = true.key[rings.event] * 256 + rings.number
    order = np.argsort(key, kind="stable")
    wanted = hits["event"].astype(np.int64) * 256 + hits["ring"]
    at = np.searchsorted(key[order], wanted)
    if not len(order):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    ring = order[np.minimum(at, len(order) - 1)]
    own = key[ring] == wanted
    return ring[own], hits["pm"][own].astype(np.int64)


def bounds_from_hits(true: Events, hits: Mapping[str, np.ndarray], positions: np.ndarray) -> Bounds:
    """Bounds of each true ring from its hits. positions: of the PMs in the common plane, mm."""
    rings = true.rings
    ring, pm = ring_of_hits(true, hits)
    dx, dy = positions[pm, 0] - rings.x[ring], positions[pm, 1] - rings.y[ring]
    distance = np.maximum(np.hypot(dx, dy), 1e-9)
    return Bounds(*_bound(ring, dx / distance, dy / distance, len(rings.event)), "true hits")


def bounds_from_counts(hits: np.ndarray, draws: int = 400) -> Bounds:
    """Bounds from the number of hits alone: the mean of `draws` with uniform angles."""
    random = np.random.default_rng(1)
    r, xy = np.full(len(hits), np.nan), np.full(len(hits), np.nan)
    for n in np.unique(hits[hits >= MIN_HITS]):
        angle = random.uniform(0, 2 * np.pi, (draws, int(n)))
        index = np.repeat(np.arange(draws), int(n))
        for result, bound in zip((r, xy), _bound(index, np.cos(angle).ravel(), np.sin(angle).ravel(), draws),
                                 strict=True):  # fmt: skip
            result[hits == n] = np.resize(bound, int((hits == n).sum()))
    return Bounds(r, xy, "number of hits, angles uniform")


def _bound(ring: np.ndarray, c: np.ndarray, s: np.ndarray, rings: int) -> tuple[np.ndarray, np.ndarray]:
    """Sigma of R, and of x and y, for circles with hits in directions (c, s): inverse Fisher matrix."""

    def total(weights: np.ndarray | None = None) -> np.ndarray:
        return np.bincount(ring, weights=weights, minlength=rings)[:rings]

    n, sc, ss, cc, cs, s2 = total(), total(c), total(s), total(c * c), total(c * s), total(s * s)
    minor = cc * s2 - cs * cs
    det = n * minor - sc * (sc * s2 - ss * cs) + ss * (sc * cs - ss * cc)
    both = (n * s2 - ss * ss + n * cc - sc * sc) / 2
    flat = det <= 1e-9 * np.maximum(n, 1) ** 3  # hits in one or two directions do not determine a radius
    with np.errstate(divide="ignore", invalid="ignore"):
        r, xy = (np.sqrt(np.where(flat, np.inf, HIT_SIGMA_MM**2 * part / det)) for part in (minor, both))
    return np.where(n < 3, np.nan, r), np.where(n < 3, np.nan, xy)


def cut_variance(sigma: np.ndarray, cut: float = RADIUS_MM) -> np.ndarray:
    """Variance of a Gaussian of width sigma, truncated to +-cut."""
    from scipy.special import ndtr

    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        a = cut / sigma
        inside = 2 * ndtr(a) - 1
        variance = sigma**2 * (1 - 2 * a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi) / inside)
    return np.where(sigma > 50 * cut, cut**2 / 3, variance)  # only the flat top of the Gaussian remains


def cut_variance_disc(sigma: np.ndarray, cut: float = CENTRE_MM) -> np.ndarray:
    """Variance per axis of a round Gaussian of width sigma per axis, truncated to a disc."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        q = (cut / sigma) ** 2 / 2
        variance = sigma**2 * (1 - q / np.expm1(q))
    return np.where(sigma > 50 * cut, cut**2 / 4, variance)


@attrs.define
class Evaluation:
    """Comparison of events and rings, one by one."""

    true: Events
    found: Events
    partner: np.ndarray  # per true event: paired found event, or -1
    isolated: np.ndarray  # per true event
    counts: np.ndarray  # per true ring: has at least MIN_HITS hits
    match: np.ndarray  # per true ring: matched found ring, or -1
    fake: np.ndarray  # per found ring: matches no true ring, of any size
    home: np.ndarray  # per found event: its true event, else the nearest in time
    bounds: Bounds  # per true ring

    def figures(self, chosen: np.ndarray) -> dict[str, Any]:
        """Figures of the selected true events."""
        return self.tally(chosen).figures()

    def tally(self, chosen: np.ndarray) -> Tally:
        """Sums over the selected true events."""
        true, found = self.true, self.found
        n_true, n_found = true.ring_counts(self.counts), found.ring_counts()
        rings = self.counts & chosen[true.rings.event]
        matched = rings & (self.match >= 0)
        fakes = np.zeros(len(true.time), dtype=np.int64)
        if len(true.time):
            np.add.at(fakes, self.home[found.rings.event[self.fake]], 1)
        ringless = chosen & (true.ring_counts() == 0)
        both = chosen & (self.partner >= 0)
        right = both.copy()
        right[both] = n_found[self.partner[both]] == n_true[both]
        f = self.match[matched]
        dx, dy, dr = (getattr(found.rings, k)[f] - getattr(true.rings, k)[matched] for k in ("x", "y", "r"))
        bound = cut_variance(self.bounds.r[matched & ~np.isnan(self.bounds.r)])
        bound_xy = cut_variance_disc(self.bounds.xy[matched & ~np.isnan(self.bounds.xy)])
        per_ring = n_true[true.rings.event]

        def by_number(mask: np.ndarray, number: np.ndarray) -> dict[str, int]:
            return {key: int((mask & (number == int(key))).sum()) for key in NUMBERS}

        return Tally(
            events=int(chosen.sum()),
            events_paired=int(both.sum()),
            true_rings=int(rings.sum()),
            matched_rings=int(matched.sum()),
            fakes=int(fakes[chosen].sum()),
            ringless=int(ringless.sum()),
            fakes_ringless=int(fakes[ringless].sum()),
            rings_of=by_number(rings, per_ring),
            matched_of=by_number(matched, per_ring),
            paired_of=by_number(both, n_true),
            right_of=by_number(right, n_true),
            ring_count_matrix=self.ring_count_matrix(chosen).tolist(),
            dr=Spread.of(dr),
            dxy=Spread.of(np.concatenate((dx, dy))),
            bound_r=Spread.of(bound),
            bound_xy=Spread.of(bound_xy),
            dr_bins=bins(dr),
            dr_mad=mad(dr),
        )

    def ring_count_matrix(self, chosen: np.ndarray) -> np.ndarray:
        """Paired selected events by number of counting true rings and of found rings; 4: four or more."""
        both = chosen & (self.partner >= 0)
        size = MOST_RINGS + 1
        true = np.minimum(self.true.ring_counts(self.counts)[both], MOST_RINGS)
        found = np.minimum(self.found.ring_counts()[self.partner[both]], MOST_RINGS)
        return np.bincount(true * size + found, minlength=size * size).reshape(size, size)

    def result(self) -> dict[str, Any]:
        """All figures, with the keys of --json."""
        every = np.ones(len(self.true.time), dtype=bool)
        return {
            **self.figures(every),
            "isolated": self.figures(self.isolated),
            "events_found": len(self.found.time),
            "events_without_hits": int((self.true.hits == 0).sum()),
            "crlb_from": self.bounds.source,
        }


def compare(true: Events, found: Events, bounds: Bounds) -> Evaluation:
    """Pairs events, matches rings, finds fakes."""
    seen = np.flatnonzero(true.hits > 0)  # other events have no hit in the detector
    partner = np.full(len(true.time), -1, dtype=np.int64)
    paired = pair(true.time[seen], found.time, PAIR_NS / LSB_NS)
    partner[seen] = paired
    alone = np.zeros(len(true.time), dtype=bool)
    alone[seen] = isolated(true.time[seen])
    alone[true.hits == 0] = _hitless_isolated(true.time[seen], true.time[true.hits == 0])

    home = np.zeros(len(found.time), dtype=np.int64)
    if len(seen) and len(found.time):
        home = seen[_nearest(found.time, true.time[seen])[0]]
    with_partner = np.zeros(len(found.time), dtype=bool)
    has = partner >= 0
    home[partner[has]] = np.flatnonzero(has)
    with_partner[partner[has]] = True

    # Found rings under the index of their true event, in its order.
    f = found.rings
    order = np.argsort(home[f.event], kind="stable")
    named = Rings(home[f.event][order], f.x[order], f.y[order], f.r[order], f.hits[order], f.number[order])
    usable = with_partner[f.event[order]]
    counts = true.rings.hits >= MIN_HITS
    match = match_rings(true.rings, named, counts, usable)
    taken = np.zeros(len(order), dtype=bool)
    taken[match[match >= 0]] = True
    small = match_rings(true.rings, named, ~counts, usable & ~taken)
    taken[small[small >= 0]] = True
    fake = np.zeros(len(order), dtype=bool)
    fake[order] = ~taken
    match[match >= 0] = order[match[match >= 0]]
    return Evaluation(true, found, partner, alone, counts, match, fake, home, bounds)


def _hitless_isolated(seen: np.ndarray, hitless: np.ndarray) -> np.ndarray:
    """Mask of the events without hits that have no event with hits within ISOLATED_NS."""
    if not len(seen) or not len(hitless):
        return np.ones(len(hitless), dtype=bool)
    return _nearest(hitless, seen)[1] > ISOLATED_NS / LSB_NS


def evaluate_files(
    truth_file: str, rings_file: str, hits_file: str | None = None, detector: Detector | None = None
) -> Evaluation:
    """Compares rings.parquet with run.parquet. UsageError.

    hits_file: file from --truth-hits, for the bound from the true hits. detector: default NA62's; the files
    must be of it.
    """
    of_core = detector.core() if detector else None
    found = read_found(rings_file, of_core)
    true = read_true(truth_file, found, of_core)
    scale = detector.rings.hit_sigma_mm / HIT_SIGMA_MM if detector else 1.0
    if hits_file is None:
        bounds = bounds_from_counts(true.rings.hits).scaled(scale)
    else:
        from nanet import _core

        remedy = "give a file from `nanet generate --truth-hits`"
        names = ("event", "ring", "pm")
        hits, metadata = read_columns("--truth-hits", hits_file, truth.HIT_SCHEMA, names, remedy)
        check_metadata(f"--truth-hits {hits_file}", metadata, of_core)
        positions = (detector.common if detector else _core.pm_positions_common()).astype(np.float64)
        if len(hits["pm"]) and hits["pm"].max() >= len(positions):
            raise UsageError(
                f"--truth-hits {hits_file}: column pm has {hits['pm'].max()}, must be below "
                f"{len(positions)}: {remedy}"
            )
        bounds = bounds_from_hits(true, hits, positions).scaled(scale)
        lacking = np.isnan(bounds.r) & (true.rings.hits >= MIN_HITS)
        if lacking.any():
            event = true.key[true.rings.event[lacking][0]]
            raise UsageError(
                f"--truth-hits {hits_file}: has no hits of event {event} of --truth: give files of one run"
            )
    return compare(true, found, bounds)
