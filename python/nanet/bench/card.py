# SPDX-License-Identifier: Apache-2.0
"""`nanet bench card`: the simulated gateware card, in cycles of its clock of 156.25 MHz.

Single packets to an idle card, with translations in the TLB and by firmware with the original card's times;
then back-to-back packets at every frame size.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from nanet.bench import Row, Settings, Sheet

CYCLE_US = 0.0064
SIZES = (64, 128, 256, 512, 1024, 1518, 9018)  # bytes of a frame, FCS included
HISTORIC = 1472 + 46  # benchmark of the original card: 1472 B of payload
# Microcontroller of the original card: 0.6 - 2.0 us to wake up, 4.0 us per packet; its UDP stage: 3.9 us.
ORIGINAL = {"by_firmware": 1, "wake_cycles_min": 99, "wake_cycles_max": 308, "work_cycles": 625}
ORIGINAL_WORD = 3  # cycles per 8 bytes, so that 1472 B take as long as in the original UDP stage
LINKS = (("10GbE", 1, 1), ("2x10GbE", 2, 1), ("1GbE", 1, 10))  # name, channels, cycles per 8 bytes
COLOURS = {"tlb": "#3b7dd8", "firmware": "#d8763b"}
WRITE_US = 0.5  # time to write 1472 B that have arrived
LINE_BYTES = 80_000  # approximate packets of a run at line rate


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: measurement, frame size, times in cycles; figures: names of docs/benchmarks.md."""
    from nanet import _core

    if missing := _core.gateware_missing():
        raise RuntimeError(missing)
    packets = max(20, settings.samples // 5000)
    events: list[int] = []
    for size in SIZES:
        sheet(f"{size} B to an idle card")
        times = _core.card_bench_times({"frame_bytes": size, "packets": packets})
        events += times["event"].tolist()
        sheet.rows.append(_row("idle", size, times))
        if size == SIZES[0]:  # the address of such a packet is requested once the packet is complete
            sheet.figures["tlb_cycles"] = float(max(times["placed"] - times["controller"]))
    sheet.figures["event_cycles_max"] = float(max(events))
    sheet.figures["event_cycles_spread"] = float(max(events) - min(events))

    for way, options in (("tlb", {}), ("firmware", ORIGINAL)):
        sheet(f"1472 B of payload, address by {way}")
        given = {"frame_bytes": HISTORIC, "packets": 5 * packets, "cycles_per_word": ORIGINAL_WORD}
        times = _core.card_bench_times(given | options)
        row = _row(way, HISTORIC, times)
        written = [cycles * CYCLE_US for cycles in times["written"].tolist()]
        row["written_us"] = dict(sorted(Counter(f"{int(us * 10) / 10:.1f}" for us in written).items()))
        sheet.rows.append(row)
        if way == "firmware":
            sheet.figures["firmware_us_min"], sheet.figures["firmware_us_max"] = min(written), max(written)
        else:
            sheet.figures["by_tlb_us_max"] = max(written)

    simulated = cpu_s = 0.0
    lost = 0
    for name, channels, word in LINKS:
        for size in SIZES:
            sheet(f"{size} B at line rate, {name}")
            given = {"frame_bytes": size, "channels": channels, "cycles_per_word": word}
            given["packets"] = max(48, LINE_BYTES // size)
            seen: dict[str, Any] = _core.card_bench_line_rate(given)
            simulated, cpu_s = simulated + seen["simulated"], cpu_s + seen["cpu_s"]
            lost += seen["packets"] - seen["used"]
            rate = seen["bytes"] / (seen["cycles"] * CYCLE_US * 1e-6)
            sheet.rows.append(
                {
                    "measured": name,
                    "frame_bytes": size,
                    "packets": seen["packets"],
                    "lost": seen["packets"] - seen["used"],
                    "payload_MB_per_s": rate / 1e6,
                }
            )
    sheet.figures["line_rate_lost"] = float(lost)
    sheet.figures["sim_cycles_per_s"] = simulated / cpu_s


def _row(measured: str, size: int, times: dict[str, Any]) -> Row:
    row: Row = {"measured": measured, "frame_bytes": size, "packets": len(times["event"])}
    for name in ("controller", "placed", "written", "event"):
        row[f"{name}_cycles_min"] = int(min(times[name]))
        row[f"{name}_cycles_max"] = int(max(times[name]))
    return row


def plots(rows: list[Row], folder: Path) -> None:
    """Draws the time per packet by TLB and by firmware, and its stages."""
    from matplotlib.figure import Figure

    by = {row["measured"]: row for row in rows if "written_us" in row}
    if len(by) < 2:
        return
    figure = Figure(figsize=(9, 4), layout="constrained")
    times, stages = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
    for way, row in by.items():
        left = [float(us) for us in row["written_us"]]
        times.bar(left, row["written_us"].values(), 0.1, align="edge", color=COLOURS[way], label=f"by {way}")
    times.axvspan(7.3, 8.6, color="0.9", zorder=0, label="original card, published")
    times.set(xlabel="first word in to all written, 1472 B of payload (µs)", ylabel="packets", xlim=(0, 10))
    times.legend(fontsize="small", loc="upper left")
    labels = []
    for way, row in by.items():
        middle = {
            name: (row[f"{name}_cycles_min"] + row[f"{name}_cycles_max"]) / 2 * CYCLE_US
            for name in ("controller", "placed", "written")
        }
        # With firmware, writing starts once the address is known, after the end of the packet.
        write = middle["controller"] if way == "tlb" else middle["written"] - WRITE_US
        parts = {
            "UDP": (0.0, middle["controller"]),
            "address": (middle["placed"], middle["placed"] if way == "tlb" else write),
            "write": (middle["placed"] if way == "tlb" else write, middle["written"]),
        }
        for name, (begin, end) in parts.items():
            stages.barh(len(labels), max(end - begin, 0.05), left=begin, color=COLOURS[way])
            labels.append(f"{way}: {name}")
    stages.set(xlabel="from the first word (µs)", yticks=range(len(labels)), yticklabels=labels, xlim=(0, 10))
    stages.invert_yaxis()
    figure.suptitle(
        "The simulated card: address by TLB, and by firmware with the original's times", fontsize="medium"
    )
    for kind in ("svg", "png"):
        figure.savefig(os.path.join(folder, f"card.{kind}"), dpi=120)
