# SPDX-License-Identifier: Apache-2.0
"""Detector files: NA62's equals the compiled one bit for bit; mistakes are named with key, value, remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nanet.detector import NA62_DIGEST, NA62_NAME, SHIPPED, load
from nanet.errors import UsageError
from scipy.spatial import cKDTree

from nanet import _core

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
    head, _, tail = GOOD.partition("channels = [")
    keys = head + tail.partition("]\n[optics]")[2].join(["[optics]", ""])
    rows = "x,y,board\n0,0,0\n2,0,0\n1,1,0\n3,1,1\n"
    (tmp_path / "plane.csv").write_text("".join(f"# {line}\n" for line in keys.splitlines()) + rows)
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
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "plane.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        load(str(path))
    assert str(path) in str(error.value)


def test_check_draws_the_detector(nanet: Any, tmp_path: Path) -> None:
    done = nanet("detector", "check", "hexagonal", "--out", "plane.svg", "--json", "plane.json")
    assert "boards: 3" in done.stderr + done.stdout
    assert any("\u2800" < character < "\u2900" for character in done.stderr + done.stdout)
    assert json.loads((tmp_path / "plane.json").read_text())["channels_of_boards"] == [256, 256, 119]
    assert (tmp_path / "plane.svg").read_text().count("<path") > 600
    (tmp_path / "wrong.toml").write_text(GOOD.replace("24.0", "-24"))
    failed = nanet("detector", "check", "wrong.toml", status=2)
    assert "wrong.toml: pitch_mm = -24: must be a number from 0.1 to 200" in failed.stderr
    missing = nanet("detector", "check", "none.toml", status=2)
    assert all(name in missing.stderr for name in ("none.toml", *SHIPPED))
