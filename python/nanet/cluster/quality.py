# SPDX-License-Identifier: Apache-2.0
"""`nanet quality` on many processes: one unit per sample and algorithm."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from nanet.cluster.replay import settings_of
from nanet.cluster.units import RECORDS, Outcome, Unit
from nanet.detector import as_detector
from nanet.quality import results, samples
from nanet.run.core_options import load_algorithm
from nanet.run.replaying import run_core


def units(
    events: int,
    seed: int,
    algorithms: Sequence[str],
    settings: Callable[[str], Mapping[str, Any]],
    out: str,
    detector: str = "",
) -> list[Unit]:
    """One unit per sample and algorithm, the longest first. out: folder of the records; "": none.

    detector: its file; "": NA62's.
    """
    found_by = as_detector(detector)
    of = {"detector": detector, "detector_digest": found_by.digest} if found_by else {}
    records = os.path.join(out, RECORDS) if out else ""
    made = []
    for sample in samples.plan(events, seed):
        for name in (*algorithms, *results.ORACLES):
            options = {} if name in results.ORACLES else settings_of(settings(name))
            about = {"sample": attrs.asdict(sample), "algorithm": name, "options": options, **of}
            function = options.get("function", "").rpartition(":")[0]
            code = options.get("plugin") or function
            made.append(Unit(f"{sample.name}-{name}", work, (code,) if code else (), {}, about, records))
    return made


def work(unit: Unit, paths: Mapping[str, str]) -> dict[str, Any]:
    """Generates the sample again and evaluates one algorithm with it."""
    sample = samples.Sample(**unit.settings["sample"])
    name = unit.settings["algorithm"]
    if plugin := unit.settings["options"].get("plugin"):
        load_algorithm(plugin)
    with tempfile.TemporaryDirectory(prefix="nanet-quality-") as folder:
        generated = samples.generate(sample, Path(folder), as_detector(unit.settings.get("detector")))
        part = results.part(
            generated,
            name,
            lambda _: unit.settings["options"],
            lambda core, writer, _: run_core(core, writer),
        )
    return attrs.asdict(part)


def total(outcomes: Iterable[Outcome], events: int, seed: int, algorithms: Sequence[str]) -> dict[str, Any]:
    """The report. RuntimeError if a unit failed."""
    outcomes = list(outcomes)
    failed = [outcome.name for outcome in outcomes if outcome.state == "failed"]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(outcomes)} parts failed: {', '.join(failed)}")
    return results.assemble(events, seed, algorithms, (results.Part(**one.result) for one in outcomes))
