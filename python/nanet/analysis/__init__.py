# SPDX-License-Identifier: Apache-2.0
"""nanet for notebooks: captures, rings and truth as Arrow tables, any ring algorithm on arrays, drawings.

    from nanet import analysis
    events = analysis.read_events("run.pcap")
    rings = analysis.reconstruct(events, "multiring")
    analysis.evaluate(analysis.read_truth("run.parquet"), rings).result()["efficiency"]
    analysis.draw_event(events, 17, rings=rings)
    analysis.reconstruct(x, y, event, "math")  # plain arrays of hits in mm

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanet.analysis.drawing import draw_event
    from nanet.analysis.fits import evaluate, reconstruct, reconstruct_hits
    from nanet.analysis.selection import Event, event, pm_positions
    from nanet.files.captures import read_capture, read_events, read_fragments, read_packets
    from nanet.files.own_rings import ring_table, truth_table
    from nanet.files.tables import read_rings, read_truth, read_truth_hits

_HOMES = {
    "read_capture": "nanet.files.captures",
    "read_events": "nanet.files.captures",
    "read_fragments": "nanet.files.captures",
    "read_packets": "nanet.files.captures",
    "draw_event": "nanet.analysis.drawing",
    "read_rings": "nanet.files.tables",
    "read_truth": "nanet.files.tables",
    "read_truth_hits": "nanet.files.tables",
    "evaluate": "nanet.analysis.fits",
    "reconstruct": "nanet.analysis.fits",
    "reconstruct_hits": "nanet.analysis.fits",
    "ring_table": "nanet.files.own_rings",
    "truth_table": "nanet.files.own_rings",
    "Event": "nanet.analysis.selection",
    "event": "nanet.analysis.selection",
    "pm_positions": "nanet.analysis.selection",
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
    "ring_table",
    "truth_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__"])
