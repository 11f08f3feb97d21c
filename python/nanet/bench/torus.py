# SPDX-License-Identifier: Apache-2.0
"""`nanet bench torus`: saturation and speed of the event-driven torus model, and the lattice-QCD table."""

from __future__ import annotations

from nanet.bench import Settings, Sheet, median
from nanet.torus import lqcd
from nanet.torus.sweep import saturation

LARGEST = (32, 32, 32)


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: runs of the model, rows of the table; figures: names of docs/benchmarks.md."""
    from nanet import _core

    rates = []
    for k in (4, 8):
        for rule in ("infn", "balanced"):
            sheet(f"{k}x{k}x{k} at full load, VC rule {rule}")
            row = saturation(k, balanced=rule == "balanced", cycles=40_000 if k == 4 else 10_000)
            if row["deadlocked"]:
                raise RuntimeError(f"{k}x{k}x{k}, VC rule {rule}: the model is in deadlock")
            sheet.rows.append({"measured": "saturation", "size": f"{k}x{k}x{k}", "vc_rule": rule, **row})
            suffix = "" if rule == "infn" else "_balanced"
            sheet.figures[f"saturation_{k}{suffix}"] = row["accepted"]
    for _ in range(max(1, settings.runs)):
        sheet("8x8x8 at half of its saturation, for the speed of the model")
        row = saturation(8, load=0.15, cycles=10_000)
        rates.append(row["events"] / row["seconds"])
        sheet.rows.append({"measured": "speed", "size": "8x8x8", "vc_rule": "infn", **row})
    sheet.figures["model_events_per_s"] = median(rates)
    sheet("32x32x32, halo exchange")
    model = _core.torus.Model(LARGEST)
    row = model.exchange(2, 256)
    name = "x".join(map(str, LARGEST))
    sheet.rows.append({"measured": "halo", "size": name, "vc_rule": "infn", **row})
    sheet.figures["model_nodes"] = float(LARGEST[0] * LARGEST[1] * LARGEST[2])
    table = lqcd.table()
    sheet.rows += table
    sheet.figures["lqcd_rows_right"] = float(sum(row["right"] for row in table))
