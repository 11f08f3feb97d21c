# SPDX-License-Identifier: Apache-2.0
"""Generated events as files: the capture, and the truth in chunks."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from nanet.config.options import core_values
from nanet.config.sections import Generate
from nanet.detector import Detector
from nanet.errors import starting
from nanet.files.provenance import SIDECAR, of_detector, write_sidecar

CHUNK_FRAMES = 2048  # some 130 000 events at 10 MHz


def described(section: Generate) -> dict[str, Any]:
    """Options that describe the events, for the result and the metadata of the truth."""
    kept = {name: getattr(section, name) for name in ("seed", "rate", "noise", "rings", "boards", "slots")}
    return {**kept, "burst_frames": section.max_frames}


def generate_files(
    section: Generate,
    capture: str,
    truth_file: str | None = None,
    hits_file: str | None = None,
    detector: Detector | None = None,
    sidecar: str | None = None,
) -> dict[str, Any]:
    """Generates a pcap, its true rings and its true hits; returns the totals. UsageError.

    detector: default NA62's. sidecar: file for name and digest of the detector; default: beside a regular
    file.
    """
    from nanet import _core
    from nanet.files import truth as tables

    of_core = detector.core() if detector else None
    wanted = {"truth": truth_file is not None, "truth_hits": hits_file is not None}
    with starting():
        core = _core.Capture({**core_values(section), **wanted, "detector": of_core}, capture)
    metadata = {f"nanet.{key}": value for key, value in described(section).items()} | of_detector(of_core)
    truth = hits = None
    with contextlib.ExitStack() as stack:
        if truth_file:
            truth = stack.enter_context(
                tables.TruthWriter("--truth", truth_file, tables.RING_SCHEMA, metadata)
            )
        if hits_file:
            hits = stack.enter_context(
                tables.TruthWriter("--truth-hits", hits_file, tables.HIT_SCHEMA, metadata)
            )
        while _next(core):
            if truth:
                truth.write(tables.ring_table(core.truth()))
            if hits:
                hits.write(tables.hit_table(core.hits()))
    if sidecar is not None or os.path.isfile(capture):
        write_sidecar(sidecar or capture + SIDECAR, of_core)
    return core.totals()


def _next(core: Any) -> bool:
    with starting():
        return core.next(CHUNK_FRAMES)
