# SPDX-License-Identifier: Apache-2.0
"""Every key of a result is described in docs/counters.md, refusals and the like in docs/formats.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Objects whose keys are data, or which are documented elsewhere as a whole.
WHOLE = {"host", "latency_us"}
BY_NAME = {"bad_packets", "not_mgp"}  # of docs/formats.md


def keys(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(object, key) of everything in a result."""
    for name, value in result.items():
        yield "", name
        if isinstance(value, dict) and name not in WHOLE:
            yield from ((name, key) for key in value if not key.isdigit())


@pytest.fixture(scope="module")
def said() -> dict[str, set[str]]:
    """Code spans of the pages."""
    docs = Path(__file__).resolve().parent.parent / "docs"
    return {
        name: set(re.findall(r"`([\w.]+)`", (docs / f"{name}.md").read_text()))
        for name in ("counters", "formats")
    }


def check(result: dict[str, Any], said: dict[str, set[str]]) -> None:
    missing = []
    for inside, key in keys(result):
        page = said["formats" if inside in BY_NAME else "counters"]
        if key not in page and f"{inside}.{key}" not in page:
            missing.append(f"{inside}.{key}" if inside else key)
    assert not missing, f"docs/counters.md has no sentence for {missing}"


def test_replay(nanet: Callable[..., Any], tmp_path: Path, said: dict[str, set[str]]) -> None:
    nanet("generate", "--events", 200, "--out", "run.pcap")
    nanet("replay", "run.pcap", "--algorithm", "math", "--device", "cpu", "--json", "replay.json")
    check(json.loads((tmp_path / "replay.json").read_text()), said)


def test_chain(
    nanet: Callable[..., Any], free_udp_port: Callable[[], int], tmp_path: Path, said: dict[str, set[str]]
) -> None:
    card, answers = (f"127.0.0.1:{free_udp_port()}" for _ in range(2))
    quick = ("--duration", "0.3", "--json", "result.json")
    for command in (
        ("trigger", "--listen", card, "--send", answers, "--algorithm", "math", "--device", "cpu", *quick),
        ("readout", "--to", card, "--speed", "0.001", *quick),
        ("l0tp", "--listen", answers, *quick),
    ):
        nanet(*command)
        check(json.loads((tmp_path / "result.json").read_text()), said)
