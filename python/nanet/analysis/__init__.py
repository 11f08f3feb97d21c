# SPDX-License-Identifier: Apache-2.0
"""nanet for notebooks: captures, rings and truth as Arrow tables, any ring algorithm on arrays, drawings.

    from nanet import analysis
    events = analysis.read_events("run.pcap")
    rings = analysis.reconstruct(events, "multiring")
    analysis.evaluate(analysis.read_truth("run.parquet"), rings).result()["efficiency"]
    analysis.draw_event(events, 17, rings=rings)

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanet.analysis.captures import read_capture, read_events, read_fragments, read_packets
    from nanet.analysis.drawing import draw_event
    from nanet.analysis.files import read_rings, read_truth, read_truth_hits
    from nanet.analysis.fits import evaluate, reconstruct, reconstruct_hits
    from nanet.analysis.selection import Event, event, pm_positions

_HOMES = {
    "read_capture": "captures",
    "read_events": "captures",
    "read_fragments": "captures",
    "read_packets": "captures",
    "draw_event": "drawing",
    "read_rings": "files",
    "read_truth": "files",
    "read_truth_hits": "files",
    "evaluate": "fits",
    "reconstruct": "fits",
    "reconstruct_hits": "fits",
    "Event": "selection",
    "event": "selection",
    "pm_positions": "selection",
}
__all__ = [
    "Event",
    "draw_event",
    "evaluate",
    "event",
    "pm_positions",
    "read_capture",
    "read_events",
    "read_fragments",
    "read_packets",
    "read_rings",
    "read_truth",
    "read_truth_hits",
    "reconstruct",
    "reconstruct_hits",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
