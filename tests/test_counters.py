# SPDX-License-Identifier: Apache-2.0
"""Counters: every key of a result is documented, and every listed counter is in JSON, metrics and docs."""

from __future__ import annotations

import importlib.util
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


def test_every_counter_of_the_list_is_in_json_metrics_and_documentation(
    nanet: Callable[..., Any], tmp_path: Path, root: Path
) -> None:
    from nanet.monitor import metrics

    from nanet import _core

    nanet("generate", "--events", 200, "--out", "run.pcap")
    nanet("replay", "run.pcap", "--algorithm", "math", "--device", "cpu", "--json", "replay.json")
    result = json.loads((tmp_path / "replay.json").read_text())
    spec = importlib.util.spec_from_file_location("counters", root / "docs" / "hooks" / "counters.py")
    assert spec and spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = hook.PAGE.read_text(encoding="utf-8")
    assert text == hook.page(text), "run ./dev shell python docs/hooks/counters.py"
    shown = hook.DASHBOARD.read_text(encoding="utf-8")
    assert shown == hook.dashboard(shown), "run ./dev shell python docs/hooks/counters.py"
    exported = [line for lines in metrics.counters().values() for line in lines]
    for counter in _core.counter_descriptions():
        name, inside = counter["name"], counter["family"]
        assert f"|`{inside}.{name}`|" in text or f"|`{name}`|" in text
        # A replay records nothing, and has no final trigger and no torus.
        if inside not in ("recorded", "final", "final.card", "program"):
            assert name in (result[inside] if inside else result)
            assert counter in exported
        if metric := counter["metric"]:
            assert metric + ("" if metric in metrics.GAUGES else "_total") + "{" in shown
    assert all(name in result["latency_us"] for name, *_ in _core.stage_descriptions())


def test_every_counter_has_one_place_in_the_views() -> None:
    from nanet.report import counters, tables
    from nanet.report.final import CARD_OUTCOMES

    from nanet import _core

    listed = [line["name"] for line in _core.counter_descriptions() if not line["family"]]
    placed = [*counters.PLAIN, *counters.NOT_SHOWN, *counters.losses()]
    assert sorted(placed) == sorted(listed) and set(counters.HARMLESS) < set(counters.losses())
    assert counters.for_page()["losses"] == counters.losses()
    faults = counters.of_card_trigger(faults=True)
    card = dict.fromkeys(faults, 1)
    shown = [name for name, _ in tables.losses({**dict.fromkeys(listed, 1), "final": {"card": card}})]
    named = [*counters.losses(), *(f"final trigger: {name}" for name in faults)]
    assert shown == [name.replace("_", " ") for name in named]
    assert counters.for_page()["card_faults"] == list(faults)
    outcomes = counters.of_card_trigger(faults=False)
    assert set(CARD_OUTCOMES) | {"primitives", "decisions"} == set(outcomes)
    of_card = [line["name"] for line in _core.counter_descriptions() if line["family"] == "final.card"]
    assert sorted([*faults, *outcomes]) == sorted(of_card)


def test_replay(nanet: Callable[..., Any], tmp_path: Path, said: dict[str, set[str]]) -> None:
    nanet("generate", "--events", 200, "--out", "run.pcap")
    nanet("replay", "run.pcap", "--algorithm", "math", "--device", "cpu", "--json", "replay.json")
    check(json.loads((tmp_path / "replay.json").read_text()), said)


def test_chain(
    nanet: Callable[..., Any],
    free_udp_port: Callable[[], int],
    silent_receiver: str,
    tmp_path: Path,
    said: dict[str, set[str]],
) -> None:
    card, answers = (f"127.0.0.1:{free_udp_port()}" for _ in range(2))
    quick = ("--duration", "0.3", "--json", "result.json")
    for command in (
        ("trigger", "--listen", card, "--send", answers, "--algorithm", "math", "--device", "cpu", *quick),
        ("readout", "--to", silent_receiver, "--speed", "0.001", *quick),
        ("l0tp", "--listen", answers, *quick),
    ):
        nanet(*command)
        check(json.loads((tmp_path / "result.json").read_text()), said)
