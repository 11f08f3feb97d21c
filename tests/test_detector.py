# SPDX-License-Identifier: Apache-2.0
"""Detector files: NA62's equals the compiled one bit for bit; mistakes are named with key, value, remedy.

The chain with other detectors is compared with positions from the file and with decoding in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nanet.config.file import Config
from nanet.config.sections import Card, DetectorFile, Generate, Trigger
from nanet.detector import NA62_DIGEST, NA62_NAME, SHIPPED, as_detector, load
from nanet.errors import UsageError
from nanet.files.provenance import SIDECAR
from nanet.quality.evaluate import evaluate_files
from nanet.run import host
from nanet.run.core_options import core_options
from nanet.run.generating import generate_files
from nanet.run.replaying import replay_files
from scipy.spatial import cKDTree

from nanet import _core, analysis

GOOD = """\
name = "four"
unit_mm = [12.0, 20.8]
pitch_mm = 24.0
channels = [
  [0, 0], [2, 0, 0], [1, 1, 0, 0], [3, 1, 0, 1],
]
[optics]
focal_mm = 17020.0
n_minus_1 = 62.8e-6
radiator_cm = 1700.0
n0_per_cm = 65.0
"""


@pytest.fixture(scope="module")
def na62() -> Any:
    return load("na62")


def test_na62_from_its_file_is_the_compiled_detector(na62: Any) -> None:
    assert (na62.name, na62.digest, na62.core()) == (NA62_NAME, NA62_DIGEST, None)
    for mine, compiled in (
        (na62.position, _core.pm_positions_disk()),
        (na62.common, _core.pm_positions_common()),
    ):
        assert mine.dtype == compiled.dtype == np.float32
        assert mine.tobytes() == compiled.tobytes()
    assert na62.first_of_boards() == [0, 512, 1024, 1536, 1952]
    assert np.bincount(na62.disk).tolist() == [976, 976]
    assert na62.display.x_mm == (-485.0, 181.0)


def test_derived_parameters_of_na62_are_the_defaults_of_the_algorithms(na62: Any) -> None:
    assert set(na62.algorithms) == set(_core.algorithm_names())
    for name, parameters in na62.algorithms.items():
        defaults = {one["name"]: one["value"] for one in _core.algorithm_parameters(name)}
        for key, value in parameters.items():
            assert np.float32(value) == np.float32(defaults[key]), (name, key)
    for particle, mass in (("mu", 0.1056584), ("pi", 0.1395702)):
        for momentum in (15.0, 50.0):
            assert na62.optics.radius_mm(mass, momentum) == pytest.approx(
                _core.ring_radius_mm(particle, momentum), rel=1e-12
            )


@pytest.mark.parametrize(("name", "channels", "boards"), [("square", 4096, 8), ("hexagonal", 631, 3)])
def test_shipped_examples(name: str, channels: int, boards: int) -> None:
    detector = load(name)
    assert (detector.channels, detector.boards, len(detector.disks)) == (channels, boards, 1)
    near, _ = cKDTree(detector.position).query(detector.position, 2)
    assert near[:, 1] == pytest.approx(detector.display.pitch_mm, rel=1e-5)
    assert detector.core()["digest"] == detector.digest != NA62_DIGEST


def test_csv_with_its_keys_in_comments(tmp_path: Path) -> None:
    (tmp_path / "plane.toml").write_text(GOOD)
    (tmp_path / "plane.csv").write_text(as_csv())
    toml, csv = load(str(tmp_path / "plane.toml")), load(str(tmp_path / "plane.csv"))
    assert toml.digest == csv.digest
    assert csv.first_of_boards() == [0, 3, 4]


def test_digest_follows_values_and_not_layout(tmp_path: Path) -> None:
    path = tmp_path / "plane.toml"

    def digest(text: str) -> str:
        path.write_text(text)
        return load(str(path)).digest

    first = digest(GOOD)
    assert digest("# a comment\n" + GOOD.replace("24.0", "24")) == first
    for old, new in (("[3, 1, 0, 1]", "[3, 2, 0, 1]"), ("four", "five"), ("1700.0", "1701.0")):
        assert digest(GOOD.replace(old, new)) != first


MISTAKES = [
    ('name = "four"', "", "name = None"),
    ("pitch_mm", "pitsch_mm", "pitsch_mm: no such key (did you mean pitch_mm?)"),
    ("[12.0, 20.8]", "[12.0]", "unit_mm = [12.0]: must be a list of 2 numbers"),
    ("[12.0, 20.8]", "[-1, 20.8]", "unit_mm[0] = -1: must be a number from 0.0001 to 1000"),
    ("pitch_mm = 24.0", 'pitch_mm = 24.0\nshape = "round"', "shape = 'round': must be one of"),
    ("[2, 0, 0]", "[2.5, 0, 0]", "channels[1] = [2.5, 0, 0]: must be 2 to 4 whole numbers"),
    ("[2, 0, 0]", "[2, 0, 1]", "channels[1].disk = 1: must be 0 to 0: disks count from 0"),
    ("[3, 1, 0, 1]", "[3, 1, 0, 8]", "channels[3].board = 8: must be 0 to 7: boards count from 0"),
    ("[0, 0]", "[0, 0, 0, 1]", "channels[0].board = 1: must be 0: boards count from 0"),
    ("[3, 1, 0, 1]", "[3, 1, 0, 2]", "channels[3].board = 2: boards serve consecutive channels"),
    ("[3, 1, 0, 1]", "[2, 0, 0, 1]", "channels[3] = [2, 0, 0]: channel 1 is at the same place"),
    ("[3, 1, 0, 1]", "[300, 1, 0, 1]", "is at (3600.0, 20.8) mm of the common plane, must be within 900 mm"),
    ("n0_per_cm = 65.0", "", "optics.n0_per_cm: is missing"),
    ("17020.0", "1.0", "optics.focal_mm = 1: gives rings of 0.0 mm at beta = 1: must be 20 to 600 mm"),
    ("[optics]", "[monte_carlo]\nmomentum_gev = [5, 9]\n[optics]",
     "monte_carlo.particles.mu = 0.55: gives no light at 9 GeV/c"),
    ("[optics]", "[monte_carlo]\nrings = [0.5, 0.4, 0, 0, 0]\n[optics]",
     "monte_carlo.rings: the shares add up to 0.9: must be 1"),
    ("[optics]", "[algorithm.math]\nr_max = true\n[optics]", "algorithm.math.r_max = True: must be"),
    ("[optics]", "[display]\nx_mm = [5, 5]\n[optics]", "display.x_mm = [5.0, 5.0]: the first must be"),
    ("channels = [", "channels = {", "is not TOML"),
    ("[2, 0, 0]", "[2, 100000000000000000000]", "channels[1] = [2, 100000000000000000000]: must be within"),
    ("24.0", "9" * 5000, "is not TOML: a number has too many digits"),
    ("[12.0, 20.8]", "[" * 9000 + "]" * 9000, "is not TOML: brackets are nested too deeply"),
    ("24.0", "nan", "pitch_mm = nan: must be a number from 0.1 to 200"),
    ('"four"', "1979-05-27", "name = datetime.date(1979, 5, 27): must be a text"),
    ('"four"', '"' + "a" * 99 + '"', "name = 'aaaa"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "plane.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        load(str(path))
    assert str(path) in str(error.value)


CSV_MISTAKES = [
    ("x,y,board", "x,y,y", "column y: occurs 2 times"),
    ("x,y,board", "x;y;board", "column x;y;board: no such key"),
    ("x,y,board", "x,board", "column y: is missing in the header x,board"),
    ("2,0,0", "2,0", "channel 1: '2,0': must be 3 whole numbers"),
    ("2,0,0", "2,1e3,0", "channel 1: '2,1e3,0': must be 3 whole numbers"),
    ("2,0,0", "2," + "9" * 5000 + ",0", "channel 1: '2,999"),
    ("2,0,0", "2,99999999,0", "channels[1] = [2, 99999999, 0, 0]: must be within 16777216 steps"),
    ("2,0,0", "2," + "9" * 200_000 + ",0", "the table: is not CSV: field larger than field limit"),
    ("x,y,board", "", "column 0: no such key"),
    ("# pitch_mm = 24.0", "pitch_mm = 24.0", "column pitch_mm = 24.0: no such key"),
]  # fmt: skip


def as_csv(text: str = GOOD) -> str:
    """The detector of GOOD as a CSV file."""
    head, _, tail = text.partition("channels = [")
    keys = (head + tail[tail.index("[optics]") :]).splitlines()
    return "".join(f"# {line}\n" for line in keys) + "x,y,board\n0,0,0\n2,0,0\n1,1,0\n3,1,1\n"


@pytest.mark.parametrize(("old", "new", "message"), CSV_MISTAKES, ids=[m[2][:40] for m in CSV_MISTAKES])
def test_mistakes_of_a_csv_file_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "plane.csv"
    path.write_text(as_csv())
    load(str(path))
    path.write_text(as_csv().replace(old, new, 1))
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        load(str(path))
    assert str(path) in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["plane.toml", "plane.csv"])
def test_a_byte_order_mark_is_ignored(tmp_path: Path, name: str) -> None:
    text = as_csv() if name.endswith("csv") else GOOD
    (tmp_path / name).write_text(text)
    plain = load(str(tmp_path / name)).digest
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert load(str(tmp_path / name)).digest == plain


def test_check_draws_the_detector(nanet: Any, tmp_path: Path) -> None:
    done = nanet("detector", "check", "hexagonal", "--out", "plane.svg", "--json", "plane.json")
    assert "boards: 3" in done.stderr + done.stdout
    assert any("\u2800" < character < "\u2900" for character in done.stderr + done.stdout)
    assert json.loads((tmp_path / "plane.json").read_text())["channels_of_boards"] == [256, 256, 119]
    assert (tmp_path / "plane.svg").read_text().count("<path") > 600
    (tmp_path / "wrong.toml").write_text(GOOD.replace("24.0", "-24"))
    failed = nanet("detector", "check", "wrong.toml", status=2)
    assert "wrong.toml: pitch_mm = -24: must be a number from 0.1 to 200" in failed.stderr
    (tmp_path / "odd.toml").write_text(GOOD + "[algorithm.math]\nr_mox = 3\n")
    refused = nanet("detector", "check", "odd.toml", status=2).stderr
    assert "odd.toml: algorithm.math.r_mox = 3: no such parameter (did you mean r_max?)" in refused
    (tmp_path / "odd.toml").write_text(GOOD + "[algorithm.mult]\nr_max = 3\n")
    assert "[algorithm.mult]: for a plug-in of this name" in nanet("detector", "check", "odd.toml").stdout
    missing = nanet("detector", "check", "none.toml", status=2)
    assert all(name in missing.stderr for name in ("none.toml", *SHIPPED))


# ---- Other detectors through the chain.

# Three disks with different shifts, of two boards; unlike NA62's in every parameter.
THREE = """\
name = "three disks"
unit_mm = [10.0, 17.320508]
pitch_mm = 20.0
[[disk]]
name = "left"
shift_mm = [-40.0, 6.0]
[[disk]]
shift_mm = [35.5, -6.0]
[[disk]]
[optics]
focal_mm = 15000.0
n_minus_1 = 70e-6
radiator_cm = 2000.0
n0_per_cm = 90.0
[monte_carlo]
centre_mm = 20.0
centre_sigma_mm = 30.0
momentum_gev = [20.0, 40.0]
particles = { pi = 0.5, mu = 0.3, e = 0.2 }
rings = [0.0, 0.7, 0.3, 0.0, 0.0]
hit_sigma_ns = 0.2
board_offset_ns = 2.0
[algorithm.multiring]
breadth = 2
"""


def three_disks() -> str:
    """TOML of the detector above, with its channels."""
    rows = []
    for disk in range(3):
        for row in range(-14, 15):
            for column in range(-14, 15):
                rows.append([2 * column + row % 2, row, disk, int(disk == 2)])
    head, _, tail = THREE.partition("[[disk]]")
    return f"{head}channels = {rows}\n[[disk]]{tail}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Captures and truth of 3000 events by detector, made by the core and written by nanet.run.generating."""
    folder = tmp_path_factory.mktemp("detectors")
    (folder / "three.toml").write_text(three_disks())
    found = {}
    for given in ("na62", "hexagonal", "square", str(folder / "three.toml")):
        name = Path(given).stem
        detector = load(given)
        files = [str(folder / f"{name}{end}") for end in (".pcap", ".truth.parquet", ".hits.parquet")]
        section = Generate(events=3000, seed=7)
        generate_files(section, *files, detector)
        found[name] = (given, detector, *files)
    return found


def keys_of(table: Any) -> Iterator[tuple[int, int]]:
    """(event, ring) of each row."""
    return zip(table["event"].to_pylist(), table["ring"].to_pylist(), strict=True)


DETECTORS = ("na62", "hexagonal", "square", "three")


@pytest.mark.parametrize("name", DETECTORS)
def test_photons_land_on_the_file_s_positions(made: dict[str, Any], name: str) -> None:
    _, detector, _, truth_file, hits_file = made[name]
    truth, hits = pq.read_table(truth_file), pq.read_table(hits_file)
    assert truth.schema.metadata[b"nanet.detector"].decode() == detector.name
    assert truth.schema.metadata[b"nanet.detector_digest"].decode() == detector.digest
    ring = {key: i for i, key in enumerate(keys_of(truth))}
    own = hits.filter(pc.field("ring") != 255)
    at = np.array([ring[key] for key in keys_of(own)])
    x, y, r = (truth[c].to_numpy(zero_copy_only=False)[at] for c in ("x", "y", "r"))
    place = detector.common[own["pm"].to_numpy()]
    off = np.hypot(place[:, 0] - x, place[:, 1] - y) - r
    assert np.abs(off).max() < detector.rings.reach_mm + 4 * detector.monte_carlo.optics_mm
    assert off.std() == pytest.approx(detector.rings.hit_sigma_mm, rel=0.1)
    shares = np.bincount(detector.disk[own["pm"].to_numpy()]) / len(own)
    assert shares == pytest.approx(1 / len(detector.disks), abs=0.03)
    assert r.max() <= detector.optics.largest_mm
    noise = hits.filter(pc.field("ring") == 255)["pm"].to_numpy()
    assert noise.max() > 0.98 * detector.channels > 0.98 * noise.max()


@pytest.mark.parametrize("name", DETECTORS)
def test_replay_gives_the_rings_of_python_s_decoding(made: dict[str, Any], name: str, tmp_path: Path) -> None:
    """Builder and reconstruction of the core against events decoded and merged by numpy code."""
    given, detector, capture, truth_file, hits_file = made[name]
    config = Config()
    config.set(DetectorFile, detector=given)
    settings = {**core_options(config), "port": 58913, "detect_merged": True}
    rings_file = str(tmp_path / "rings.parquet")
    result = replay_files([capture], settings, rings=rings_file)
    assert result["account_closes"] and not any(result["bad_packets"].values())
    found = analysis.read_rings(rings_file)
    assert found.schema.metadata[b"nanet.detector_digest"].decode() == detector.digest
    events = analysis.read_events(capture, detector=given)
    again = analysis.reconstruct(events, detector=given, **detector.algorithms["multiring"])
    assert events.num_rows == result["events_built"]
    for column in ("ring", "x", "y", "r", "chi2_ndf", "n_hits", "event_hits"):
        assert found[column].to_pylist() == again[column].to_pylist(), column
    figures = evaluate_files(truth_file, rings_file, hits_file, as_detector(given)).result()["isolated"]
    assert figures["efficiency"]["1"] > 0.9
    assert figures["fakes_per_event"] < 0.3
    assert figures["sigma_r_mad_mm"] < 2 * figures["crlb_sigma_r_mm"]


def replayed(given: str, capture: str, folder: Path, **changes: Any) -> tuple[dict[str, Any], Any]:
    """Result and rings of a replay with options of [trigger] and [card]."""
    config = Config()
    config.set(DetectorFile, detector=given)
    config.set(Trigger, device="cpu", algorithm="math", conditions=changes.pop("conditions", ""))
    config.set(Card, **changes)
    settings = {**core_options(config), "port": 58913, "detect_merged": True}
    result = replay_files([capture], settings, rings=str(folder / "rings.parquet"))
    assert result["account_closes"] and not any(result["bad_packets"].values())
    return result, analysis.read_rings(str(folder / "rings.parquet"))


def test_conditions_reach_every_channel(made: dict[str, Any], tmp_path: Path) -> None:
    """Masks and T0 beyond PM ID 2047: hits with PM IDs of 16 bits have the time of their fragment."""
    given, detector, capture, *_ = made["three"]
    assert detector.channels > 2048
    (tmp_path / "mask.toml").write_text('mask = ["2200-2300"]\n[t0_ns]\n"0-2522" = 1.0\n')
    plain, before = replayed(given, capture, tmp_path)
    result, after = replayed(given, capture, tmp_path, conditions=str(tmp_path / "mask.toml"))
    events = analysis.read_events(capture, detector=given)
    pm = pc.list_flatten(events["pm"]).to_numpy()
    assert plain["masked_hits"] == 0 < result["masked_hits"] == np.sum((pm >= 2200) & (pm <= 2300))

    def per_event(rings: Any, of: str) -> np.ndarray:
        _, first = np.unique(rings["event"].to_numpy(), return_index=True)
        return rings[of].to_numpy()[first].astype(np.int64)

    assert (
        per_event(before, "event_hits").sum() - per_event(after, "event_hits").sum() == result["masked_hits"]
    )
    # T0 of 10 LSB; masked hits, and edges of frames, change the mean time of few events.
    times = [256 * per_event(rings, "timestamp") + per_event(rings, "fine_time") for rings in (before, after)]
    whole = per_event(before, "event_hits") == per_event(after, "event_hits")
    assert np.mean((times[0] - times[1])[whole] == 10) > 0.99


def test_a_merging_card_takes_pm_ids_of_16_bits(made: dict[str, Any], tmp_path: Path) -> None:
    given, _, capture, *_ = made["three"]
    (tmp_path / "mask.toml").write_text('mask = ["2200-2300"]\n')
    for more in ({}, {"conditions": str(tmp_path / "mask.toml")}):
        plain, rings = replayed(given, capture, tmp_path, segment_bytes=16384, **more)
        merged, again = replayed(given, capture, tmp_path, segment_bytes=16384, merge=True, **more)
        assert again.equals(rings) and merged["frames_unmerged"] == 0
        assert bool(plain["masked_hits"]) == bool(more)
        for key in ("events_built", "hits_in", "rings", "primitives_out", "masked_hits", "duplicate_hits"):
            assert merged[key] == plain[key], key


@pytest.mark.parametrize("algorithm", _core.algorithm_names())
def test_every_algorithm_follows_the_detector(made: dict[str, Any], algorithm: str) -> None:
    given, detector, capture, truth_file, _ = made["three"]
    events = analysis.read_events(capture, detector=given)
    found = analysis.reconstruct(events.slice(0, 300), algorithm, detector=given)
    rings = found.filter(pc.field("ring") != 255)
    assert rings.num_rows > 200
    limits = detector.algorithms[algorithm]
    assert limits["r_min"] <= pc.min(rings["r"]).as_py() <= pc.max(rings["r"]).as_py() <= limits["r_max"]
    truth = pq.read_table(truth_file)
    alone = {row["event"]: row for row in truth.to_pylist() if row["n_hits"] >= 12}
    times = {(row["timestamp"], row["fine_time"]): row for row in alone.values()}
    near = [
        (row["x"] - true["x"], row["y"] - true["y"], row["r"] - true["r"])
        for row in rings.to_pylist()
        for key, true in times.items()
        if abs(row["timestamp"] * 256 + row["fine_time"] - key[0] * 256 - key[1]) < 20
    ]
    assert np.median(np.abs(near), axis=0) == pytest.approx(0, abs=8.0)


def test_na62_from_its_file_changes_no_byte(made: dict[str, Any], na62: Any, tmp_path: Path) -> None:
    """The dictionary of NA62's file takes the way of any detector, and gives the compiled one's bytes."""
    capture, truth = made["na62"][2], made["na62"][3]
    other = str(tmp_path / "run.pcap")
    core = _core.Capture({"events": 3000, "seed": 7, "detector": na62.dictionary()}, other)
    while core.next(2048):
        pass
    assert Path(other).read_bytes() == Path(capture).read_bytes()
    assert pq.read_schema(truth).metadata[b"nanet.detector"] == NA62_NAME.encode()
    answers = []
    for detector in (None, na62.dictionary()):
        for algorithm in ("math", "multiring", "pomh"):
            mtp = tmp_path / f"{len(answers)}.pcap"
            _core.Replay(
                {"pcap": capture, "mtp": str(mtp), "algorithm": algorithm, "detector": detector}
            ).run()
            answers.append(mtp.read_bytes())
    assert answers[:3] == answers[3:]


def test_another_detector_is_refused(made: dict[str, Any], nanet: Any) -> None:
    _, hexagonal, capture, truth, _ = made["hexagonal"]
    na62_capture, na62_truth = made["na62"][2:4]
    wanted = f"{capture}: is of the detector {hexagonal.name} ({hexagonal.digest}), not of {NA62_NAME}"
    for command in (["replay", capture], ["show", capture], ["export", capture, "--out", "events.parquet"]):
        assert wanted in nanet(*command, status=2).stderr
    left_out = nanet("replay", na62_capture, "--detector", "hexagonal", status=2).stderr
    assert (
        f"{na62_capture}: is of the detector {NA62_NAME}" in left_out and "leave --detector out" in left_out
    )
    nanet("replay", capture, "--detector", "hexagonal", "--out", "rings.parquet")
    assert (
        "give its file with --detector"
        in nanet("evaluate", "--truth", truth, "--rings", "rings.parquet", status=2).stderr
    )
    assert (
        f"--truth {na62_truth}: is of the detector"
        in nanet(
            "evaluate", "--truth", na62_truth, "--rings", "rings.parquet", "--detector", "hexagonal", status=2
        ).stderr
    )
    nanet("evaluate", "--truth", truth, "--rings", "rings.parquet", "--detector", "hexagonal")
    nanet("show", capture, "--detector", "hexagonal", "--rings", "rings.parquet", "--out", "event.svg")
    nanet("export", capture, "rings.parquet", "--detector", "hexagonal", "--out", "run.root")


def test_tables_of_another_detector_are_refused(made: dict[str, Any]) -> None:
    """In notebooks: hexagonal has fewer channels than NA62's, so its PM IDs alone would pass."""
    _, hexagonal, capture, truth_file, _ = made["hexagonal"]
    events = analysis.read_events(capture, detector="hexagonal")
    wanted = re.escape(f"events: of {hexagonal.name} ({hexagonal.digest}), not of {NA62_NAME}")
    for call in (lambda: analysis.reconstruct(events), lambda: analysis.draw_event(events)):
        with pytest.raises(UsageError, match=wanted):
            call()
    rings = analysis.reconstruct(events, detector="hexagonal")
    own = analysis.ring_table(events, [0], [0.0], [0.0], [100.0], [8])
    truth = analysis.read_truth(truth_file)
    assert analysis.evaluate(truth, rings).result()["efficiency"]["1"] > 0.9
    na62_truth = analysis.read_truth(made["na62"][3])
    for table in (rings, own):
        with pytest.raises(UsageError, match=re.escape(f"rings: of {hexagonal.name} (")):
            analysis.evaluate(na62_truth, table)
    unnamed = events.replace_schema_metadata(None)  # made elsewhere
    analysis.reconstruct(unnamed, detector="hexagonal")


def test_combinations_without_a_detector_are_refused(nanet: Any, tmp_path: Path) -> None:
    (tmp_path / "mask.toml").write_text("mask = [1]")
    for more, message in (
        (["--detector", "hexagonal", "--card", "gateware"], "use --card socket"),
        (
            ["--detector", "square", "--merge"],
            "square' has 8 boards, with card.merge = true: a row of a merged",
        ),
        (["--detector", "none.toml"], "none.toml: No such file"),
    ):
        assert message in nanet("trigger", "--check", *more, status=2).stderr, more
    (tmp_path / "mask.toml").write_text("mask = [700]")
    nanet("trigger", "--check", "--detector", "square", "--conditions", "mask.toml", "--device", "cpu")
    refused = nanet("trigger", "--check", "--detector", "hexagonal", "--conditions", "mask.toml", status=2)
    assert "must be a photomultiplier, 0 to 630" in refused.stderr
    (tmp_path / "odd.toml").write_text(GOOD + "[algorithm.math]\nr_mox = 3\n")
    assert (
        "r_mox = 3: no such parameter"
        in nanet("trigger", "--check", "--detector", "odd.toml", status=2).stderr
    )


def test_a_gpu_takes_events_of_more_than_1952_channels(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices and refusals on a host with a GPU; the core refuses options before it looks for one."""
    monkeypatch.setattr(host, "cuda", lambda: {"trouble": "", "devices": [{"number": 0, "name": "any"}]})

    def settings(given: str, device: str = "auto", **changes: Any) -> dict[str, Any]:
        config = Config()
        config.set(DetectorFile, detector=given)
        config.set(Card, **changes.pop("card", {}))
        config.set(Trigger, device=device, algorithm="math", **changes)
        return core_options(config)

    wide = made["three"][0]
    for given, card, device in (
        (wide, {}, "cuda:0"),
        (wide, {"merge": True}, "cuda:0"),
        (wide, {"gather": "packets"}, "cpu"),
        ("hexagonal", {"gather": "packets"}, "cuda:0"),
        ("hexagonal", {"merge": True}, "cuda:0"),
    ):
        assert settings(given, card=card)["device"] == device, (given, card)
    given = settings("hexagonal", executor="launch", card={"merge": True}) | {
        "device": "cuda:0",
        "listen": "127.0.0.1:0",
    }
    with pytest.raises(ValueError, match=r"^trigger\.executor = 'launch' with card\.merge = true: only the "):
        _core.Trigger(given)
    for options, refused, remedy in (
        ({"executor": "launch"}, "trigger.executor = 'launch'", "leave --executor out"),
        ({"mailbox": "pinned"}, "trigger.mailbox = 'pinned'", "leave --mailbox out"),
        ({"card": {"gather": "packets"}}, "card.gather = 'packets'", "use --gather frame, or --device cpu"),
    ):
        given = settings(wide, **options) | {"device": "cuda:0", "listen": "127.0.0.1:0"}
        words = "channels: the CPU builds the events, the GPU finds the rings"
        with pytest.raises(ValueError, match=f"^{refused} with a detector of [0-9]* {words}: {remedy}$"):
            _core.Trigger(given)


@pytest.mark.complete
@pytest.mark.parametrize("name", ["hexagonal", "square"])
def test_live_chain_and_its_report(nanet: Any, tmp_path: Path, name: str) -> None:
    """Boards, trigger, monitor data and report of a run over UDP."""
    nanet(
        "demo", "--detector", name, "--device", "cpu", "--speed", "0.0005", "--duration", "1",
        "--json", "run.json", timeout=120,
    )  # fmt: skip
    result = json.loads((tmp_path / "run.json").read_text())
    assert result["account_closes"] and result["primitives_out"] > 0
    assert not any(result["bad_packets"].values())
    assert result["readout"]["packets_sent"] == result["packets_in"]
    text = (tmp_path / "nanet-report" / "index.html").read_text()
    assert "PM occupancy" in text


def test_generate_of_many_captures_keeps_the_detector(nanet: Any, tmp_path: Path) -> None:
    nanet("generate", "--captures", "2", "--events", "200", "--out", "runs", "--detector", "hexagonal")
    made = sorted(path.name for path in (tmp_path / "runs").glob("run-*"))
    assert made == [f"run-0000{k}.pcap{end}" for k in (0, 1) for end in ("", SIDECAR)]
    again = nanet(
        "generate", "--captures", "2", "--events", "200", "--out", "runs", "--detector", "hexagonal"
    )
    assert "2 finished before" in again.stdout


@pytest.mark.complete
def test_quality_with_another_detector(nanet: Any, tmp_path: Path) -> None:
    nanet("quality", "--events", "400", "--algorithms", "math,multiring", "--detector", "hexagonal",
          "--device", "cpu", "--json", "quality.json")  # fmt: skip
    result = json.loads((tmp_path / "quality.json").read_text())
    assert result["detector"] == "hexagonal"
    assert result["algorithms"]["multiring"]["mix"]["isolated"]["efficiency"]["1"] > 0.85
    assert result["algorithms"]["oracle_prior"]["mix"]["isolated"]["efficiency"]["1"] > 0.9
