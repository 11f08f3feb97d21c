# SPDX-License-Identifier: Apache-2.0
"""`nanet bench unica`: merging in the simulated card at 10 and 20 MHz of events, in cycles of 156.25 MHz."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from nanet.bench import Settings, Sheet

FRAMES = 3000  # of a run
FRAME_S = 6.387449e-6


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: event rates; figures: names of docs/benchmarks.md."""
    from nanet import _core

    if missing := _core.gateware_missing():
        raise RuntimeError(missing)
    for rate in (10e6, 20e6):
        sheet(f"{rate / 1e6:g} MHz of events on two 10 GbE channels")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "run.pcap")
            events = settings.events or int(rate * FRAME_S * FRAMES)
            writer = _core.Capture({"events": events, "rate": rate, "seed": 20, "truth": False}, path)
            while writer.next(2048):
                pass
            seen = _core.card_bench_merge(path)
        cycles = np.asarray(seen["event"])
        lost = int(seen["packets"] - seen["used"])
        mean, tail = float(cycles.mean()), float(np.quantile(cycles, 0.999))
        sheet.rows.append(
            {
                "rate_MHz": rate / 1e6,
                "frames": int(seen["frames"]),
                "unmerged": int(seen["unmerged"]),
                "packets_lost": lost,
                "cycles_mean": mean,
                "cycles_p99_9": tail,
                "cycles_max": int(cycles.max()),
            }
        )
        if rate == 10e6:
            sheet.figures |= {"merge_cycles_mean": mean, "merge_cycles_p99_9": tail}
        else:
            sheet.figures["merge_lost_20mhz"] = float(lost)
