# SPDX-License-Identifier: Apache-2.0
"""`nanet generate` of many captures: pcaps in one folder, truth and true hits as Parquet datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from nanet.cluster.units import RECORDS, Outcome, Unit, partition
from nanet.config.sections import Generate
from nanet.detector import load
from nanet.files.provenance import SIDECAR
from nanet.run.generating import generate_files

TRUTH, HITS = "truth.parquet", "hits.parquet"
SUMS = ("events", "hits", "packets", "frames", "bursts", "bytes")


def units(
    section: Generate, captures: int, out: str, truth: str | None, truth_hits: str | None, detector: str = ""
) -> list[Unit]:
    """One unit per capture; capture K has the seed of the section plus K. detector: its file; "": NA62's."""
    made = []
    of = {"detector": detector, "detector_digest": load(detector).digest} if detector else {}
    for number in range(captures):
        name = f"run-{number:05}"
        outputs = {"pcap": os.path.join(out, f"{name}.pcap")}
        outputs["detector"] = outputs["pcap"] + SIDECAR
        if truth is not None:
            outputs["truth"] = partition(truth, name, TRUTH)
        if truth_hits is not None:
            outputs["truth_hits"] = partition(truth_hits, name, HITS)
        settings = {**attrs.asdict(section), "seed": section.seed + number, **of}
        made.append(Unit(name, work, (), outputs, settings, os.path.join(out, RECORDS)))
    return made


def work(unit: Unit, paths: Mapping[str, str]) -> dict[str, Any]:
    """Generates one capture."""
    section = Generate(**{field.name: unit.settings[field.name] for field in attrs.fields(Generate)})
    detector = unit.settings.get("detector")
    return generate_files(
        section, paths["pcap"], paths.get("truth"), paths.get("truth_hits"),
        load(detector) if detector else None, paths["detector"],
    )  # fmt: skip


def total(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Sums over the captures."""
    good = [outcome.result for outcome in outcomes if outcome.state != "failed"]
    return {name: sum(result[name] for result in good) for name in SUMS}
