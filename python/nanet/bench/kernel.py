# SPDX-License-Identifier: Apache-2.0
"""`nanet bench kernel`: time of a frame's stages in the executor against events, by algorithm.

One frame in flight, with whole events in one packet or several; times are from the executor's trace.
"""

from __future__ import annotations

from nanet.bench import Row, Settings, Sheet
from nanet.bench.latency import EVENTS, pins, through_trigger

FRAMES = 1000
PACKETS = (1, 2, 4, 8, 15)


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: algorithm, events, median time of build, reconstruct, post; figures: for 64 events."""
    from nanet import _core

    sender, responder = pins()
    names = [settings.only] if settings.only else list(_core.algorithm_names())
    for name in names:
        sheet(f"{name} on {settings.device}")
        for packets in PACKETS:
            _, result = through_trigger(
                _core.Ping(), FRAMES, name, sender, responder, settings.device, "persistent", packets
            )
            stages = result["latency_us"]
            row: Row = {"algorithm": name, "device": settings.device, "events": EVENTS * packets}
            for stage in ("build", "reconstruct", "post"):
                row[f"{stage}_p50_us"] = stages[stage]["p50"]
                row[f"{stage}_p99_us"] = stages[stage]["p99"]
            sheet.rows.append(row)
            if EVENTS * packets == 64:
                sheet.figures[f"{name}_frame_us"] = sum(
                    stages[stage]["p50"] for stage in ("build", "reconstruct", "post")
                )
