# SPDX-License-Identifier: Apache-2.0
"""`nanet evaluate` of datasets: each capture compared with its truth, and the figures of all together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nanet.cluster import generate, replay
from nanet.cluster.units import RECORDS, Outcome, Unit, partitions
from nanet.detector import as_detector
from nanet.errors import UsageError
from nanet.quality.tally import Tally

PARTS = ("all", "isolated")
SUMS = ("events_found", "events_without_hits")


def units(truth: str, rings: str, hits: str | None, out: str | None, detector: str = "") -> list[Unit]:
    """One unit per capture of either dataset. out: folder of the records. detector: its file; "": NA62's."""
    found_by = as_detector(detector)
    of = {"detector": detector, "detector_digest": found_by.digest} if found_by else {}
    true, found = partitions(truth, generate.TRUTH), partitions(rings, replay.FILE)
    sources = partitions(hits, generate.HITS) if hits is not None else {}
    names = sorted(true.keys() | found.keys())
    if not names:
        remedy = "give folders from `generate --captures --truth` and `replay --workers --out`"
        raise UsageError(f"--truth {truth}, --rings {rings}: there is no capture in these folders: {remedy}")
    records = os.path.join(out, RECORDS) if out is not None else ""
    made = []
    for name in names:
        wanted = [(true, "truth"), (found, "rings"), *([(sources, "hits")] if hits is not None else [])]
        files = tuple(os.path.abspath(there[name]) for there, _ in wanted if name in there)
        missing = [kind for there, kind in wanted if name not in there]
        settings = {"hits": hits is not None, "missing": missing, **of}
        made.append(Unit(name, work, files, {}, settings, records))
    return made


def work(unit: Unit, paths: Mapping[str, str]) -> dict[str, Any]:
    """Compares one capture."""
    from nanet.quality.evaluate import evaluate_files

    if unit.settings["missing"]:
        raise UsageError(f"there are no {unit.settings['missing'][0]} of this capture")
    evaluation = evaluate_files(*unit.inputs, detector=as_detector(unit.settings.get("detector")))
    every = np.ones(len(evaluation.true.time), dtype=bool)
    chosen = dict(zip(PARTS, (every, evaluation.isolated), strict=True))
    result = evaluation.result()
    return {
        **{name: evaluation.tally(mask).to_json() for name, mask in chosen.items()},
        **{name: result[name] for name in (*SUMS, "crlb_from")},
    }


def total(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Figures of all captures with the keys of `nanet evaluate --json`, and a row per capture."""
    sums: dict[str, Tally] = {}
    counts = dict.fromkeys(SUMS, 0)
    rows, source = [], ""
    for outcome in outcomes:
        if outcome.state == "failed":
            continue
        tallies = {part: Tally.from_json(outcome.result[part]) for part in PARTS}
        for part, tally in tallies.items():
            sums[part] = sums[part] + tally if part in sums else tally
        for name in SUMS:
            counts[name] += outcome.result[name]
        source = outcome.result["crlb_from"]
        figures = tallies["isolated"].figures()
        shown = ("events", "efficiency", "fakes_per_event", "sigma_r_mm")
        kept = outcome.state == "kept"
        rows.append({"capture": outcome.name, "kept": kept, **{key: figures[key] for key in shown}})
    if not sums:
        return {"rows": rows}
    isolated = sums["isolated"].figures()
    return {**sums["all"].figures(), "isolated": isolated, **counts, "crlb_from": source, "rows": rows}
