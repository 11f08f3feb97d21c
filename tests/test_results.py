# SPDX-License-Identifier: Apache-2.0
"""Generated results: pages match results/*.json, and no page holds a hand-typed performance figure."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

UNITS = r"µs|ns|(?:events|packets|cycles)/s|[MG]/s|[kMG]?B/s|Gb/s|MHz|GHz|%"
NUMBER = r"(?<![\w.])\d+(?:[.,]\d+)?(?:[ –-]+\d+(?:\.\d+)?)?"
FIGURE = re.compile(rf"{NUMBER} ?(?:[kMG] )?(?:{UNITS})(?![\w])")
GENERATED = re.compile(r"<!-- (results|nanet quality): begin -->.*?<!-- \1: end -->", re.S)
# Pages whose numbers are definitions: formats, physics, schemas, generated pages, decisions with reasons.
PAGES_OF_CONSTANTS = {
    "docs/formats.md",
    "docs/detector.md",
    "docs/results.md",
    "gateware/syn/results.md",
    "gateware/doc/registers.md",
}
# Constants that may appear anywhere: format, physics, defaults, target clocks, published figures.
CONSTANTS = {
    "6.4 µs": "length of a frame",
    "4 ns": "merging window",
    "5 ns": "pairing of events in nanet evaluate",
    "25 ns": "clock of the experiment; isolation of events",
    "1 µs": "least gap counted as a stop",
    "50 µs": "least stop that explains a late frame",
    "10 MHz": "event rate of the experiment",
    "156.25 MHz": "clock of 10 GbE",
    "125 MHz": "clock of 1 GbE",
    "250 MHz": "clock of the PCIe block",
    "1 Gb/s": "link",
    "10 Gb/s": "link",
    "40 Gb/s": "link",
    "24.95 ns": "clock of the experiment, exact",
    "0.0975 ns": "LSB of fine time",
    "99.8 ns": "timestamp of MTP",
    "200 µs": "default timeout on a real-time host",
    "800 µs": "timeout of bench trigger with threads of boards",
    "99.9 %": "definition of lossless; percentile",
    "99.99 %": "percentile",
}


@pytest.fixture(scope="module")
def results(root: Path) -> ModuleType:
    """The package tools/results."""
    sys.path.insert(0, str(root / "tools"))
    try:
        return importlib.import_module("results.__main__")
    finally:
        sys.path.pop(0)


def test_pages_are_up_to_date(results: ModuleType) -> None:
    for path, text in results.generated().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run ./dev results"


def test_every_target_names_a_measurement(results: ModuleType) -> None:
    measurements = results.load()
    for goal in json.loads((results.ROOT / "results" / "targets.json").read_text(encoding="utf-8")):
        named = [m for m in measurements if fnmatch(m["name"], goal["file"])]
        assert named, goal
        assert all(m["bench"] == goal["bench"] for m in named), goal


def test_a_target_by_cause_shows_the_total_of_its_run(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = importlib.import_module("results.page")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    goal = {"figure": "late", "target": 0, "sense": "<=", "bench": "trigger", "file": "trigger-*", "scale": 1}
    goals = [goal | {"key": "late_by_us", "of": "late"}, goal | {"key": "late_by_us"}]
    (tmp_path / "targets.json").write_text(json.dumps(goals))
    run = {"name": "trigger-X", "bench": "trigger", "rows": [], "figures": {"late_by_us": 2.0, "late": 22.0}}
    shown = page.targets([run])
    assert "|late|≤ 0|2 of 22|**no**|" in shown and "|late|≤ 0|2|**no**|" in shown


def test_a_bench_output_is_copied_under_its_name(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.measurements.RESULTS", tmp_path)
    command = "nanet bench latency --device cuda --json out.json"
    made = {
        "bench": "latency",
        "command": command,
        "rows": [{"mode": "cpu", "p50_us": 1.0, "distribution_us": {"0.5": 1.0}}],
    }
    (tmp_path / "out.json").write_text(json.dumps(made))
    target = results.add(tmp_path / "out.json", "H200", "again")
    assert target.name == "latency-H200-again.json"
    assert json.loads(target.read_text())["command"] == "nanet bench latency --device cuda"
    assert "distribution_us" not in json.loads(target.read_text())["rows"][0]


def test_stops_and_causes_are_shown_where_a_measurement_has_them(results: ModuleType) -> None:
    tables = importlib.import_module("results.trigger")
    stops = {
        "stops": "during the load", "p99_9_us": 3.0, "p99_99_us": 71.0, "longest_us": 123.0,
        **{f"over_{limit}us_share": 0.01 / limit for limit in (10, 50, 100)},
    }  # fmt: skip
    about = {
        "name": "trigger-H200-x", "machine": "H200", "bench": "trigger", "command": "nanet bench trigger",
        "date": "2026-11-23", "commit": "abc",
    }  # fmt: skip
    figures = {"rate": 1e7, "events": 5, "lost": 7.0, "late": 5.0}
    causes = {"late_by_us": 2.0, "late_by_stops": 3.0, "late_by_boards": 0.0, "lost_by_us": 1.0}
    causes |= {"lost_by_boards": 6.0, "last_p99_9_over_echo": 1.5, "last_p99_99_over_echo": 2.5}
    causes |= {"explained_share": 0.0165}
    with_losses = causes | {"lost_by_stops": 4.0}
    without = tables.chain([about | {"rows": [], "figures": figures}])
    threads = [
        {"polling": "send", "over_50us_share": 0.25, "longest_us": 45.0},
        {"polling": "read 1", "over_50us_share": 0.125, "longest_us": 456.0},
    ]
    shown = tables.chain([about | {"rows": [stops, *threads], "figures": figures | causes}])
    assert "spinning loop" not in without and "late by the trigger" not in without
    assert "|during the load|" in shown and "|123|" in shown and "|last 1.5 / 2.5|" in shown
    assert "|H200-x|2|3|0|0.0165|1|–|6|" in shown, "a measurement before losses were judged by stops"
    judged = tables.chain([about | {"rows": [], "figures": figures | with_losses}])
    assert "|packets lost by the trigger|by stops|by the boards|" in judged
    assert "|H200-x|2|3|0|0.0165|1|4|6|" in judged
    assert "|H200-x|largest of threads|||456||0.25|||" in shown
    unwatched = {"polling": "card", "over_50us_share": 0.9, "longest_us": 999.0, "seconds": 0.006}
    hardly = {"rows": [stops, *threads, unwatched], "figures": figures | causes}
    assert "|largest of threads|||456||0.25|||" in tables.chain([about | hardly])
    not_judged = {key: n for key, n in causes.items() if key not in ("late_by_stops", "explained_share")}
    assert "|H200-x|2|–|0|–|1|–|6|" in tables.chain([about | {"rows": [], "figures": figures | not_judged}])
    trip = {"mode": "echo", "samples": 9}
    latency = about | {"bench": "latency", "name": "latency-H200-x", "rows": [trip, stops]}
    latency["figures"] = {"p99_9_over_echo": 1.1, "p99_99_over_echo": 1.2} | {
        f"cpu_{p}_over_echo": ratio for p, ratio in (("p99_9", 1.1), ("p99_99", 1.2))
    }
    assert "|cpu 1.1 / 1.2|" in tables.roundtrip([latency])


def test_only_cards_follow_the_slowest_modules(results: ModuleType) -> None:
    devices = importlib.import_module("results.devices")
    text = devices.gateware(results.load()).partition("Synthesis for")[2]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|`")]
    modules, cards = rows[:5], rows[5:]
    assert [float(row[4].split()[0]) for row in modules] == sorted(
        float(row[5].split()[0])
        for row in devices.synthesis()
        if "card`" not in row[0] and row[5] != devices.NOT_ROUTED
    )[:5]
    assert {row[0].split()[0] for row in cards} == {
        row[0].split()[0] for row in devices.synthesis() if re.match(r"`nanet_\w*card`", row[0])
    }


def test_runs_of_the_fuzzers_add_up(results: ModuleType, tmp_path: Path) -> None:
    recorder, fuzzing = (importlib.import_module(name) for name in ("fuzz_record", "results.fuzzing"))
    log = (
        "#2\tINITED cov: 3\n#4096\tpulse  cov: 9\nstat::number_of_executed_units: 5000\ncpu_s: 7.100 0.130\n"
    )
    crashed = (
        "#4096\tNEW    cov: 9\n==77==ERROR: AddressSanitizer: heap-buffer-overflow\ncpu_s: 3.000 0.000\n"
    )
    assert recorder.run_of("rings", "#2\tINITED cov: 3\n", 0.0, "abc") is None
    first = recorder.run_of("rings", log, 1e9, "abc")
    assert first["cpu_s"] == 7.2 and first["executions"] == 5000 and first["crashes"] == 0
    second = recorder.run_of("rings", crashed, 1.1e9, "abd")
    assert second["crashes"] == 1 and second["executions"] == 4096 and second["id"] != first["id"]
    runs = tmp_path / "runs.jsonl"
    runs.write_text(json.dumps(first) + "\n")
    fuzzing.merge(runs, "A", tmp_path)
    runs.write_text("".join(json.dumps(run) + "\n" for run in (first, second)))  # the first one again
    record = json.loads(fuzzing.merge(runs, "A", tmp_path).read_text())
    (row,) = record["rows"]
    assert (row["runs"], row["executions"], row["crashes"]) == (2, 9096, 1)
    assert record["figures"] == {"cpu_hours": pytest.approx(10.2 / 3600), "crashes": 1}
    assert record["commit"] == "abd"
    shown = fuzzing.fuzzing([record | {"name": "fuzz-A", "machine": "A"}])
    assert "|rings|0.00283|2|" in shown


def test_a_wrong_file_is_refused(results: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "machines.json").write_text('{"A": "a machine"}')
    described = {"bench": "latency", "command": "nanet bench latency", "date": "2026-11-22", "commit": "abc"}
    for name, change, reason in (
        ("latency-A", {"command": ""}, "'command' is missing"),
        ("replay-A", {}, "rename it"),
        ("latency-B", {}, "machines.json"),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(described | change))
        with pytest.raises(ValueError, match=reason):
            results.load(tmp_path)
        path.unlink()


def figures(text: str) -> list[str]:
    """Performance figures of a page, without generated blocks, code blocks and constants."""
    text = GENERATED.sub("", text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.M)
    return [found for found in FIGURE.findall(text) if found.strip() not in CONSTANTS]


def test_no_page_has_a_figure_typed_by_hand(root: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    strays = {
        page: found
        for page in listed.stdout.split()
        if page not in PAGES_OF_CONSTANTS and (found := figures((root / page).read_text(encoding="utf-8")))
    }
    assert not strays, "\n".join(f"{page}: {', '.join(found)}" for page, found in strays.items())


def test_a_stray_figure_is_found() -> None:
    assert figures("It takes 9.2 µs.") == ["9.2 µs"]
    assert figures("up to 3.9–4.2 M events/s") == ["3.9–4.2 M events/s"]
    assert figures("a frame of 6.4 µs; 5 mm; 32 B; n mod 4") == []
    assert figures("<!-- results: begin -->\n|9 µs|\n<!-- results: end -->\n") == []
