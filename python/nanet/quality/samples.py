# SPDX-License-Identifier: Apache-2.0
"""Generated samples of the quality report: definition, truth, and replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from nanet.detector import Detector
from nanet.errors import starting
from nanet.files import rings as found_rings
from nanet.files import truth
from nanet.quality.evaluate import HIT_SIGMA_MM, Bounds, Events, bounds_from_hits, events_of, ring_of_hits

CHUNK_FRAMES = 2048
MIX = "mix"
NOISES = (0, 1, 2, 3, 4, 5)  # mean noise hits per event; 1 is the standard
EMPTY_NOISES = (1, 5)


@attrs.frozen
class Sample:
    """Definition of a sample. rings: per event, -1 for the mix."""

    name: str
    events: int
    noise: float
    rings: int
    seed: int


def plan(events: int, seed: int) -> list[Sample]:
    """Samples of a report with `events` events of the standard mix; one seed each, from `seed` upwards.

    mix: the standard one; noise0 ... noise5: the mix at other noise, a fifth of the events each; empty1
    and empty5: events without rings at noise 1 and 5, a quarter each.
    """
    samples = [Sample(MIX, events, 1.0, -1, seed)]
    for noise in NOISES:
        if noise != 1:
            samples.append(Sample(f"noise{noise}", max(events // 5, 1), float(noise), -1, seed + 10 + noise))
    for noise in EMPTY_NOISES:
        samples.append(Sample(f"empty{noise}", max(events // 4, 1), float(noise), 0, seed + 20 + noise))
    return samples


@attrs.frozen
class Limits:
    """Constraints of a detector that the oracles use; the defaults are NA62's. Lengths in mm."""

    largest_mm: float = 190.7  # radius at beta = 1
    centre_mm: tuple[float, float] = (-152.0, 0.0)  # mean of the generator's centres
    centre_sigma_mm: float = 60.0  # per axis
    hit_sigma_mm: float = HIT_SIGMA_MM
    reach_mm: float = 12.0  # largest distance of a hit from its circle

    @classmethod
    def of(cls, detector: Detector | None) -> Limits:
        """Constraints of a detector; None: NA62's."""
        if detector is None:
            return cls()
        model, rings = detector.monte_carlo, detector.rings
        return cls(
            round(detector.optics.largest_mm, 1), (model.centre_mm, 0.0), model.centre_sigma_mm,
            rings.hit_sigma_mm, rings.reach_mm,
        )  # fmt: skip


@attrs.define
class Generated:
    """A sample on disk and its truth. hit_ring, hit_pm: hits by source: index into true.rings, PM."""

    sample: Sample
    capture: str
    true: Events
    bounds: Bounds
    hit_ring: np.ndarray
    hit_pm: np.ndarray
    positions: np.ndarray  # of the PMs in the common plane, mm
    limits: Limits
    detector: Detector | None = None  # default NA62's


def generate(sample: Sample, folder: Path, detector: Detector | None = None) -> Generated:
    """Writes the sample's capture (all boards, 10 MHz) to the folder; returns it with its truth.

    detector: default NA62's.
    """
    from nanet import _core

    capture = str(folder / f"{sample.name}.pcap")
    settings = {name: getattr(sample, name) for name in ("events", "noise", "rings", "seed")}
    rows: dict[str, list[np.ndarray]] = {}
    with starting():
        settings |= {"truth": True, "truth_hits": True, "detector": detector.core() if detector else None}
        core = _core.Capture(settings, capture)
        while core.next(CHUNK_FRAMES):
            for kind, part in (("truth", core.truth()), ("hits", core.hits())):
                for name, values in part.items():
                    rows.setdefault(f"{kind}.{name}", []).append(values)
    columns = {name: np.concatenate(parts) for name, parts in rows.items()}
    table = {name.removeprefix("truth."): v for name, v in columns.items() if name.startswith("truth.")}
    hits = {name.removeprefix("hits."): v for name, v in columns.items() if name.startswith("hits.")}
    true = events_of(table, truth.NO_RING)
    positions = (detector.common if detector else _core.pm_positions_common()).astype(np.float64)
    limits = Limits.of(detector)
    bounds = bounds_from_hits(true, hits, positions).scaled(limits.hit_sigma_mm / HIT_SIGMA_MM)
    ring, pm = ring_of_hits(true, hits)
    return Generated(sample, capture, true, bounds, ring, pm, positions, limits, detector)


class _Columns:
    """Collects the rings of a replay in memory, with the interface of RingWriter."""

    def __init__(self) -> None:
        self.parts: list[Mapping[str, Any]] = []

    def write(self, columns: Mapping[str, Any]) -> None:
        self.parts.append(columns)

    def events(self) -> Events:
        names = found_rings.SCHEMA.names
        joined = {name: np.concatenate([np.asarray(part[name]) for part in self.parts]) for name in names}
        return events_of(joined, found_rings.NO_RING)


def replay(generated: Generated, settings: Mapping[str, Any], run: Callable[[Any, Any, str], None]) -> Events:
    """Events and rings found by the trigger in a sample. run: (core, writer, label).

    settings: options of the core, without the capture. RuntimeError if the account of the replay does not
    close or a packet was refused: the figures would describe another sample.
    """
    from nanet import _core
    from nanet.report.output import account_closes

    with starting():
        core = _core.Replay({**settings, "pcap": generated.capture, "mtp": "", "rings": True})
    kept = _Columns()
    run(core, kept, f"{generated.sample.name}, {settings['algorithm']}")
    result = core.result()
    if not account_closes(result) or any(result["bad_packets"].values()) or any(result["lost"].values()):
        raise RuntimeError(
            f"the replay of {generated.sample.name} lost packets or its account does not close"
        )
    return kept.events()
