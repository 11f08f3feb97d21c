# SPDX-License-Identifier: Apache-2.0
"""`nanet bench unica`: merging in the simulated card, simulated final trigger and TTC receiver, line rate.

Merging at 10 and 20 MHz of events, in cycles of 156.25 MHz; release periods; bit errors of TTC frames;
packets lost by a card at its routed clock between two 10 GbE links at line rate.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from nanet import simulation
from nanet.bench import Settings, Sheet
from nanet.errors import UsageError

FRAMES = 3000  # of a run
FRAME_S = 6.387449e-6
DECISIONS = 10_000_000
# Latency memory of 2^15 periods: L just below its end; no release within three periods of the last one.
LOG2_PLACES, LATENCY, MIN_TICKS = 15, 32_060, 3
PERIOD_PS = 24_951  # of the experiment's clock
LONG_WORDS, SHORT_WORDS = 2000, 256  # short: all
SEED = 1
# Bytes of a frame, FCS included; 0: random sizes.
LINE_BYTES = (*range(64, 385, 16), 512, 600, 700, 768, 1024, 1518, 2048, 4096, 9018, 0)
LINE_US = 1000  # of each size

TTC_RTL = simulation.GATEWARE / "rtl" / "ttc"
TTC_BENCHES = simulation.GATEWARE / "tb" / "ttc"
LINE_BENCH = simulation.GATEWARE / "tb" / "top" / "line_rate"
SYNTHESIS = simulation.GATEWARE / "syn" / "results.md"


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: event rates, simulated modules; figures: names of docs/benchmarks.md."""
    from nanet import _core

    if missing := _core.gateware_missing():
        raise RuntimeError(missing)
    for rate in (10e6, 20e6):
        _merging(settings, sheet, rate)
    if missing := simulation.missing():
        sheet(f"no final trigger, TTC receiver and line rate: {missing}")
        return
    decisions = settings.events or DECISIONS
    release_bins(sheet, decisions)
    bit_errors(sheet, max(1, min(LONG_WORDS, decisions // 5000)))
    line_rates(sheet, LINE_BYTES, max(50, min(LINE_US, decisions // 2000)))


def _merging(settings: Settings, sheet: Sheet, rate: float) -> None:
    """Frames of a generated capture, one in each frame time."""
    from nanet import _core

    sheet(f"{rate / 1e6:g} MHz of events on two 10 GbE channels")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.pcap")
        events = settings.events or int(rate * FRAME_S * FRAMES)
        writer = _core.Capture({"events": events, "rate": rate, "seed": 20, "truth": False}, path)
        while writer.next(2048):
            pass
        seen = _core.card_bench_merge(path)
    cycles = np.asarray(seen["event"])
    if not cycles.size:
        raise UsageError(f"--events {settings.events}: frames beyond the first 512 count; give more")
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


def release_bins(sheet: Sheet, decisions: int) -> None:
    """Bins of (release - t - L): random decisions at the latency memory, then pulses of the final trigger.

    The pulses are counted in the experiment's clock. RuntimeError if a decision is neither released nor
    counted, or is released in another period.
    """
    sheet(f"final trigger: {decisions:,} random decisions, and pulses in the experiment's clock")
    memory = simulation.build(
        TTC_BENCHES / "trigger_line" / "trigger_line.cpp",
        TTC_RTL / "trigger_line.sv",
        {"LOG2_PLACES": LOG2_PLACES},
    )
    folder = TTC_BENCHES / "final_trigger"
    trigger = simulation.build(folder / "final_trigger.cpp", folder / "final_trigger_bench.sv")
    line, whole = simulation.totals_of(
        [
            (memory, decisions, LATENCY, MIN_TICKS, LOG2_PLACES, SEED),
            (trigger, decisions, PERIOD_PS, SEED),
        ]
    )
    sheet.rows += [{"module": "trigger_line", **line}, {"module": "final_trigger", **whole}]
    sheet.figures["release_bins"] = float(max(line["bins"], whole["bins"]))


def bit_errors(sheet: Sheet, long_words: int) -> None:
    """All errors of one and two bits in data and check bits of short broadcasts and addressed words.

    RuntimeError if the receiver and the C++ receiver differ.
    """
    sheet(f"TTC receiver: all errors of one and two bits, {SHORT_WORDS} short and {long_words} long words")
    program = simulation.build(TTC_BENCHES / "ttc_frames" / "ttc_frames.cpp", TTC_RTL / "ttc_frames.sv")
    seen = simulation.totals(program, long_words, SHORT_WORDS, SEED)
    sheet.rows.append({"module": "ttc_frames", **seen})
    sheet.figures["ttc_single_errors_corrected_share"] = seen["singles_corrected"] / seen["singles"]
    sheet.figures["ttc_double_errors_accepted"] = float(seen["doubles_accepted"])


def routed_mhz() -> float:
    """Clock of the slowest whole card in the synthesis table, MHz."""
    rows = re.findall(r"^\|`nanet_card`[^|]*\|(?:[^|]*\|){4}([0-9.]+)", SYNTHESIS.read_text(), re.MULTILINE)
    if not rows:
        raise RuntimeError(f"{SYNTHESIS}: no row of nanet_card")
    return min(map(float, rows))


def line_rates(sheet: Sheet, sizes: tuple[int, ...], us: int) -> None:
    """Two links without gaps into a card at its routed clock; rows give the busy shares of its stages."""
    mhz = routed_mhz()
    program = simulation.build(LINE_BENCH / "line_rate.cpp", LINE_BENCH / "line_rate_bench.sv")
    sheet(f"two links at line rate, frames of {len(sizes)} sizes, card at {mhz} MHz")
    lost = 0
    results = simulation.totals_of([(program, size, round(1e6 / mhz), us, 0, SEED) for size in sizes])
    for size, seen in zip(sizes, results, strict=True):
        lost += seen["lost"]
        sheet.rows.append({"measured": "2x10GbE", "card_MHz": mhz, "frame_bytes": size or "random", **seen})
    sheet.figures["line_rate_at_routed_clock_lost"] = float(lost)
