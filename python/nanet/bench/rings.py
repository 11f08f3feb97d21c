# SPDX-License-Identifier: Apache-2.0
"""`nanet bench rings`: every ring algorithm against events per batch, on CPU and GPU, with its roofline."""

from __future__ import annotations

from typing import Any

import numpy as np

from nanet.bench import Settings, Sheet, median
from nanet.bench.rings_cuda import measure, why_not
from nanet.bench.roofline import MOST_EVENTS, batches, roofline
from nanet.run import host

POINT_S, FIGURE_S = 0.2, 1.0  # per point of the curve, and per run for a figure
FIGURE_BATCH = 4096
FRAME = 64  # events
LONGEST_BATCH_S = 4.0  # a point with a longer batch is skipped
RINGS_BYTES = 84  # memory of an event's rings
COUNTED_EVENTS = 2000
ONE_CORE, ALL_CORES = "cpu, one core", "cpu, all cores"


def run(settings: Settings, sheet: Sheet) -> None:
    """Curves, roofline rows, and figures of each algorithm; settings.events: largest batch."""
    from nanet import _core

    names = [settings.only] if settings.only else _core.algorithm_names()
    most = settings.events or MOST_EVENTS
    sheet(f"generating {most} events of the standard mix")
    first, pm = _core.rings_bench_events(most)
    bench = CpuBench(first, pm, settings)
    rows, figures = sheet.rows, sheet.figures
    for name in names:
        for device, threads in bench.devices():
            sheet(f"{name}: {device}")
            bench.curve(name, device, threads, sheet)
        figures |= bench.figures(name)
    sheet("limits of one core")
    limits = {
        "memory_bytes_per_s": 2 * max(_core.bench_copy_rate(1 << 16, 256 << 20, 0.3) for _ in range(3)),
        "operations_per_s": max(_core.bench_most_operations(0.2) for _ in range(3)),
    }
    figures |= {f"cpu_{key}": value for key, value in limits.items()}
    for name in names:
        reached = [r["events_per_s"] for r in rows if r["algorithm"] == name and r["device"] == ONE_CORE]
        rate = figures.get(f"{name}_cpu_events_per_s_per_core", max(reached))
        rows += roofline(name, ONE_CORE, rate, bench.bytes_per_event, bench.operations(name), limits)
    _cuda(names, settings, bench, sheet)


class CpuBench:
    """Measurements on the CPU with one set of generated events."""

    def __init__(self, first: np.ndarray, pm: np.ndarray, settings: Settings) -> None:
        self.first, self.pm, self.settings = first, pm, settings
        self.events = len(first) - 1
        self.hits_per_event = float(first[-1]) / self.events
        self.cores = len(host.cpus())
        self.bytes_per_event = 4 + 2 * self.hits_per_event + RINGS_BYTES

    def devices(self) -> list[tuple[str, int]]:
        """Names of the measured devices, with their threads."""
        return [(ONE_CORE, 1), *([(ALL_CORES, self.cores)] if self.cores > 1 else [])]

    def time(self, name: str, batch: int, threads: int, seconds: float, simd: str = "") -> dict[str, Any]:
        """One measurement; simd: CPU variant, by default that of NANET_SIMD."""
        from nanet import _core

        return _core.rings_bench_cpu(name, self.first, self.pm, batch, threads, seconds, simd=simd)

    def curve(self, name: str, device: str, threads: int, sheet: Sheet) -> None:
        """Rates and times of batches of 1 event to all events."""
        rate = 0.0
        for batch in batches(self.events):
            if rate and batch / rate * threads > LONGEST_BATCH_S:
                sheet(f"{name}: {device}: a batch of {batch} would take more than {LONGEST_BATCH_S:g} s")
                break
            r = self.time(name, batch, threads, self.settings.seconds or POINT_S)
            rate = r["events_per_s"]
            sheet.rows.append(
                {
                    "algorithm": name,
                    "device": device,
                    "events_per_batch": batch,
                    "events_per_s": rate,
                    "batch_us": r["batch_us"],
                }
            )

    def figures(self, name: str) -> dict[str, float]:
        """Medians of runs: rates of one core, of all, of one with AVX2; time of a frame; needs the events."""
        from nanet import _core

        runs = range(self.settings.runs)
        seconds = self.settings.seconds or FIGURE_S
        figures: dict[str, float] = {}
        if self.events >= FIGURE_BATCH:
            one = [self.time(name, FIGURE_BATCH, 1, seconds)["events_per_s"] for _ in runs]
            every = [self.time(name, FIGURE_BATCH, self.cores, seconds)["events_per_s"] for _ in runs]
            figures[f"{name}_cpu_events_per_s_per_core"] = median(one)
            figures[f"{name}_cpu_events_per_s"] = median(every)
            if "avx2" in _core.simd_variants():
                avx2 = [self.time(name, FIGURE_BATCH, 1, seconds, "avx2")["events_per_s"] for _ in runs]
                figures[f"{name}_avx2_events_per_s_per_core"] = median(avx2)
        if self.events >= FRAME:
            frames = [self.time(name, FRAME, 1, seconds / 4)["batch_us"] for _ in runs]
            figures[f"{name}_cpu_frame_us"] = median(frames)
        return figures

    def operations(self, name: str) -> float | None:
        """Floating-point operations per event, over COUNTED_EVENTS; None if this build cannot count."""
        from nanet import _core

        return _core.rings_bench_operations(name, self.first[: COUNTED_EVENTS + 1], self.pm)


def _cuda(names: list[str], settings: Settings, bench: CpuBench, sheet: Sheet) -> None:
    """The same on a GPU, or one row with the reason why not."""
    missing = why_not()
    if missing:
        sheet(f"GPU: not measured: {missing}")
        sheet.rows.append({"device": "cuda", "not_measured": missing})
        return
    measure(names, settings, bench.operations, sheet)
