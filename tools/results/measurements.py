# SPDX-License-Identifier: Apache-2.0
"""Measurement files: loading, adding, figures by name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results"
ALGORITHMS = ("math", "tripl", "hough", "pomh", "domh", "almagest", "multiring")
Measurement = dict[str, Any]


def load(folder: Path = RESULTS) -> list[Measurement]:
    """All measurements, with `name`, `machine`, `label` from the file name. ValueError: a key is missing."""
    machines = json.loads((folder / "machines.json").read_text(encoding="utf-8"))
    found = []
    for path in sorted(folder.glob("*-*.json")):
        measurement = json.loads(path.read_text(encoding="utf-8"))
        bench, machine, *label = path.stem.split("-", 2)
        for key in ("bench", "command", "date", "commit"):
            if not measurement.get(key):
                raise ValueError(f"{path}: key {key!r} is missing")
        if measurement["bench"] != bench:
            raise ValueError(
                f"{path}: holds bench {measurement['bench']!r}: rename it to BENCH-MACHINE[-LABEL].json"
            )
        if machine not in machines:
            raise ValueError(f"{path}: machine {machine!r} is not in machines.json: describe it there")
        found.append(
            {
                "rows": [],
                "figures": {},
                **measurement,
                "name": path.stem,
                "machine": machine,
                "label": "".join(label),
            }
        )
    return found


def add(path: Path, machine: str, label: str) -> Path:
    """Copies a bench output into results/, without curves and distributions, which the page does not show."""
    measurement = json.loads(path.read_text(encoding="utf-8"))
    if measurement.get("partial"):
        raise SystemExit(f"{path}: incomplete ({measurement.get('trouble', 'stopped')}): measure again")
    measurement["command"] = re.sub(r" --(json|plots|out)[ =]\S+", "", measurement.get("command", ""))
    for row in measurement.get("rows", []):
        row.pop("distribution_us", None)
    for row in measurement.get("algorithms", {}).values():
        row.pop("curves", None)
        row.pop("noise", None)
    if "algorithms" in measurement:
        measurement.setdefault("bench", "quality")
    target = RESULTS / ("-".join(filter(None, (measurement["bench"], machine, label))) + ".json")
    target.write_text(json.dumps(measurement, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


class Bench:
    """All measurements of one name."""

    def __init__(self, measurements: Sequence[Measurement], name: str) -> None:
        self.all = [m for m in measurements if m["bench"] == name]

    def figure(self, key: str, machine: str | None = None) -> Any:
        """The newest value of a figure, of one machine or of any; None where there is none."""
        values = [
            (m["date"], m["figures"][key])
            for m in self.all
            if key in m["figures"] and machine in (None, m["machine"])
        ]
        return max(values)[1] if values else None


def isolated(quality: Measurement, name: str) -> dict[str, Any]:
    """Figures of the isolated events of the standard mix."""
    part: dict[str, Any] = quality["algorithms"][name]["mix"]["isolated"]
    return part


def newest_quality(measurements: Sequence[Measurement]) -> Measurement:
    """The newest `nanet quality` of all algorithms."""
    whole = [m for m in Bench(measurements, "quality").all if set(ALGORITHMS) <= set(m["algorithms"])]
    return max(whole, key=lambda m: m["date"])
