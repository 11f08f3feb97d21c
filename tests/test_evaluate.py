# SPDX-License-Identifier: Apache-2.0
"""`nanet evaluate`: constructed cases with known figures, an independent slow evaluation, and errors."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nanet.files import rings, truth
from nanet.quality import evaluate
from scipy.optimize import linear_sum_assignment

from nanet import _core

LSB_NS = 0.097464731802


def lsb(ns: float) -> int:
    return round(ns / LSB_NS)


class Run:
    """Rows of both files. An event is (time in ns, rings); a ring is (x, y, r, hits)."""

    def __init__(self) -> None:
        self.true: dict[str, list] = {name: [] for name in truth.RING_SCHEMA.names}
        self.found: dict[str, list] = {name: [] for name in rings.SCHEMA.names}
        self.numbers = [0, 0]

    def add_true(self, ns: float, *circles: tuple, burst: int = 0, hits: int = 20) -> None:
        self._add(0, self.true, ns, circles, burst, hits, particle="mu", momentum=20.0)

    def add_found(self, ns: float, *circles: tuple, burst: int = 0, hits: int = 20) -> None:
        self._add(
            1, self.found, ns, circles, burst, hits, chi2_ndf=1.0, primitive=0x4000, n_rings=len(circles)
        )

    def _add(self, which, rows, ns, circles, burst, hits, **more) -> None:
        nothing = (None, None, None, 0)
        for ring, (x, y, r, n) in enumerate(circles) if circles else [(255, nothing)]:
            values = {
                "burst": burst, "timestamp": lsb(ns) >> 8, "fine_time": lsb(ns) & 255,
                "event": self.numbers[which], "ring": ring,
                "x": x, "y": y, "r": r, "n_hits": n, "event_hits": hits, **more,
            }  # fmt: skip
            for name in rows:
                rows[name].append(values[name])
        self.numbers[which] += 1

    def write(self, folder, period=None) -> tuple[str, str]:
        files = str(folder / "run.parquet"), str(folder / "rings.parquet")
        schema = truth.RING_SCHEMA
        if period is not None:
            schema = schema.with_metadata({truth.PERIOD_KEY: str(period)})
        pq.write_table(pa.table(self.true, schema=schema), files[0])
        pq.write_table(pa.table(self.found, schema=rings.SCHEMA), files[1])
        return files

    def result(self, folder, **more) -> dict:
        return evaluate.evaluate_files(*self.write(folder, **more)).result()


A, B, C = (-150.0, 0.0, 180.0, 12), (-60.0, 40.0, 150.0, 9), (-250.0, -80.0, 120.0, 6)


def off(circle: tuple, dx: float = 0, dy: float = 0, dr: float = 0) -> tuple:
    x, y, r, n = circle
    return (x + dx, y + dy, r + dr, n)


def test_perfect(tmp_path):
    run = Run()
    for k, circles in enumerate([(), (A,), (A, B), (A, B, C), (A, B, C, off(A, 100))]):
        run.add_true(100 * k, *circles)
        run.add_found(100 * k + 1, *circles)
    result = run.result(tmp_path)
    for figures in (result, result["isolated"]):
        assert figures["efficiency"] == {"1": 1.0, "2": 1.0, "3": 1.0, "4": 1.0}
        assert figures["ring_count_accuracy"] == {"0": 1.0, "1": 1.0, "2": 1.0, "3": 1.0, "4": 1.0}
        assert figures["fakes_per_event"] == figures["fakes_per_event_noise_only"] == 0
        assert figures["sigma_r_mm"] == figures["sigma_r_mad_mm"] == figures["sigma_xy_mm"] == 0
        assert figures["events"] == 5
    assert 1 < result["crlb_sigma_r_mm"] < 3


def test_limits_of_matching(tmp_path):
    run = Run()
    cases = [
        (14.9, 0, 0, 1),
        (15.1, 0, 0, 0),
        (0, 0, 9.9, 1),
        (0, 0, 10.1, 0),
        (11, 11, 0, 0),
        (-10, 10, -9.9, 1),
    ]
    for k, (dx, dy, dr, _) in enumerate(cases):
        run.add_true(100 * k, A)
        run.add_found(100 * k, off(A, dx, dy, dr))
    result = run.result(tmp_path)
    matched = sum(case[3] for case in cases)
    assert result["efficiency"]["1"] == pytest.approx(matched / len(cases))
    assert result["fakes_per_event"] == pytest.approx(1 - matched / len(cases))
    assert result["efficiency"]["2"] is None or np.isnan(result["efficiency"]["2"])


def test_one_found_ring_matches_one_true_ring_and_the_most_are_matched(tmp_path):
    run = Run()
    near = off(A, 9)
    # The found ring in between is nearer to A, but only it can match `near`, and A has another one.
    run.add_true(0, A, near)
    run.add_found(0, off(A, 4), off(A, -12))
    run.add_true(100, A, near)  # one found ring: only one match
    run.add_found(100, off(A, 4))
    run.add_true(200, A)  # two found rings on one true ring: one is a fake
    run.add_found(200, off(A, 1), off(A, 2))
    result = run.result(tmp_path)
    assert result["efficiency"]["2"] == pytest.approx(3 / 4)
    assert result["efficiency"]["1"] == 1
    assert result["fakes_per_event"] == pytest.approx(1 / 3)
    assert result["ring_count_accuracy"]["2"] == 0.5
    assert result["ring_count_accuracy"]["1"] == 0


def test_small_rings_are_neither_match_nor_fake(tmp_path):
    run = Run()
    small = (*A[:3], 3)
    run.add_true(0, small)
    run.add_found(0, A)
    run.add_true(100, small, B)
    run.add_found(100, off(A, 2), off(B, 1))
    run.add_true(200, (*B[:3], 4))
    run.add_found(200, B)
    result = run.result(tmp_path)
    assert result["true_rings"] == 2
    assert result["efficiency"]["1"] == 1
    assert result["fakes_per_event"] == 0
    assert result["ring_count_accuracy"]["0"] == 0  # no counting true ring, one found
    assert result["fakes_per_event_noise_only"] is None or np.isnan(result["fakes_per_event_noise_only"])


def test_lost_and_invented_events(tmp_path):
    run = Run()
    for k in range(4):
        run.add_true(100 * k, A)
    run.add_found(0, A)
    run.add_found(100 + 4.9, A)
    run.add_found(200 + 5.2, A)  # too late: lost, and its ring is a fake
    result = run.result(tmp_path)
    assert result["efficiency"]["1"] == 0.5
    assert result["fakes_per_event"] == 0.25
    assert result["events_paired"] == 2
    assert result["ring_count_accuracy"]["1"] == 1  # over the events in both files


def test_pairs_are_the_nearest_one_to_one(tmp_path):
    run = Run()
    run.add_true(0, A)
    run.add_true(4, B)
    run.add_found(3, B)  # 1 ns from the second, 3 from the first
    run.add_found(7, C)  # 3 from the second, which is paired; 7 from the first
    result = run.result(tmp_path)
    assert result["efficiency"]["1"] == 0.5
    assert result["events_paired"] == 1
    assert result["fakes_per_event"] == 0.5
    assert result["isolated"]["events"] == 0


def test_bursts_are_apart_and_isolation(tmp_path):
    run = Run()
    run.add_true(1000, A, burst=0)
    run.add_true(1000, B, burst=1)
    run.add_true(1020, C, burst=1)
    run.add_true(1046, A, burst=1)
    run.add_found(1000, A, burst=0)
    run.add_found(1000, B, burst=1)
    run.add_found(1020, burst=1)
    run.add_found(1046, A, burst=2)  # another burst: no partner
    result = run.result(tmp_path)
    assert result["efficiency"]["1"] == 0.5
    assert result["isolated"]["events"] == 2  # the first, and the last of burst 1 (26 ns)
    assert result["isolated"]["efficiency"]["1"] == 0.5


def test_events_without_hits_are_not_paired(tmp_path):
    run = Run()
    run.add_true(0, hits=0)
    run.add_true(2, A)
    run.add_found(0.5, A)
    result = run.result(tmp_path)
    assert result["efficiency"]["1"] == 1
    assert result["events"] == 2
    assert result["events_without_hits"] == 1
    assert result["isolated"]["efficiency"]["1"] == 1


def test_sigma_and_mad(tmp_path):
    random = np.random.default_rng(0)
    run = Run()
    dr, dx = random.normal(0.5, 1.5, 3000), random.normal(0, 2, 3000)
    for k in range(3000):
        run.add_true(100 * k, A)
        run.add_found(100 * k, off(A, dx[k], -dx[k], dr[k]))
    result = run.result(tmp_path)
    assert result["sigma_r_mm"] == pytest.approx(dr.std(), rel=1e-3)
    assert result["sigma_r_mad_mm"] == pytest.approx(1.4826 * np.median(np.abs(dr - np.median(dr))), rel=1e-3)
    assert result["bias_r_mm"] == pytest.approx(dr.mean(), abs=1e-3)
    assert result["sigma_xy_mm"] == pytest.approx(dx.std(), rel=1e-3)


def test_truth_that_a_readout_repeats(tmp_path):
    run = Run()
    frame = 65536 * LSB_NS
    run.add_true(100, A)
    run.add_true(frame + 200, B)  # two frames, sent repeatedly
    for burst, frames in ((0, 5), (1, 3)):
        for f in range(frames):
            run.add_found(f * frame + (200 if f % 2 else 100), B if f % 2 else A, burst=burst)
    result = run.result(tmp_path, period=2)
    assert result["events"] == result["events_paired"] == 8
    assert result["efficiency"]["1"] == 1


def test_bound(tmp_path):
    """Bound from hits: resolution of a fit to hits smeared by 4.85 mm, for given angles."""
    positions = _core.pm_positions_common().astype(float)
    run = Run()
    run.add_true(0, A)
    distance = np.abs(np.hypot(positions[:, 0] - A[0], positions[:, 1] - A[1]) - A[2])
    pm = np.sort(np.argsort(distance)[:40:4])
    true = evaluate.events_of({k: np.array(v) for k, v in run.true.items()}, 255)
    hits = {"event": np.zeros(len(pm), int), "ring": np.zeros(len(pm), int), "pm": pm}
    bounds = evaluate.bounds_from_hits(true, hits, positions)
    angle = np.arctan2(positions[pm, 1] - A[1], positions[pm, 0] - A[0])
    design = np.column_stack((np.cos(angle), np.sin(angle), np.ones(len(pm)))) / 4.85
    variance = np.diag(np.linalg.inv(design.T @ design))
    assert bounds.r == pytest.approx([np.sqrt(variance[2])], rel=1e-6)
    assert bounds.xy == pytest.approx([np.sqrt(variance[:2].mean())], rel=1e-6)
    # Many hits: sigma / sqrt(n); cut at 10 mm: variance of the truncated Gaussian.
    assert evaluate.bounds_from_counts(np.full(400, 200)).r.mean() == pytest.approx(
        4.85 / np.sqrt(200), rel=0.02
    )
    random = np.random.default_rng(1).normal(0, 8, 400_000)
    assert evaluate.cut_variance(np.array([8.0]))[0] == pytest.approx(
        random[np.abs(random) < 10].var(), rel=0.01
    )
    assert evaluate.cut_variance(np.array([np.inf, 1e5]))[0] == pytest.approx(100 / 3, rel=1e-6)
    assert evaluate.cut_variance(np.array([1.0]))[0] == pytest.approx(1, rel=1e-6)
    # The centre is cut by a disc of 15 mm: compared with random numbers.
    x, y = np.random.default_rng(2).normal(0, 9, (2, 400_000))
    assert evaluate.cut_variance_disc(np.array([9.0]))[0] == pytest.approx(
        x[np.hypot(x, y) < 15].var(), rel=0.01
    )
    assert evaluate.cut_variance_disc(np.array([np.inf, 1e5, 1.0])) == pytest.approx([225 / 4, 225 / 4, 1])


@given(
    st.lists(st.integers(0, 400), max_size=25),
    st.lists(st.integers(0, 400), max_size=25),
)
def test_pairing_is_greedy_by_distance(a, b):
    a, b = np.array(sorted(a), dtype=np.int64), np.array(sorted(b), dtype=np.int64)
    partner = evaluate.pair(a, b, 20)
    mine = sorted(abs(a[i] - b[j]) for i, j in enumerate(partner) if j >= 0)
    assert len({j for j in partner if j >= 0}) == sum(j >= 0 for j in partner)
    assert all(d <= 20 for d in mine)
    # No pairable entries remain, and no pair exists if both had nearer free partners.
    free_a = [i for i, j in enumerate(partner) if j < 0]
    free_b = set(range(len(b))) - set(partner)
    assert all(abs(a[i] - b[j]) > 20 for i in free_a for j in free_b)
    for i, j in enumerate(partner):
        for k in range(len(b)):
            other = next((t for t, p in enumerate(partner) if p == k), None)
            if abs(a[i] - b[k]) > 20:
                continue
            mine_is = abs(a[i] - b[j]) if j >= 0 else np.inf
            theirs = abs(a[other] - b[k]) if other is not None else np.inf
            assert not (abs(a[i] - b[k]) < mine_is and abs(a[i] - b[k]) < theirs)


circles = st.lists(
    st.tuples(st.integers(-30, 30), st.integers(-30, 30), st.integers(150, 175)), min_size=0, max_size=6
)


@given(circles, circles)
def test_matching_is_optimal(true, found):
    def as_rings(values):
        x, y, r = np.array(values, dtype=float).reshape(-1, 3).T
        return evaluate.Rings(np.zeros(len(x), int), x, y, r, np.full(len(x), 9), np.arange(len(x)))

    t, f = as_rings(true), as_rings(found)
    match = evaluate.match_rings(t, f, np.ones(len(true), bool), np.ones(len(found), bool))
    centre = np.hypot(t.x[:, None] - f.x, t.y[:, None] - f.y)
    radius = np.abs(t.r[:, None] - f.r)
    cost = np.where((centre < 15) & (radius < 10), (centre / 15) ** 2 + (radius / 10) ** 2, 1e6)
    rows, columns = linear_sum_assignment(cost)
    best = cost[rows, columns]
    mine = [cost[i, j] for i, j in enumerate(match) if j >= 0]
    assert all(c < 1e6 for c in mine)
    assert len(mine) == (best < 1e6).sum()
    assert sum(mine) == pytest.approx(best[best < 1e6].sum())


def test_command_line(nanet, tmp_path):
    nanet(
        "generate",
        "--events",
        3000,
        "--out",
        "run.pcap",
        "--truth",
        "run.parquet",
        "--truth-hits",
        "hits.parquet",
    )
    truth_table, hits = pq.read_table(tmp_path / "run.parquet"), pq.read_table(tmp_path / "hits.parquet")
    # Expected result of an ideal trigger with MATH: the hits of each event.
    pairs = np.unique(
        np.stack((hits["event"].to_numpy().astype(int), hits["pm"].to_numpy().astype(int))), axis=1
    )
    first = np.searchsorted(pairs[0], np.arange(3001)).astype(np.uint32)
    math = _core.reconstruct("math", first, pairs[1].astype(np.uint16))
    event = truth_table["event"].to_numpy()
    run = Run()
    _, at = np.unique(event, return_index=True)
    times = truth_table["timestamp"].to_numpy().astype(int) * 256 + truth_table["fine_time"].to_numpy()
    for k in range(3000):
        ring = [
            (float(math["x"][i]), float(math["y"][i]), float(math["r"][i]), int(math["n_hits"][i]))
            for i in np.flatnonzero(math["event"] == k)
        ]
        run.add_found(times[at[k]] * LSB_NS, *ring)
    pq.write_table(pa.table(run.found, schema=rings.SCHEMA), tmp_path / "rings.parquet")
    done = nanet(
        "evaluate", "--truth", "run.parquet", "--rings", "rings.parquet", "--truth-hits", "hits.parquet",
        "--plots", "plots", "--json", "-",
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["events"] == 3000
    assert set(result["efficiency"]) == {"1", "2", "3", "4"}
    assert set(result["ring_count_accuracy"]) == {"0", "1", "2", "3", "4"}
    assert result["efficiency"]["1"] > 0.5  # one noise hit per event, and a fit of all hits
    assert result["efficiency"]["2"] < 0.2
    assert result["crlb_sigma_r_mm"] < result["sigma_r_mm"] < 5
    for name in ("fakes_per_event", "fakes_per_event_noise_only", "sigma_r_mad_mm", "sigma_xy_mm"):
        assert isinstance(result[name], float)
        assert isinstance(result["isolated"][name], float)
    assert result["crlb_from"] == "true hits"
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"efficiency.png", "ring_count.png", "residuals.png", "efficiency_hits_radius.png"} <= names
    without = nanet("evaluate", "--truth", "run.parquet", "--rings", "rings.parquet", "--json", "-")
    estimate = json.loads(without.stdout)
    assert estimate["crlb_from"].startswith("number of hits")
    assert estimate["crlb_sigma_r_mm"] == pytest.approx(result["crlb_sigma_r_mm"], rel=0.1)
    assert (
        "efficiency, 1 true ring"
        in nanet("evaluate", "--truth", "run.parquet", "--rings", "rings.parquet").stdout
    )


def test_empty_files(nanet, tmp_path):
    Run().write(tmp_path)
    done = nanet(
        "evaluate", "--truth", "run.parquet", "--rings", "rings.parquet", "--json", "-", "--plots", "plots"
    )
    result = json.loads(done.stdout)
    assert result["events"] == 0
    assert result["efficiency"] == {"1": None, "2": None, "3": None, "4": None}


def test_errors_name_file_column_and_remedy(nanet, tmp_path):
    run = Run()
    run.add_true(0, A)
    run.add_found(0, A)
    run.write(tmp_path)
    (tmp_path / "no.parquet").write_text("no Parquet file at all, whatever its name says")
    lacking = pq.read_table(tmp_path / "rings.parquet").drop_columns(["fine_time"])
    pq.write_table(lacking, tmp_path / "lacking.parquet")
    typed = dict(run.true, event=["zero"])
    pq.write_table(pa.table(typed), tmp_path / "typed.parquet")
    holes = dict(run.true, x=pa.array([None], pa.float32()))
    pq.write_table(pa.table(holes), tmp_path / "holes.parquet")
    hits = pa.table({"event": [7], "ring": [0], "pm": [3], "time": [0.0]}, schema=truth.HIT_SCHEMA)
    pq.write_table(hits, tmp_path / "hits.parquet")
    good = ("--truth", "run.parquet", "--rings", "rings.parquet")
    for arguments, text in (
        (("--rings", "gone.parquet"), "--rings gone.parquet"),
        (("--truth", "no.parquet"), "--truth no.parquet: is no Parquet file: give a file from `nanet"),
        (("--rings", "lacking.parquet"), "--rings lacking.parquet: has no column fine_time: give a file"),
        (("--truth", "typed.parquet"), "--truth typed.parquet: column event is string, must be uint64"),
        (("--truth", "holes.parquet"), "--truth holes.parquet: column x has empty places"),
        (("--truth-hits", "hits.parquet"), "--truth-hits hits.parquet: has no hits of event 0"),
        (("--plots", "no.parquet"), "--plots no.parquet"),
        (("--json", "run.parquet"), "--json run.parquet: is the file of --truth too"),
    ):
        done = nanet("evaluate", *good, *arguments, status=2)
        assert text in done.stderr
        assert done.stderr.count("\n") == 1
