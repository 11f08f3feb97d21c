# SPDX-License-Identifier: Apache-2.0
"""`nanet quality`: curves and fits compared with known values or scipy, and the command."""

import json
import re

import numpy as np
import pytest
import scipy.optimize
from nanet.errors import UsageError
from nanet.quality import curves, evaluate, figures, oracle, own_hits, page, samples

from nanet import _core


def test_bins_have_their_low_edge_and_what_is_outside_counts_nowhere():
    edges = np.array([0.0, 10, 20, 30, 40])
    values = np.array([-1, 0, 9.99, 10, 25, 25, 40, 1e9])
    passed = np.array([1, 1, 0, 1, 1, 1, 1, 1], dtype=bool)
    curve = curves.share_curve(values, passed, edges)
    assert curve["low"] == [0, 10, 20] and curve["high"] == [10, 20, 30]  # the last bin is empty
    assert curve["n"] == [2, 1, 2]
    assert curve["value"] == [0.5, 1, 1]
    assert curve["error"] == pytest.approx([np.sqrt(0.125), 0, 0])


def test_spread_per_bin():
    values, difference = np.array([1, 1, 1, 12, 12]), np.array([1.0, 2, 3, -2, 2])
    curve = curves.spread_curve(values, difference, np.array([1, 4, 1, 9, 9]), np.array([0, 10, 20.0]))
    assert curve["n"] == [3, 2]
    assert curve["value"] == pytest.approx([np.sqrt(2 / 3), 2])
    assert curve["bound"] == pytest.approx([np.sqrt(2), 3])
    assert curve["error"] == pytest.approx([np.sqrt(2 / 3) / np.sqrt(6), 1])


def events(*rings_of_event, spacing_ns=100.0):
    """Events 100 ns apart; a ring is (x, y, r, hits)."""
    rows = [(e, *ring, k) for e, rings in enumerate(rings_of_event) for k, ring in enumerate(rings)]
    event, x, y, r, hits, number = np.array(rows, dtype=float).reshape(-1, 6).T
    n = len(rings_of_event)
    time = np.round(np.arange(n) * spacing_ns / evaluate.LSB_NS).astype(np.int64)
    rings = evaluate.Rings(event.astype(int), x, y, r, hits.astype(int), number.astype(int))
    total = np.array([sum(int(ring[3]) for ring in rings) + 1 for rings in rings_of_event])
    return evaluate.Events(time, total, np.arange(n), rings)


def test_figures_of_a_hand_made_case():
    a, b = (-150.0, 0.0, 180.0, 12), (-120.0, 40.0, 150.0, 6)  # 50 mm and 30 mm apart: 3.33 and 3
    near = (-150.0, 6.0, 176.0, 4)  # of a: 6 mm and 4 mm: 0.4 and 0.4
    true = events([a, b], [a, near], [a], [])
    found = events([(*a[:2], 182.0, 12)], [a], [a, b], [b])
    bounds = evaluate.bounds_from_counts(true.rings.hits)
    case = evaluate.compare(true, found, bounds)
    result = case.result()
    # Rows: counting true rings 0 ... 4; columns: rings found.
    assert result["ring_count_matrix"] == [
        [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 2, 0, 0, 0], [0] * 5, [0] * 5
    ]  # fmt: skip
    assert result["ring_count_accuracy"]["1"] == 0
    assert result["efficiency"] == {"1": 1.0, "2": 0.5, "3": pytest.approx(np.nan, nan_ok=True),
                                    "4": pytest.approx(np.nan, nan_ok=True)}  # fmt: skip
    assert result["fakes_per_event"] == 0.5
    assert result["fakes_per_event_noise_only"] == 1
    assert result["sigma_r_mm"] == pytest.approx(np.std([2, 0, 0]))

    first, second = curves.pairs_of_two(case)
    assert first.tolist() == [0, 2] and second.tolist() == [1, 3]
    found_curves = curves.of(case)
    separation = found_curves["separation"]
    assert separation["low"] == [0, 50] and separation["n"] == [2, 2]
    assert separation["value"] == [0.5, 0.5]
    distance = found_curves["distance"]
    assert distance["low"] == [0.5, 4] and distance["n"] == [2, 2]  # sqrt(0.32) and sqrt(3.33^2 + 3^2)
    assert found_curves["rings"]["value"] == [1, 0.5] and found_curves["rings"]["n"] == [1, 4]
    assert found_curves["sigma_r_rings"]["value"] == pytest.approx([0, np.std([2, 0])])
    assert found_curves["single_ring_hits"]["low"] == [11.5] and found_curves["single_ring_hits"]["n"] == [1]
    hits = found_curves["ring_hits"]
    assert dict(zip(hits["low"], hits["value"], strict=True)) == {3.5: 0, 5.5: 0, 11.5: 1}
    assert found_curves["event_hits"]["low"] == [11.5, 15.5]  # 13; 17 and 19 hits
    assert found_curves["event_hits"]["value"] == [1, 0.5]
    assert found_curves["sigma_r_ring_hits"]["value"] == pytest.approx([np.std([2, 0, 0])])


def test_own_hits_are_those_out_of_reach_of_the_other_rings():
    a, b, c = (0.0, 0.0, 100.0, 4), (300.0, 0.0, 100.0, 4), (0.0, 0.0, 110.0, 4)
    tiny = (0.0, 0.0, 100.0, 3)  # does not count, and removes nothing
    true = events([a, b], [a, c], [a, tiny], [])
    bounds = evaluate.bounds_from_counts(true.rings.hits)
    case = evaluate.compare(true, events([], [], [], []), bounds)
    positions = np.array(
        [[100.0, 0], [0, 100], [-100, 0], [0, -100], [300, 100], [211, 0], [0, 123], [-110, 0]]
    )
    ring = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
    pm = np.array([0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 0, 1])
    own = own_hits.own_hits(case, ring, pm, positions)
    assert own.tolist() == [4, 2, 0, 1, 1, 0]  # (0, 123) is 23 mm beyond a, (-110, 0) is 10 mm
    share = own_hits.separable(case, own)
    assert share["2"]["2"] == 0.5 and share["3"]["2"] == 0 and share["2"]["1"] == 0
    assert np.isnan(share["2"]["3"])


@pytest.fixture(scope="module")
def arcs():
    """Circles, and points around them with 4.85 mm of noise: (circles, group, x, y)."""
    random = np.random.default_rng(7)
    circles = np.column_stack(
        (random.normal(-152, 40, 60), random.normal(0, 40, 60), random.uniform(100, 188, 60))
    )
    group = np.repeat(np.arange(60), random.integers(6, 20, 60))
    angle = random.uniform(0, 2 * np.pi, len(group))
    x = circles[group, 0] + circles[group, 2] * np.cos(angle) + random.normal(0, 4.85, len(group))
    y = circles[group, 1] + circles[group, 2] * np.sin(angle) + random.normal(0, 4.85, len(group))
    return circles, group, x, y


@pytest.mark.parametrize("prior", [False, True])
def test_the_oracle_finds_the_least_squares(arcs, prior):
    _, group, x, y = arcs
    start = oracle.taubin(group, x, y, 60)
    fitted = oracle.geometric(group, x, y, start, prior=prior)
    weight = 4.85 / 60 if prior else 0.0
    for k, circle in enumerate(fitted):
        px, py = x[group == k], y[group == k]

        def residual(p, px=px, py=py):
            far = [weight * (p[0] + 152), weight * p[1]]
            return np.concatenate((np.hypot(px - p[0], py - p[1]) - p[2], far))

        limits = (-np.inf, [np.inf, np.inf, 190.7 if prior else np.inf])
        inside = np.minimum(start[k], [np.inf, np.inf, 190.0 if prior else np.inf])
        best = scipy.optimize.least_squares(residual, inside, bounds=limits, xtol=1e-12, ftol=1e-12)
        assert circle == pytest.approx(best.x, abs=0.02)
        assert (residual(circle) ** 2).sum() == pytest.approx(2 * best.cost, rel=1e-5)
    if prior:
        assert fitted[:, 2].max() <= 190.7


def test_taubin_is_exact_on_exact_circles(arcs):
    circles, group, *_ = arcs
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, len(group))
    x, y = (circles[group, k] + circles[group, 2] * f(angle) for k, f in enumerate((np.cos, np.sin)))
    assert oracle.taubin(group, x, y, 60) == pytest.approx(circles, abs=1e-6)


def test_the_oracle_matches_nearly_every_ring_and_reaches_the_bound(tmp_path):
    generated = samples.generate(samples.Sample("mix", 4000, 1.0, -1, 5), tmp_path)
    case = oracle.oracle(
        generated.true,
        generated.hit_ring,
        generated.hit_pm,
        generated.positions,
        generated.bounds,
        prior=False,
    )
    result = case.result()
    for rings in "1234":
        assert result["efficiency"][rings] > 0.97
    # Its fakes are its own failed fits: as many as unmatched rings.
    assert result["fakes"] == result["true_rings"] - result["matched_rings"]
    assert result["sigma_r_mm"] == pytest.approx(result["crlb_sigma_r_mm"], rel=0.1)
    assert result["sigma_xy_mm"] == pytest.approx(result["crlb_sigma_xy_mm"], rel=0.1)


def test_no_two_samples_share_a_seed_and_none_is_one_of_tuning():
    plan = samples.plan(1000, 20261121)
    seeds = [sample.seed for sample in plan]
    assert len(set(seeds)) == len(seeds) and min(seeds) > 99
    assert {(sample.rings, sample.noise) for sample in plan} == {(-1, n) for n in range(6)} | {(0, 1), (0, 5)}


def test_the_command_makes_a_report_of_every_algorithm(nanet, tmp_path):
    nanet("quality", "--events", 500, "--out", "report", "--json", "same.json")
    folder = tmp_path / "report"
    result = json.loads((folder / "quality.json").read_text())
    assert result == json.loads((tmp_path / "same.json").read_text())
    names = [*_core.algorithm_names(), "oracle", "oracle_prior"]
    assert list(result["algorithms"]) == names
    assert set(result["separable"]) == {"2", "3", "4"}
    for row in result["algorithms"].values():
        assert row["mix"]["events"] == 500
        assert set(row["noise"]) == set("012345") and set(row["empty"]) == {"1", "5"}
        assert row["noise"]["1"] == row["mix"]
        assert np.sum(row["mix"]["ring_count_matrix"]) == row["mix"]["events_paired"]
        assert {*curves.EDGES, "sigma_r_radius", "sigma_r_ring_hits"} <= set(row["curves"])
        assert row["curves"]["noise_fakes_per_event"]["value"][1] == row["mix"]["isolated"]["fakes_per_event"]
    text = (folder / "report.md").read_text()
    assert f"    nanet quality --events 500 --seed {result['seed']}\n" in text
    for name in _core.algorithm_names():
        assert f"`{name}`" in text
    math = result["algorithms"]["math"]["mix"]["isolated"]
    table = text[text.index("### Isolated events") :].splitlines()
    line = next(line for line in table if line.startswith("|efficiency, 1 true ring|"))
    assert line.split("|")[2].strip() == f"{math['efficiency']['1']:.3f}"
    # Tables by hits and by number of rings: single rings, computed from the JSON.
    curve = result["algorithms"]["multiring"]["curves"]["single_ring_hits"]
    at = curve["low"].index(7.5)
    line = next(line for line in text.splitlines() if line.startswith("|`multiring`|"))
    assert line.split("|")[6].strip() == f"{curve['value'][at]:.3f}"  # 8 hits
    share = next(line for line in text.splitlines() if line.startswith("|share|")).split("|")[2:-1]
    assert sum(map(float, share)) == pytest.approx(1, abs=0.004)
    for link in re.findall(r"\]\(([^)]+\.svg)\)", text):
        assert (folder / link).read_text().startswith("<?xml")
    assert set(re.findall(r"\(([\w-]+)\.svg\)", text)) == set(figures.FIGURES)


@pytest.mark.complete
def test_the_page_is_rewritten_between_its_markers_and_the_same_seed_gives_the_same(nanet, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "quality.md").write_text(f"before\n\n{page.BEGIN}\nwhat stood here\n{page.END}\n\nafter\n")
    command = ("quality", "--events", 200, "--seed", 4711, "--algorithms", "math", "--docs", "docs")
    nanet(*command)
    once = {path: path.read_bytes() for path in docs.rglob("*.*")}
    text = (docs / "quality.md").read_text()
    assert text.startswith(f"before\n\n{page.BEGIN}\n\n    nanet quality --events 200 --seed 4711")
    assert text.endswith(f"{page.END}\n\nafter\n") and "what stood here" not in text
    for name in figures.FIGURES:
        assert f"(images/{name}.svg)" in text and docs / "images" / f"{name}.svg" in once
    nanet(*command)
    assert {path: path.read_bytes() for path in docs.rglob("*.*")} == once


def test_the_documentation_has_the_markers(root):
    assert "nanet quality --events" in page.between(root / "docs" / "quality.md")


def test_errors_are_reported_before_the_work(nanet, tmp_path):
    (tmp_path / "quality.md").write_text("no markers")
    for arguments, said in (
        (("--algorithms", "mth"), "did you mean math?"),
        (("--algorithms", "math,math"), "each once"),
        (("--docs", "."), page.BEGIN),
        (("--docs", "nowhere"), "nowhere"),
        (("--out", "quality.md"), "--out"),
    ):
        done = nanet("quality", *arguments, status=2, timeout=20)
        assert said in done.stderr and done.stderr.count("\n") == 1
    with pytest.raises(UsageError, match="once, in this order"):
        (tmp_path / "quality.md").write_text(f"{page.END}\n{page.BEGIN}\n")
        page.between(tmp_path / "quality.md")


FINDER = """
from __future__ import annotations
import dataclasses
import numpy as np
from neighbour import CHOSEN

@dataclasses.dataclass
class Options:
    algorithm: str = CHOSEN

def find(x, y, first):
    from nanet.analysis import reconstruct
    event = np.repeat(np.arange(len(first) - 1), np.diff(first))
    table = reconstruct(x, y, event, Options().algorithm).to_pydict()
    keep = [at for at, ring in enumerate(table["ring"]) if ring != 255]
    return {name: [table[name][at] for at in keep] for name in ("event", "x", "y", "r", "n_hits")}

def lacking(x, y, first):
    return {"event": [], "x": [], "y": [], "r": []}

def failing(x, y, first):
    return first[len(first)]
"""


def test_a_function_in_python_stands_beside_the_algorithms(nanet, tmp_path):
    (tmp_path / "finder.py").write_text(FINDER)
    (tmp_path / "neighbour.py").write_text("CHOSEN = 'math'")
    nanet("quality", "--events", 400, "--algorithms", "math,finder.py:find", "--out", "look")
    rows = json.loads((tmp_path / "look" / "quality.json").read_text())["algorithms"]
    assert rows["find"]["mix"]["efficiency"] == rows["math"]["mix"]["efficiency"]
    assert rows["find"]["empty"]["5"]["fakes_per_event"] == rows["math"]["empty"]["5"]["fakes_per_event"]

    def refused(given):
        return nanet("quality", "--events", 100, "--algorithms", given, "--out", "look", status=2).stderr

    assert "none.py: No such file" in refused("none.py:find")
    assert "finder.py:none: the file defines no function none" in refused("finder.py:none")
    assert "lacking: the result has no n_hits" in refused("finder.py:lacking")
    last = len(FINDER.rstrip().splitlines())
    assert f"failing, line {last}: IndexError" in refused("finder.py:failing")
    (tmp_path / "script.py").write_text("import sys\nsys.exit(3)\n")
    assert "--algorithms script.py, line 2: SystemExit: 3" in refused("script.py:find")
    (tmp_path / "wrong.py").write_text("def find(:\n")
    assert "--algorithms wrong.py: SyntaxError" in refused("wrong.py:find")
    (tmp_path / "math.py").write_text("math = print")
    assert "math is an algorithm of nanet; rename" in refused("math.py:math")
