# SPDX-License-Identifier: Apache-2.0
"""Figures of `nanet bench rings`: processing time against events, and the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nanet.bench import Row
from nanet.bench.rings import ALL_CORES, ONE_CORE
from nanet.quality.figures import COLOURS

# Device -> line style; other devices are dotted.
STYLES = {ONE_CORE: "-", ALL_CORES: "--", "cuda": "-.", "cuda streaming": ":"}
_RC = {"svg.hashsalt": "nanet", "svg.fonttype": "path", "font.size": 9}
BUDGET_PERIOD_S = 1e-7  # 10 MHz


def write(rows: list[Row], figures: Mapping[str, float], folder: Path) -> list[str]:
    """Writes rings-time, rings-rate and rings-roofline as SVG and PNG; returns the file names. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(_RC):
        for name, figure in (
            ("rings-time", time_against_events(rows)),
            ("rings-rate", rate_against_events(rows)),
            ("rings-roofline", roofline(rows, figures)),
        ):
            for kind in ("svg", "png"):
                figure.savefig(
                    folder / f"{name}.{kind}", dpi=150, metadata={"Date": None} if kind == "svg" else None
                )
                written.append(f"{name}.{kind}")
    return written


def _figure(width: float = 6.4, height: float = 4.6) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3, which="major")
    axis.set(xscale="log", yscale="log")
    return figure, axis


def _curves(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows of the curves by (algorithm, device)."""
    curves: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if "events_per_batch" in row:
            curves.setdefault((row["algorithm"], row["device"]), []).append(row)
    return curves


def _draw(axis: Any, rows: list[Row], key: str) -> None:
    names: dict[str, str] = {}
    devices: dict[str, str] = {}
    for (name, device), points in _curves(rows).items():
        names[name] = COLOURS.get(name, "#555555")
        devices[device] = STYLES.get(device, ":")
        axis.plot(
            [p["events_per_batch"] for p in points],
            [p[key] for p in points],
            color=names[name],
            ls=devices[device],
            lw=1.8 if name == "multiring" else 1.1,
            marker="o",
            ms=2.5,
        )
    for name, colour in names.items():
        axis.plot([], [], color=colour, lw=2, label=name)
    for device, style in devices.items():
        axis.plot([], [], color="black", ls=style, lw=1, label=device)


def time_against_events(rows: list[Row]) -> Figure:
    """Time of a batch against its events, log-log, one line per algorithm and device.

    All cores together are left out: a batch stays on one core, so its time is the same.
    """
    figure, axis = _figure()
    _draw(axis, [row for row in rows if row["device"] != ALL_CORES], "batch_us")
    sizes = np.array(sorted({row["events_per_batch"] for row in rows if "events_per_batch" in row}), float)
    if len(sizes):
        axis.plot(sizes, sizes * BUDGET_PERIOD_S * 1e6, color="#c0392b", lw=0.8, label="10 MHz of events")
    axis.set(xlabel="events per batch", ylabel="processing time of the batch, µs")
    axis.legend(frameon=False, fontsize=8)
    return figure


def rate_against_events(rows: list[Row]) -> Figure:
    """Events per second against events per batch."""
    figure, axis = _figure()
    _draw(axis, rows, "events_per_s")
    axis.axhline(1 / BUDGET_PERIOD_S, color="#c0392b", lw=0.8, label="10 MHz of events")
    axis.set(xlabel="events per batch", ylabel="events per second")
    axis.legend(frameon=False, fontsize=8)
    return figure


def roofline(rows: list[Row], figures: Mapping[str, float]) -> Figure:
    """Operations per second against operations per byte, below the roof of each device that has one."""
    figure, axis = _figure()
    points = [row for row in rows if "operations_per_byte" in row]
    roofs = {"cpu": ("one core", "-"), "cuda": ("GPU", "-.")}
    intensity = np.array([row["operations_per_byte"] for row in points] or [1.0])
    x = np.geomspace(min(intensity.min(), 1) / 4, max(intensity.max(), 100) * 4, 200)
    for key, (label, style) in roofs.items():
        memory, most = figures.get(f"{key}_memory_bytes_per_s"), figures.get(f"{key}_operations_per_s")
        if memory and most:
            axis.plot(
                x, np.minimum(x * memory, most), color="black", ls=style, lw=1.2, label=f"roof, {label}"
            )
    for row in points:
        on_gpu = row["device"].startswith("cuda")
        axis.plot(
            row["operations_per_byte"],
            row["operations_per_s"],
            "s" if on_gpu else "o",
            color=COLOURS.get(row["algorithm"], "#555555"),
            ms=6,
            ls="",
        )
        axis.annotate(
            f"{row['algorithm']}{', GPU' if on_gpu else ''}",
            (row["operations_per_byte"], row["operations_per_s"]),
            xytext=(5, -9),
            textcoords="offset points",
            fontsize=8,
        )
    axis.set(xlabel="floating-point operations per byte", ylabel="floating-point operations per second")
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    return figure
