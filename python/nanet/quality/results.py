# SPDX-License-Identifier: Apache-2.0
"""Quality report as one dictionary: every algorithm and the oracles over all samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from nanet.detector import Detector
from nanet.quality import curves, own_finder, own_hits
from nanet.quality.evaluate import compare
from nanet.quality.oracle import oracle
from nanet.quality.samples import EMPTY_NOISES, MIX, NOISES, Generated, generate, plan, replay

ORACLES = {"oracle": False, "oracle_prior": True}  # name -> with priors


@attrs.frozen
class Part:
    """Result of one algorithm or oracle with one sample. hits: of the sample; separable: of the mix."""

    sample: str
    name: str
    figures: dict[str, Any]
    curves: dict[str, Any] = attrs.field(factory=dict)
    hits: int = 0
    separable: dict[str, Any] = attrs.field(factory=dict)


def collect(
    events: int,
    seed: int,
    algorithms: Sequence[str],
    settings: Callable[[str], Mapping[str, Any]],
    run: Callable[[Any, Any, str], None],
    say: Callable[[str], None],
    detector: Detector | None = None,
) -> dict[str, Any]:
    """Generates, replays and evaluates all samples. RuntimeError for a replay with losses.

    settings: of the core, by algorithm, or only `function` (own_finder.py). run: runs a core, (core, writer,
    label). detector: default NA62's. Result: as of `assemble`.
    """
    parts = []
    with tempfile.TemporaryDirectory(prefix="nanet-quality-") as folder:
        for sample in plan(events, seed):
            say(f"{sample.name}: generating {sample.events} events")
            generated = generate(sample, Path(folder), detector)
            for name in (*algorithms, *ORACLES):
                say(f"{sample.name}: {name}")
                parts.append(part(generated, name, settings, run))
            Path(generated.capture).unlink()
    return assemble(events, seed, algorithms, parts)


def part(
    generated: Generated,
    name: str,
    settings: Callable[[str], Mapping[str, Any]],
    run: Callable[[Any, Any, str], None],
) -> Part:
    """One algorithm or oracle with one sample. RuntimeError for a replay with losses."""
    g, sample = generated, generated.sample.name
    if name in ORACLES:
        evaluation = oracle(
            g.true, g.hit_ring, g.hit_pm, g.positions, g.bounds, prior=ORACLES[name], limits=g.limits
        )
    else:
        options = settings(name)
        function = options.get("function")
        found = own_finder.run(g.capture, function, g.detector) if function else replay(g, options, run)
        evaluation = compare(g.true, found, g.bounds)
    drawn, alone = {}, {}
    if sample == MIX:
        drawn = curves.of(evaluation)
        if name in ORACLES:
            alone = own_hits.separable(
                evaluation,
                own_hits.own_hits(evaluation, g.hit_ring, g.hit_pm, g.positions, g.limits.reach_mm),
            )
    return Part(sample, name, evaluation.result(), drawn, int(g.true.hits.sum()), alone)


def assemble(events: int, seed: int, algorithms: Sequence[str], parts: Iterable[Part]) -> dict[str, Any]:
    """Report of all parts.

    `samples`, `separable` (own_hits.py) of the standard mix, and `algorithms`: name -> `mix`,
    `noise` ("0" ... "5") and `empty` ("1", "5"), each with the keys of `nanet evaluate`, and `curves`.
    """
    rows: dict[str, dict[str, Any]] = {
        name: {"noise": {}, "empty": {}, "curves": {}} for name in (*algorithms, *ORACLES)
    }
    hits = {}
    separable: dict[str, Any] = {}
    for one in parts:
        _file(rows[one.name], one)
        hits[one.sample] = one.hits
        separable = one.separable or separable
    samples = [{**attrs.asdict(sample), "hits": hits[sample.name]} for sample in plan(events, seed)]
    for row in rows.values():
        row["noise"]["1"] = row[MIX]
        row["noise"] = {str(noise): row["noise"][str(noise)] for noise in NOISES}
        per_noise = {noise: row["noise"][str(noise)] for noise in NOISES}
        row["curves"].update({f"noise_{k}": v for k, v in curves.against_noise(per_noise).items()})
    return {"events": events, "seed": seed, "samples": samples, "separable": separable, "algorithms": rows}


def _file(row: dict[str, Any], one: Part) -> None:
    """Stores a part in an algorithm's row of the result."""
    if one.sample == MIX:
        row[MIX] = one.figures
        row["curves"] = dict(one.curves)
    elif one.sample.startswith("noise"):
        row["noise"][one.sample.removeprefix("noise")] = one.figures
    else:
        assert one.sample in {f"empty{noise}" for noise in EMPTY_NOISES}
        row["empty"][one.sample.removeprefix("empty")] = one.figures
