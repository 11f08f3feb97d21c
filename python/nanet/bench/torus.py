# SPDX-License-Identifier: Apache-2.0
"""`nanet bench torus`: saturation and speed of the event-driven torus model, and the lattice-QCD table."""

from __future__ import annotations

from nanet import simulation
from nanet.bench import Settings, Sheet, median
from nanet.torus import lqcd, rtl
from nanet.torus.sweep import saturation

LARGEST = (32, 32, 32)
# VC rule, injection, end of the figure's name
SATURATION = (("infn", "plain", ""), ("balanced", "plain", "_balanced"), ("infn", "reserve", "_reserve"))


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: runs of the model, rows of the table; figures: names of docs/benchmarks.md."""
    from nanet import _core

    for k in (4, 8):
        for rule, injection, suffix in SATURATION:
            sheet(f"{k}x{k}x{k} around saturation, VC rule {rule}, injection {injection}")
            found = saturation(
                k, balanced=rule == "balanced", reserve=injection == "reserve",
                cycles=20_000 if k == 4 else 8_000,
            )  # fmt: skip
            if any(row["deadlocked"] for row in found):
                raise RuntimeError(f"{k}x{k}x{k}, VC rule {rule}: the model is in deadlock")
            about = {"size": f"{k}x{k}x{k}", "vc_rule": rule, "injection": injection}
            sheet.rows += [{"measured": "saturation", **about, **row} for row in found]
            sheet.figures[f"saturation_{k}{suffix}"] = max(row["accepted"] for row in found)
    rates = []
    timing = {**_core.torus.timing("router"), "buffer_words": 63}
    for _ in range(max(1, settings.runs)):
        sheet("8x8x8 below saturation, for the speed of the model")
        row = _core.torus.Model((8, 8, 8), timing).run("uniform", 0.15, 256, 2000, 10_000)
        rates.append(row["events"] / row["seconds"])
        sheet.rows.append({"measured": "speed", "size": "8x8x8", "vc_rule": "infn", **row})
    sheet.figures["model_events_per_s"] = median(rates)
    sheet("32x32x32, halo exchange")
    model = _core.torus.Model(LARGEST)
    row = model.exchange(2, 256)
    name = "x".join(map(str, LARGEST))
    sheet.rows.append({"measured": "halo", "size": name, "vc_rule": "infn", **row})
    sheet.figures["model_nodes"] = float(LARGEST[0] * LARGEST[1] * LARGEST[2])
    _against_rtl(sheet)
    table = lqcd.table()
    sheet.rows += table
    sheet.figures["lqcd_rows_right"] = float(sum(row["right"] for row in table))


def _against_rtl(sheet: Sheet) -> None:
    """Model beside the simulated routers; without figures where there is no simulation."""
    if missing := simulation.missing():
        sheet(f"no comparison with the gateware: {missing}")
        return
    sheet("compiling the simulated routers")
    program = rtl.network()
    sheet.figures["hop_cycles"] = float(rtl.hop_cycles(program))
    sheet.figures["payload_efficiency"] = rtl.payload_efficiency()
    throughput, latency = 0.0, 0.0
    for pattern, load, cycles in rtl.LOADS:
        sheet(f"4x4x4 {pattern}, load {load:g}, simulated routers")
        row = rtl.compare(program, 4, pattern, load, cycles)
        sheet.rows.append({"measured": "model against RTL", **row})
        throughput = max(throughput, abs(row["throughput_error"]))
        latency = max(latency, abs(row["latency_error"]))
    sheet.figures["model_throughput_error"] = throughput
    sheet.figures["model_latency_error"] = latency
