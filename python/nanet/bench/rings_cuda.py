# SPDX-License-Identifier: Apache-2.0
"""The GPU's part of `nanet bench rings`: events in device memory, and streaming from pinned host memory."""

from __future__ import annotations

from collections.abc import Callable

from nanet.bench import Row, Say, Settings, median

IN_MEMORY, STREAMING = "cuda", "cuda streaming"
FRAME = 64
POINT_S, FIGURE_S = 0.1, 0.5


def why_not() -> str:
    """Why nothing can be measured on a GPU here; empty where it can."""
    from nanet import _core, host

    found = host.cuda()
    if not found["devices"]:
        return str(found["trouble"] or "no CUDA device")
    if not hasattr(_core, "rings_bench_cuda"):
        return "this build times no algorithms on GPUs"
    return ""


def measure(
    names: list[str], settings: Settings, operations: Callable[[str], float | None], say: Say
) -> tuple[list[Row], dict[str, float]]:
    """Curves, roofline rows and figures of every algorithm on the first GPU.

    operations: per event, by algorithm, as the CPU counts them: the source is the same.

    Uses _core.rings_bench_cuda(algorithm, batch, streaming, seconds) -> events_per_s, batch_us (median time
    of one batch: of the kernel, or with its copies where streaming), bytes_per_event (moved in device
    memory); and memory_bytes_per_s, operations_per_s, copy_bytes_per_s, the device's limits.
    """
    from nanet import _core
    from nanet.bench.rings import MOST_EVENTS, batches, roofline

    most = settings.events or MOST_EVENTS
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for name in names:
        for device, streaming in ((IN_MEMORY, False), (STREAMING, True)):
            say(f"{name}: {device}")
            for batch in batches(most):
                r = _core.rings_bench_cuda(name, batch, streaming, settings.seconds or POINT_S)
                rows.append(
                    {
                        "algorithm": name,
                        "device": device,
                        "events_per_batch": batch,
                        "events_per_s": r["events_per_s"],
                        "batch_us": r["batch_us"],
                    }
                )
            runs = [
                _core.rings_bench_cuda(name, most * (1 if streaming else 16), streaming, FIGURE_S)
                for _ in range(settings.runs)
            ]
            rate = median([r["events_per_s"] for r in runs])
            figures[f"{name}_cuda_streaming_events_per_s" if streaming else f"{name}_cuda_events_per_s"] = (
                rate
            )
        limits = {
            f"cuda_{key}": runs[-1][key]
            for key in ("memory_bytes_per_s", "operations_per_s", "copy_bytes_per_s")
        }
        figures |= limits
        frames = [
            _core.rings_bench_cuda(name, FRAME, False, POINT_S)["batch_us"] for _ in range(settings.runs)
        ]
        figures[f"{name}_frame_us"] = median(frames)
        per_event = runs[-1]["bytes_per_event"]
        plain = {key.removeprefix("cuda_"): value for key, value in limits.items()}
        rows += roofline(
            name, IN_MEMORY, figures[f"{name}_cuda_events_per_s"], per_event, operations(name), plain
        )
    return rows, figures
