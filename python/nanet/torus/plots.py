# SPDX-License-Identifier: Apache-2.0
"""Figures of `nanet torus`: latency against load, half round trip and bandwidth against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_RC = {"svg.hashsalt": "nanet", "svg.fonttype": "path", "font.size": 9}


def _save(figure: Figure, path: Path) -> str:
    figure.savefig(path, metadata={"Date": None})
    return path.name


def load_curve(rows: Sequence[Mapping[str, Any]], title: str, folder: Path) -> str:
    """Latency and accepted load against offered load, as torus-load.svg. OSError."""
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        loads = [row["offered"] for row in rows]
        good = [row for row in rows if not row["saturated"]] or list(rows[:1])
        for key, label in (("mean_cycles", "mean"), ("p99_cycles", "99 %")):
            if key not in rows[0]:
                continue
            left.plot([row["offered"] for row in good], [row[key] for row in good], "o-", ms=4, label=label)
        left.set(xlabel="offered words per node and cycle", ylabel="cycles, creation to tail", title=title)
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
        right.plot(loads, loads, ":", color="gray")
        right.plot(loads, [row["accepted"] for row in rows], "o-", ms=4)
        right.set(xlabel="offered words per node and cycle", ylabel="accepted", ylim=(0, None))
        return _save(figure, folder / "torus-load.svg")


def _against_size(axes: Axes, rows: Sequence[Mapping[str, Any]], label: str, unit: str, scale: str) -> None:
    for name in rows[0]:
        if name != "bytes":
            axes.plot([row["bytes"] for row in rows], [row[name] for row in rows], "o-", ms=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale(scale)
    axes.set(xlabel="message, B", ylabel=f"{label}, {unit}")
    axes.legend(frameon=False)


def curves(result: Mapping[str, Any], folder: Path) -> str:
    """Half round trip and bandwidth of the historic card, as torus-curves.svg. OSError."""
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _against_size(left, result["half_round_trip_us"], "half round trip", "µs", "log")
        _against_size(right, result["bandwidth_gbytes"], "bandwidth", "GB/s", "linear")
        return _save(figure, folder / "torus-curves.svg")
