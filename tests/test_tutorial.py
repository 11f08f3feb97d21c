# SPDX-License-Identifier: Apache-2.0
"""Commands of the tutorial give the numbers that its page states for seed 1."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def words(text: str) -> str:
    """Text with single blanks."""
    return " ".join(text.split())


@pytest.fixture
def page(root: Path) -> str:
    """The page of the tutorial."""
    return (root / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_events_rings_and_quality_are_those_of_the_page(
    nanet: Callable[..., Any], page: str, tmp_path: Path
) -> None:
    sections = re.split(r"^## \d\. ", page, flags=re.M)
    said = {}
    for name, more in (("generate", ()), ("replay", ("--device", "cpu")), ("evaluate", ())):
        (command,) = re.findall(rf"^    nanet ({name} .*)$", "".join(sections[:5]), re.M)
        said[name] = nanet(*shlex.split(command), *more, "--json", f"{name}.json").stdout
    (quoted,) = re.findall(r"^> (.*)$", sections[1], re.M)
    assert words(said["generate"]).startswith(f"{words(quoted)};")
    block = sections[3].partition("--mtp answers.pcap\n")[2].partition("\n\nOf ")[0]
    for line in filter(None, map(words, block.splitlines())):
        assert line in words(said["replay"]), line
    results = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("replay", "evaluate"))
    replay, evaluation = results
    for number, sentence in (
        (evaluation["events_without_hits"], "have no hit"),
        (replay["split_at_frame_edge"], "are split by the edge"),
        (replay["rings"], "rings; `answers.pcap`"),
    ):
        assert f"{number:,} {sentence}".replace(",", " ") in words(page)
    values = {f"efficiency, {n} true ring{'s' * (n > 1)}": ("efficiency", str(n), 3) for n in range(1, 5)}
    values |= {
        f"count right, {n} true ring{'s' * (n > 1)}": ("ring_count_accuracy", str(n), 3) for n in (1, 2)
    }
    values |= {
        "fakes per event": ("fakes_per_event", "", 3),
        "σ of the radius, mm": ("sigma_r_mm", "", 2),
        "Cramér-Rao bound, mm": ("crlb_sigma_r_mm", "", 2),
    }
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d.*) \|$", sections[4], re.M))
    assert rows.keys() == values.keys()
    for name, (key, rings, digits) in values.items():
        found = [part[key][rings] if rings else part[key] for part in (evaluation, evaluation["isolated"])]
        assert rows[name] == " | ".join(f"{value:.{digits}f}" for value in found), name
