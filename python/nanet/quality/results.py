# SPDX-License-Identifier: Apache-2.0
"""Quality report as one dictionary: every algorithm and the oracles over all samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from nanet.quality import curves, own_hits
from nanet.quality.evaluate import Evaluation, compare
from nanet.quality.oracle import oracle
from nanet.quality.samples import EMPTY_NOISES, MIX, NOISES, Generated, generate, plan, replay

ORACLES = {"oracle": False, "oracle_prior": True}  # name -> with priors


def collect(
    events: int,
    seed: int,
    algorithms: Sequence[str],
    settings: Callable[[str], Mapping[str, Any]],
    run: Callable[[Any, Any, str], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Generates, replays and evaluates all samples. RuntimeError for a replay with losses.

    settings: of the core, by algorithm; run: runs a core, (core, writer, label).

    Result: `samples`, `separable` (own_hits.py) of the standard mix, and `algorithms`: name -> `mix`,
    `noise` ("0" ... "5") and `empty` ("1", "5"), each with the keys of `nanet evaluate`, and `curves`.
    """
    rows: dict[str, dict[str, Any]] = {
        name: {"noise": {}, "empty": {}, "curves": {}} for name in (*algorithms, *ORACLES)
    }
    described = []
    separable = {}
    with tempfile.TemporaryDirectory(prefix="nanet-quality-") as folder:
        for sample in plan(events, seed):
            say(f"{sample.name}: generating {sample.events} events")
            generated = generate(sample, Path(folder))
            for name in algorithms:
                say(f"{sample.name}: {name}")
                found = replay(generated, settings(name), run)
                _file(rows[name], sample.name, compare(generated.true, found, generated.bounds))
            for name, prior in ORACLES.items():
                say(f"{sample.name}: {name}")
                evaluation = _oracle(generated, prior=prior)
                _file(rows[name], sample.name, evaluation)
            if sample.name == MIX:
                g = generated
                own = own_hits.own_hits(evaluation, g.hit_ring, g.hit_pm, g.positions)
                separable = own_hits.separable(evaluation, own)
            described.append({**attrs.asdict(sample), "hits": int(generated.true.hits.sum())})
            Path(generated.capture).unlink()
    for row in rows.values():
        row["noise"]["1"] = row[MIX]
        row["noise"] = {str(noise): row["noise"][str(noise)] for noise in NOISES}
        per_noise = {noise: row["noise"][str(noise)] for noise in NOISES}
        row["curves"].update({f"noise_{k}": v for k, v in curves.against_noise(per_noise).items()})
    return {"events": events, "seed": seed, "samples": described, "separable": separable, "algorithms": rows}


def _oracle(generated: Generated, *, prior: bool) -> Evaluation:
    g = generated
    return oracle(g.true, g.hit_ring, g.hit_pm, g.positions, g.bounds, prior=prior)


def _file(row: dict[str, Any], sample: str, evaluation: Evaluation) -> None:
    """Stores an evaluation in an algorithm's part of the result."""
    if sample == MIX:
        row[MIX] = evaluation.result()
        row["curves"] = curves.of(evaluation)
    elif sample.startswith("noise"):
        row["noise"][sample.removeprefix("noise")] = evaluation.result()
    else:
        assert sample in {f"empty{noise}" for noise in EMPTY_NOISES}
        row["empty"][sample.removeprefix("empty")] = evaluation.result()
