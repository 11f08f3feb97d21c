# SPDX-License-Identifier: Apache-2.0
"""GPU part of `nanet bench rings`: events in device memory, and streaming from pinned host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.roofline import MOST_EVENTS, batches, roofline

IN_MEMORY, STREAMING = "cuda", "cuda streaming"
FRAME = 64
POINT_S, FIGURE_S = 0.1, 0.5
LONGEST_BATCH_S = 1.0  # a point with a longer batch is skipped
# MATH is measured with this multiple of the largest batch: 16 M distinct events of 72 B exceed any cache.
MATH_TIMES = 16
LIMITS = ("memory_bytes_per_s", "operations_per_s", "copy_bytes_per_s")


def why_not() -> str:
    """Reason why no GPU can be measured; empty if one can."""
    from nanet import _core
    from nanet.run import host

    found = host.cuda()
    if not found["devices"]:
        return str(found["trouble"] or "no CUDA device")
    return "" if hasattr(_core, "rings_bench_cuda") else "this build times no algorithms on GPUs"


def measure(
    names: list[str], settings: Settings, operations: Callable[[str], float | None], sheet: Sheet
) -> None:
    """Curves, roofline rows and figures of every algorithm on the first GPU.

    operations: per event, by algorithm, counted on the CPU: the source is the same.
    """
    most = settings.events or MOST_EVENTS
    rows, figures = sheet.rows, sheet.figures
    for name in names:
        for device in (IN_MEMORY, STREAMING):
            sheet(f"{name}: {device}")
            _curve(name, device, most, settings, sheet)
        memory, streaming, frame = _runs(name, rows, most, settings)
        limits = {key: streaming[-1][key] for key in LIMITS}
        figures |= {f"cuda_{key}": value for key, value in limits.items()}
        rate = median([r["events_per_s"] for r in memory])
        streamed = median([r["events_per_s"] for r in streaming])
        figures[f"{name}_cuda_events_per_s"] = rate
        figures[f"{name}_cuda_streaming_events_per_s"] = streamed
        figures[f"{name}_frame_us"] = median([r["batch_us"] for r in frame])
        # Relative to the rate of plain copies to the device.
        copied = streamed * streaming[-1]["copied_bytes_per_event"]
        figures[f"{name}_cuda_streaming_share"] = copied / limits["copy_bytes_per_s"]
        rows += roofline(name, IN_MEMORY, rate, memory[-1]["bytes_per_event"], operations(name), limits)


def _time(name: str, batch: int, device: str, seconds: float) -> dict[str, Any]:
    from nanet import _core

    return _core.rings_bench_cuda(name, batch, device == STREAMING, seconds)


def _curve(name: str, device: str, most: int, settings: Settings, sheet: Sheet) -> None:
    """Rates and times of batches of 1 event to `most` events."""
    rate = 0.0
    for batch in batches(most):
        if rate and batch / rate > LONGEST_BATCH_S:
            sheet(f"{name}: {device}: a batch of {batch} would take more than {LONGEST_BATCH_S:g} s")
            break
        r = _time(name, batch, device, settings.seconds or POINT_S)
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


def _runs(
    name: str, rows: list[Row], most: int, settings: Settings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Runs for the figures: in memory, streaming (at the best batch of the curve), frames."""

    def best(device: str) -> int:
        points = [
            row
            for row in rows
            if row["algorithm"] == name and row["device"] == device and "events_per_batch" in row
        ]
        return max(points, key=lambda row: row["events_per_s"])["events_per_batch"]

    runs, seconds = range(settings.runs), settings.seconds or FIGURE_S
    batch = most * MATH_TIMES if name == "math" else best(IN_MEMORY)
    return (
        [_time(name, batch, IN_MEMORY, seconds) for _ in runs],
        [_time(name, best(STREAMING), STREAMING, seconds) for _ in runs],
        [_time(name, min(FRAME, most), IN_MEMORY, seconds / 4) for _ in runs],
    )
