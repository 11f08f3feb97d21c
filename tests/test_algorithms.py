# SPDX-License-Identifier: Apache-2.0
"""Properties of every ring algorithm: sane rings from any hits, symmetries, independent fits, correct flags.

All tests run over every algorithm of the build, through _core.reconstruct, and one through a whole replay.
"""

from __future__ import annotations

from functools import cache

import circle_fit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.measure import CircleModel, ransac

from nanet import _core

NAMES = _core.algorithm_names()
TRAITS = {name: _core.algorithm_traits(name) for name in NAMES}
SEVERAL = [name for name in NAMES if TRAITS[name]["most_rings"] > 1]
ROBUST = [name for name in NAMES if TRAITS[name]["rejects_noise"]]
COMMON = _core.pm_positions_common().astype(np.float64)
DISK = _core.pm_positions_disk().astype(np.float64)
CENTRE = np.array([-152.0, 0.0])
MOST_RINGS, MOST_HITS = 4, 128

every_algorithm = pytest.mark.parametrize("name", NAMES)


def reconstruct(name: str, events: list, **parameters: float) -> dict[str, np.ndarray]:
    """Runs an algorithm on events given as PM IDs."""
    first = np.concatenate(([0], np.cumsum([len(pm) for pm in events]))).astype(np.uint32)
    pm = np.concatenate([np.zeros(0), *map(np.asarray, events)]).astype(np.uint16)
    return _core.reconstruct(name, first, pm, parameters)


def rings_of(found: dict[str, np.ndarray], events: int) -> list[np.ndarray]:
    """Circles (x, y, r) of each event."""
    circles = np.stack([found[key] for key in ("x", "y", "r")], axis=1).astype(np.float64)
    return [circles[found["event"] == e] for e in range(events)]


@cache
def defaults(name: str) -> dict[str, float]:
    return {info["name"]: info["value"] for info in _core.algorithm_parameters(name)}


def check(name: str, events: list) -> dict[str, np.ndarray]:
    """Runs the algorithm and asserts the properties that hold for any hits."""
    found = reconstruct(name, events)
    for key in ("x", "y", "r", "chi2_ndf"):
        assert np.isfinite(found[key]).all()
    assert (found["chi2_ndf"] >= 0).all()
    low, high = defaults(name)["r_min"], defaults(name)["r_max"]
    assert ((found["r"] >= np.float32(low)) & (found["r"] <= np.float32(high))).all()
    assert (np.diff(found["event"].astype(int)) >= 0).all()
    assert (np.diff(found["ambiguous"].astype(int)) > 0).all()
    assert (found["ambiguous"] < len(events)).all()
    for e in np.unique(found["event"]):
        mine = found["event"] == e
        hits, r = found["n_hits"][mine].astype(int), found["r"][mine]
        assert found["ring"][mine].tolist() == list(range(len(r)))
        assert set(found["n_rings"][mine]) == {len(r)}
        assert len(r) <= (MOST_RINGS if name in SEVERAL else 1)
        assert (hits >= 3).all() and (hits <= min(len(events[e]), MOST_HITS)).all()
        assert hits[0] == hits.max() and r[0] == r[hits == hits[0]].max()  # the leading ring comes first
    return found


# ---- constructed hits


def on_ring(random, x: float, y: float, r: float, photons: int, disk: int | None = None) -> set[int]:
    """PMs hit by photons of a ring: 1 mm smear, nearest PM, either disk or the given one."""
    angle = random.uniform(0, 2 * np.pi, photons)
    points = np.stack((x + r * np.cos(angle), y + r * np.sin(angle)), axis=1)
    points += random.normal(0, 1, points.shape)
    sides = np.full(photons, disk) if disk is not None else random.integers(0, 2, photons)
    hits = set()
    for point, side in zip(points, sides, strict=True):
        distance = np.hypot(*(COMMON[side * 976 : side * 976 + 976] - point).T)
        if distance.min() < 10.4:
            hits.add(int(side * 976 + distance.argmin()))
    return hits


@cache
def single_rings(number: int, seed: int, disk: int | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Clean rings of at least twelve hits on the detector: (PM IDs, true (x, y, r))."""
    random = np.random.default_rng(seed)
    events = []
    while len(events) < number:
        circle = np.array([*random.normal(CENTRE, 30), random.uniform(140, 188)])
        hits = on_ring(random, *circle, 22, disk)
        if len(hits) >= 12:
            events.append((np.array(sorted(hits)), circle))
    return events


@cache
def two_rings(number: int, seed: int, disk: int | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Events with two rings whose centres are 80 to 160 mm apart: (PM IDs, circles (2, 3))."""
    random = np.random.default_rng(seed)
    events = []
    while len(events) < number:
        apart, angle = random.uniform(40, 80), random.uniform(0, 2 * np.pi)
        half = apart * np.array([np.cos(angle), np.sin(angle)])
        circles = [np.array([*(CENTRE + s * half), random.uniform(140, 185)]) for s in (-1, 1)]
        hits = [on_ring(random, *circle, 22, disk) for circle in circles]
        if min(map(len, hits)) >= 12:
            events.append((np.array(sorted(set.union(*hits))), np.array(circles)))
    return events


def noise(random, number: int) -> set[int]:
    return set(random.choice(1952, number, replace=False).tolist())


def row_of(pm: int) -> list[int]:
    """All PMs of a disk on a line with a PM."""
    same = np.flatnonzero(np.abs(DISK[:976, 1] - DISK[pm, 1]) < 0.5)
    return sorted(same.tolist())


def hand_made() -> dict[str, list[int]]:
    random = np.random.default_rng(11)
    ring = on_ring(random, -150, 0, 180, 30)
    small = on_ring(random, -150, 0, 110, 25)
    shifted = on_ring(random, -120, 10, 178, 30)
    slope = DISK[:976, 1] - np.sqrt(3) * DISK[:976, 0]
    diagonal = np.flatnonzero(np.abs(slope - slope[100]) < 0.6)
    block = np.argsort(np.hypot(*DISK[:976].T))
    return {
        "none": [],
        "one": [700],
        "two": [3, 1900],
        "three": [10, 500, 1500],
        "three in a ring": sorted(ring)[::8][:3],
        "three neighbours": block[:3].tolist(),
        "a row": row_of(300),
        "a row on both disks": [*row_of(300), *(pm + 976 for pm in row_of(300))],
        "a diagonal": diagonal.tolist(),
        "two rows": sorted({*row_of(300), *row_of(700)}),
        "one PM many times": [444] * 20,
        "one PM 128 times": [1951] * 128,
        "two PMs many times": [100] * 10 + [900] * 10,
        "a ring, every hit twice": sorted([*ring, *ring]),
        "the same place on both disks": [*block[:20].tolist(), *(block[:20] + 976).tolist()],
        "a block of neighbours": sorted(block[:60].tolist()),
        "concentric": sorted(ring | small),
        "overlapping": sorted(ring | shifted),
        "four rings": sorted(ring | small | shifted | on_ring(random, -200, -60, 140, 25)),
        "noise": sorted(noise(random, 12)),
        "much noise": sorted(noise(random, 60)),
        "32 hits": sorted(noise(random, 32)),
        "33 hits": sorted(noise(random, 33)),
        "128 hits": sorted(noise(random, 128)),
        "128 neighbours": sorted(block[:128].tolist()),
        "first 128": list(range(128)),
        "last 128": list(range(1824, 1952)),
        "more hits than an event has": sorted(noise(random, 300)),
        "a ring and 100 hits of noise": sorted(ring | noise(random, 100))[:128],
    }


HAND_MADE = hand_made()


@every_algorithm
@pytest.mark.parametrize("case", HAND_MADE)
def test_odd_events_give_sane_rings_or_none(name, case):
    pm = HAND_MADE[case]
    found = check(name, [pm])
    if len(set(pm)) < 3:
        assert len(found["r"]) == 0
    again = reconstruct(name, [pm])
    assert all(again[key].tobytes() == found[key].tobytes() for key in found)


@every_algorithm
def test_no_limit_of_the_radius_lets_anything_bad_out(name):
    """Straight and pointlike events with any radius allowed."""
    events = [pm[:MOST_HITS] for pm in HAND_MADE.values()]
    found = reconstruct(name, events, r_min=5, r_max=1000, min_hits=3)
    for key in ("x", "y", "r", "chi2_ndf"):
        assert np.isfinite(found[key]).all()
    assert ((found["r"] >= 0) & (found["r"] <= 1000)).all()


hits = st.lists(st.integers(0, 1951), max_size=MOST_HITS, unique=True).map(sorted)


@every_algorithm
@settings(max_examples=60)
@given(events=st.lists(hits, min_size=1, max_size=12))
def test_any_hits_give_sane_rings_the_same_alone_and_in_a_batch(name, events):
    together = check(name, events)
    alone = [reconstruct(name, [pm]) for pm in events]
    for key in ("n_rings", "n_hits", "x", "y", "r", "chi2_ndf"):
        assert together[key].tobytes() == np.concatenate([one[key] for one in alone]).tobytes()
    assert together["ambiguous"].tolist() == [e for e, one in enumerate(alone) if len(one["ambiguous"])]


@every_algorithm
@settings(max_examples=30)
@given(pm=st.lists(st.integers(0, 1951), max_size=MOST_HITS))
def test_hits_that_come_twice_or_out_of_order_do_no_harm(name, pm):
    check(name, [pm])


@every_algorithm
def test_a_large_batch_gives_the_bits_of_a_small_one(name):
    random = np.random.default_rng(5)
    events = [pm for pm, _ in [*single_rings(150, 1), *two_rings(100, 2)]]
    events += [sorted(noise(random, int(n))) for n in random.integers(0, 40, 150)]
    random.shuffle(events)
    together = check(name, events)
    for size in (1, 7, 64):
        parts = [reconstruct(name, events[k : k + size]) for k in range(0, len(events), size)]
        for key in ("n_hits", "x", "y", "r", "chi2_ndf"):
            assert together[key].tobytes() == np.concatenate([part[key] for part in parts]).tobytes()


# ---- symmetries

# Images of a PM: to 0.1 mm, the lattice is invariant under lattice vectors, and under turns by 60 degrees and
# reflections about any of its PMs.


def images(points: np.ndarray) -> np.ndarray:
    """PMs (0-975) at points of a disk's plane; -1: none."""
    distance = np.hypot(points[:, None, 0] - DISK[:976, 0], points[:, None, 1] - DISK[:976, 1])
    nearest = distance.argmin(axis=1)
    return np.where(distance[np.arange(len(points)), nearest] < 0.3, nearest, -1)


def moved(pm: np.ndarray, matrix: np.ndarray, about: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Images of hits: matrix @ (position - about) + about + shift, on their disks; -1: outside."""
    to = images((DISK[pm] - about) @ matrix.T + about + shift)
    return np.where(to >= 0, to + 976 * (pm // 976), -1)


def agree(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two events have the same rings, within tolerances (mm) for centre and radius."""
    if len(a) != len(b):
        return False
    left = list(b)
    for x, y, r in a:
        near = [
            k
            for k, (u, v, s) in enumerate(left)
            if np.hypot(x - u, y - v) < tolerance and abs(r - s) < tolerance
        ]
        if not near:
            return False
        left.pop(near[0])
    return True


def clean_events(name: str, disk: int | None = None) -> list[np.ndarray]:
    """Events that an algorithm should reconstruct fully: one ring, and two for a multi-ring algorithm."""
    events = [pm for pm, _ in single_rings(120, 21, disk)]
    if name in SEVERAL:
        events += [pm for pm, _ in two_rings(80, 22, disk)]
    return events


def share_that_moves_along(name, events, matrix, about_of, shift, tolerance=1.0) -> float:
    """Share of the events whose rings move with their hits."""
    before, after, abouts = [], [], []
    for pm in events:
        about = about_of(pm)
        to = moved(pm, matrix, about, shift)
        if (to >= 0).sum() < 0.9 * len(pm):
            continue
        before.append(pm[to >= 0])
        after.append(np.sort(to[to >= 0]))
        abouts.append(about - (DISK[pm[0]] - COMMON[pm[0]]))  # in the common plane
    assert len(before) >= 60
    good = 0
    found = zip(
        rings_of(reconstruct(name, before), len(before)),
        rings_of(reconstruct(name, after), len(after)),
        abouts,
        strict=True,
    )
    for a, b, about in found:
        expected = a.copy()
        expected[:, :2] = (a[:, :2] - about) @ matrix.T + about + shift
        good += agree(expected, b, tolerance)
    return good / len(before)


@every_algorithm
@pytest.mark.parametrize("shift", [(18.0, 0.0), (-36.0, 31.177), (9.0, -15.588)])
def test_rings_move_with_their_hits(name, shift):
    """Lattice vectors. Priors on the centres shift a ring by less than the tolerance."""
    share = share_that_moves_along(
        name, clean_events(name), np.eye(2), lambda pm: np.zeros(2), np.array(shift)
    )
    assert share >= SYMMETRIC.get(name, 0.97)


@every_algorithm
@pytest.mark.parametrize("turn", [60, 120, 180, -60, "x", "y"])
def test_rings_turn_with_their_hits(name, turn):
    """60 degrees and reflections about a PM near the mean centre; all hits on one disk."""
    if isinstance(turn, int):
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        matrix = np.array([[c, -s], [s, c]])
    else:
        matrix = np.diag([-1.0, 1.0] if turn == "x" else [1.0, -1.0])
    # PM nearest to (-152, 0) of the common plane on disk 0; its whole neighbourhood is lattice.
    middle = DISK[np.hypot(*(COMMON[:976] - CENTRE).T).argmin()]
    share = share_that_moves_along(name, clean_events(name, 0), matrix, lambda pm: middle, np.zeros(2))
    assert share >= SYMMETRIC.get(name, 0.97)


@every_algorithm
def test_the_order_of_hits_does_not_matter(name):
    """Stronger than needed: the trigger sorts hits by PM."""
    random = np.random.default_rng(31)
    events = clean_events(name)
    shuffled = [random.permutation(pm) for pm in events]
    a, b = (rings_of(reconstruct(name, e), len(e)) for e in (events, shuffled))
    assert np.mean([agree(x, y, 1.0) for x, y in zip(a, b, strict=True)]) >= SYMMETRIC.get(name, 0.97)


SYMMETRIC: dict[str, float] = {}

# ---- independent fits of the same hits


def geometric(points: np.ndarray) -> np.ndarray:
    """Least squares of the distances by circle-fit."""
    return np.array(circle_fit.standardLSQ(points)[:3])


@pytest.mark.parametrize("name", [name for name in NAMES if TRAITS[name]["is_fit"]])
def test_clean_rings_are_those_of_circle_fit_and_scikit_image(name):
    events = single_rings(300, 41)
    found = rings_of(reconstruct(name, [pm for pm, _ in events]), len(events))
    assert np.mean([len(rings) == 1 for rings in found]) >= 0.98
    from_geometric, from_algebraic = [], []
    for (pm, _), rings in zip(events, found, strict=True):
        if len(rings):
            model = CircleModel.from_estimate(COMMON[pm])
            from_geometric.append(np.abs(rings[0] - geometric(COMMON[pm])).max())
            from_algebraic.append(np.abs(rings[0] - [*model.center, model.radius]).max())
    # Both kinds of fit differ by some 0.1 mm, and so do robust fits that leave out a hit.
    for apart in (from_geometric, from_algebraic):
        assert np.median(apart) < 0.7
        assert np.quantile(apart, 0.95) < 3.0


@pytest.mark.parametrize("name", ROBUST)
def test_a_ring_among_noise_is_that_of_a_robust_fit(name):
    """scikit-image's RANSAC on the same hits, where its result is right."""
    random = np.random.default_rng(51)
    events = [(np.array(sorted({*pm} | noise(random, 3))), true) for pm, true in single_rings(120, 52)]
    found = rings_of(reconstruct(name, [pm for pm, _ in events]), len(events))
    good, all_good = 0, 0
    for (pm, true), rings in zip(events, found, strict=True):
        points = COMMON[pm]
        model, _ = ransac(points, CircleModel, 3, 10.0, max_trials=200, rng=1)
        other = np.array([*model.center, model.radius])
        if np.abs(other - true).max() > 6:
            continue
        all_good += 1
        good += len(rings) > 0 and bool(np.abs(rings - other).max(axis=1).min() < 6)
    assert all_good >= 90
    assert good / all_good >= 0.95


@pytest.mark.parametrize("name", SEVERAL)
def test_two_clean_rings_are_both_found(name):
    events = two_rings(150, 61)
    found = rings_of(reconstruct(name, [pm for pm, _ in events]), len(events))
    both = [
        len(rings) == 2 and agree(true, rings, 10.0) for (_, true), rings in zip(events, found, strict=True)
    ]
    assert np.mean(both) >= (0.95 if name == "multiring" else 0.5)


@pytest.mark.parametrize("name", [name for name in SEVERAL if name == "multiring"])
def test_concentric_rings_are_two(name):
    random = np.random.default_rng(71)
    events = []
    for _ in range(60):
        x, y = random.normal(CENTRE, 20)
        events.append(sorted(on_ring(random, x, y, 180, 25) | on_ring(random, x, y, 120, 20)))
    found = rings_of(reconstruct(name, events), len(events))
    assert (
        np.mean([len(rings) == 2 and abs(abs(rings[0, 2] - rings[1, 2]) - 60) < 8 for rings in found]) >= 0.9
    )


# ---- flags


def primitive_of(rings: np.ndarray, chi2: float, hits: int, ambiguous: bool) -> int:
    """Primitive ID of docs/formats.md with default settings, nothing truncated."""
    word = 1 << 14 | (hits >= 24) << 9 | ambiguous << 8
    if len(rings):
        r = np.float32(rings[:, 2])
        code = int(np.clip(np.floor((r[0] - np.float32(60)) / np.float32(2.25) + np.float32(0.5)), 0, 63))
        word |= min(len(r), 3) << 12 | bool(r[0] >= 185) << 11 | bool((r < 180).any()) << 10
        word |= bool(chi2 > 3) << 6 | code
    return word


@every_algorithm
def test_replay_finds_the_same_rings_and_primitives(name, tmp_path):
    """Few events, far apart, through the whole trigger, compared with the algorithm on the true hits."""
    options = {"events": 600, "rate": 1e5, "seed": 77, "noise": 2.0, "truth": True, "truth_hits": True}
    writer = _core.Capture(options, str(tmp_path / "run.pcap"))
    hits: list[np.ndarray] = []
    while writer.next(512):
        writer.truth()
        part = writer.hits()
        hits.append(np.stack((part["event"].astype(int), part["pm"].astype(int))))
    event, pm = np.unique(np.concatenate(hits, axis=1), axis=1)
    events = [pm[event == e] for e in np.unique(event)]
    expected = reconstruct(name, events)

    core = _core.Replay(
        {"pcap": str(tmp_path / "run.pcap"), "mtp": "", "boards": 0xF, "algorithm": name, "rings": True}
    )
    core.run()
    rows = {key: np.asarray(values) for key, values in core.take_rings().items()}
    number, index = np.unique(rows["event"], return_inverse=True)
    assert len(number) == len(events)
    chi2, seen = np.zeros(len(events)), rows["ring"] != 255
    for key in ("x", "y", "r", "chi2_ndf", "n_hits"):
        assert rows[key][seen].astype(np.float32).tobytes() == expected[key].astype(np.float32).tobytes()
    assert index[seen].tolist() == expected["event"].tolist()
    leading = expected["ring"] == 0
    chi2[expected["event"][leading]] = expected["chi2_ndf"][leading]
    ambiguous = np.isin(np.arange(len(events)), expected["ambiguous"])
    for e, rings in enumerate(rings_of(expected, len(events))):
        word = primitive_of(rings, chi2[e], len(events[e]), bool(ambiguous[e]))
        assert set(rows["primitive"][index == e]) == {word}
