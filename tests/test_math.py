# SPDX-License-Identifier: Apache-2.0
"""MATH compared with circle fits of other libraries on the same hits, and invariances of a fit."""

import circle_fit
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from hypothesis import assume, given
from hypothesis import strategies as st
from nanet.detector import load
from skimage.measure import CircleModel

from nanet import _core

WIDE = {"min_hits": 3, "r_min": 0, "r_max": 1000}
COMMON = _core.pm_positions_common()


def fit(events: list[np.ndarray], **parameters: float) -> dict[str, np.ndarray]:
    """MATH on events given as ascending PM IDs."""
    first = np.concatenate(([0], np.cumsum([len(pm) for pm in events]))).astype(np.uint32)
    pm = np.concatenate([*events, []]).astype(np.uint16)
    return _core.reconstruct("math", first, pm, WIDE | parameters)


@pytest.fixture(scope="module")
def clean_rings() -> list[np.ndarray]:
    """Hits of single rings without noise, at least five each: photons on a circle, 1 mm smear, nearest PM."""
    random = np.random.default_rng(3)
    events = []
    while len(events) < 400:
        x, y = random.normal((-152, 0), 60)
        r = random.uniform(130, 190)
        photons = random.poisson(14)
        angle = random.uniform(0, 2 * np.pi, photons)
        points = np.stack((x + r * np.cos(angle), y + r * np.sin(angle)), axis=1)
        points += random.normal(0, 1, points.shape)
        disk = random.integers(0, 2, photons)
        hits = set()
        for point, side in zip(points, disk, strict=True):
            distance = np.hypot(*(COMMON[side * 976 : side * 976 + 976] - point).T)
            if distance.min() < 10.4:
                hits.add(int(side * 976 + distance.argmin()))
        if len(hits) >= 5:
            events.append(np.array(sorted(hits)))
    return events


def kasa(points: np.ndarray) -> tuple[float, float, float]:
    """Algebraic circle fit by scipy, float64: x^2 + y^2 = 2 a x + 2 b y + c."""
    origin = points.mean(axis=0)
    u = points.astype(np.float64) - origin
    a, b, c = scipy.linalg.lstsq(np.column_stack((2 * u, np.ones(len(u)))), (u**2).sum(axis=1))[0]
    return a + origin[0], b + origin[1], float(np.sqrt(c + a * a + b * b))


def algebraic_cost(points: np.ndarray, circle: tuple[float, float, float]) -> float:
    x, y, r = circle
    return float(((((points - (x, y)) ** 2).sum(axis=1) - r * r) ** 2).sum())


def test_agrees_with_library_fits(clean_rings):
    rings = fit(clean_rings)
    assert rings["event"].tolist() == list(range(len(clean_rings)))
    for k, pm in enumerate(clean_rings):
        points = COMMON[pm].astype(np.float64)
        ours = np.array([rings["x"][k], rings["y"][k], rings["r"][k]], dtype=np.float64)
        # float32 rounding grows for hits on a short arc, with the arc's share of the moments.
        spread = np.linalg.eigvalsh(np.cov(points.T))
        tolerance = 2e-3 * max(1.0, 0.02 * spread[1] / spread[0])
        assert ours == pytest.approx(kasa(points), abs=tolerance)
        model = CircleModel.from_estimate(points)
        assert model
        assert ours == pytest.approx([*model.center, model.radius], abs=tolerance)


def test_near_the_geometric_fit_and_best_in_its_own_measure(clean_rings):
    """circle-fit minimises distances; MATH sum((d^2 - r^2)^2), in which it is the best."""
    rings = fit(clean_rings)
    apart = []
    for k, pm in enumerate(clean_rings):
        points = COMMON[pm].astype(np.float64)
        x, y, r, _ = circle_fit.standardLSQ(points)
        ours = (float(rings["x"][k]), float(rings["y"][k]), float(rings["r"][k]))
        apart.append(abs(ours[2] - r))
        assert algebraic_cost(points, ours) <= algebraic_cost(points, (x, y, r)) * (1 + 1e-5) + 1.0
    assert np.median(apart) < 0.5


def test_chi2_is_that_of_the_hits(clean_rings):
    """Of the residual d^2 - r^2 that MATH minimises; the χ² of the distances is within a few per cent."""
    rings = fit(clean_rings)
    for k, pm in enumerate(clean_rings):
        d = np.hypot(*(COMMON[pm] - (rings["x"][k], rings["y"][k])).T.astype(np.float64))
        r = float(rings["r"][k])
        expected = ((d**2 - r**2) ** 2).sum() / (2 * r * 4.85) ** 2 / (len(pm) - 3)
        assert rings["chi2_ndf"][k] == pytest.approx(expected, rel=1e-3, abs=1e-3)
        of_distances = ((d - r) ** 2).sum() / 4.85**2 / (len(pm) - 3)
        assert rings["chi2_ndf"][k] == pytest.approx(of_distances, rel=0.1, abs=1e-3)
        assert rings["n_hits"][k] == len(pm)
    assert np.mean(rings["chi2_ndf"]) == pytest.approx(1.0, abs=0.15)


# Position of a PM in an event moved by a lattice vector.
POSITION = {
    (round(float(x), 1), round(float(y), 1)): pm for pm, (x, y) in enumerate(_core.pm_positions_disk()[:976])
}


def moved(pm: int, dx: float, dy: float) -> int | None:
    """PM at a lattice vector from another one, on the same disk."""
    x, y = _core.pm_positions_disk()[pm]
    for wobble in (0.0, 0.1, -0.1):
        found = POSITION.get((round(float(x) + dx, 1), round(float(y) + dy + wobble, 1)))
        if found is not None:
            return found + 976 * (pm // 976)
    return None


@given(
    pms=st.lists(st.integers(0, 1951), min_size=5, max_size=40, unique=True),
    steps=st.tuples(st.integers(-3, 3), st.integers(-2, 2)),
)
def test_translation_moves_the_ring(pms, steps):
    dx, dy = steps[0] * 18.0, steps[1] * 31.176
    pairs = [(pm, moved(pm, dx, dy)) for pm in sorted(pms)]
    pairs = [(pm, to) for pm, to in pairs if to is not None]
    assume(len(pairs) >= 5)
    before = fit([np.array([pm for pm, _ in pairs])])
    after = fit([np.array(sorted(to for _, to in pairs))])
    assume(len(before["r"]) == 1 and before["r"][0] < 400)
    assert len(after["r"]) == 1
    # Supercells are placed to 0.01 mm, which a short arc magnifies.
    points = COMMON[[pm for pm, _ in pairs]]
    spread = np.linalg.eigvalsh(np.cov(points.T.astype(np.float64)))
    tolerance = 0.1 * max(1.0, 0.1 * spread[1] / spread[0])
    assert after["x"][0] - before["x"][0] == pytest.approx(dx, abs=tolerance)
    assert after["y"][0] - before["y"][0] == pytest.approx(dy, abs=tolerance)
    assert after["r"][0] == pytest.approx(before["r"][0], abs=tolerance)


@given(pms=st.lists(st.integers(0, 1951), min_size=0, max_size=128), shuffle=st.randoms())
def test_order_of_hits_changes_no_bit(pms, shuffle):
    shuffled = list(pms)
    shuffle.shuffle(shuffled)
    a, b = fit([np.array(sorted(pms))]), fit([np.array(shuffled)])
    for name in ("x", "y", "r", "chi2_ndf"):
        assert a[name].tobytes() == b[name].tobytes()


@pytest.mark.parametrize("detector", ["na62", "square", "hexagonal"])
def test_detectors_and_free_positions(detector):
    """Rings of PMs equal those of free points at the PMs in every bit, and those of scipy by rounding."""
    given = load(detector)
    random = np.random.default_rng(5)
    events, circles = [], []
    while len(events) < 100:
        centre, r = given.common.mean(axis=0) + random.uniform(-40, 40, 2), random.uniform(90, 180)
        angle = random.uniform(0, 2 * np.pi, 25)
        points = centre + r * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        distance = np.hypot(*(given.common[:, None] - points[None]).T)
        hits = {int(row.argmin()) for row in distance if row.min() < 20}
        if len(hits) >= 8:
            events.append(np.array(sorted(hits)))
            circles.append(kasa(given.common[events[-1]]))
    first = np.concatenate(([0], np.cumsum([len(pm) for pm in events])))
    pm = np.concatenate(events).astype(np.uint16)
    rings = _core.reconstruct("math", first.astype(np.uint32), pm, WIDE, given.core())
    found = np.stack([rings[name] for name in ("x", "y", "r")], axis=1)
    assert found == pytest.approx(np.array(circles), abs=5e-3)
    x, y = given.common[pm].T
    free = _core.reconstruct_points(
        "math", x.copy(), y.copy(), None, first.astype(np.int64), WIDE, 1, given.core()
    )
    for name in ("x", "y", "r", "chi2_ndf"):
        assert free[name].tobytes() == rings[name].tobytes()


@given(pms=st.lists(st.integers(0, 1951), min_size=0, max_size=128))
def test_any_hits_give_a_finite_ring_or_none(pms):
    rings = fit([np.array(sorted(pms))])
    assert len(rings["r"]) <= 1
    for name in ("x", "y", "r", "chi2_ndf"):
        assert np.isfinite(rings[name]).all()
    if len(set(pms)) < 3:
        assert len(rings["r"]) == 0


@given(st.lists(st.lists(st.integers(0, 1951), max_size=128, unique=True), min_size=1, max_size=70))
def test_an_event_is_independent_of_its_batch(events):
    arrays = [np.array(sorted(pms)) for pms in events]
    together = fit(arrays)
    alone = [fit([pm]) for pm in arrays]
    for name in ("x", "y", "r", "chi2_ndf"):
        assert together[name].tobytes() == np.concatenate([one[name] for one in alone]).tobytes()


def test_parameters_and_what_is_wrong_with_them(clean_rings):
    names = [info["name"] for info in _core.algorithm_parameters("math")]
    assert names == ["min_hits", "r_min", "r_max"]
    assert "math" in _core.algorithm_names()
    limited = fit(clean_rings, min_hits=9, r_min=150, r_max=180)
    hits = np.array([len(pm) for pm in clean_rings])
    assert 0 < len(limited["r"]) < len(clean_rings)
    assert (hits[limited["event"]] >= 9).all()
    assert ((limited["r"] >= 150) & (limited["r"] <= 180)).all()
    with pytest.raises(ValueError, match=r"algorithm\.math\.min_hits = 1: must be from 3 to 128"):
        fit(clean_rings, min_hits=1)
    with pytest.raises(ValueError, match="'crawford' is not known; choose one of: math"):
        _core.reconstruct("crawford", np.zeros(1, np.uint32), np.zeros(0, np.uint16))
    with pytest.raises(ValueError, match="pm: must be below 1952"):
        fit([np.array([1, 2, 1952])])
    with pytest.raises(ValueError, match="reaches past the end"):
        _core.reconstruct("math", np.array([0, 3], np.uint32), np.zeros(2, np.uint16))
