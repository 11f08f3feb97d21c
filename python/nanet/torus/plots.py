# SPDX-License-Identifier: Apache-2.0
"""Figures of `nanet torus`: latency against load, half round trip and bandwidth against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

_RC: dict[Any, Any] = {"svg.hashsalt": "nanet", "svg.fonttype": "path", "font.size": 9}


def _save(figure: Figure, path: Path) -> str:
    figure.savefig(path, metadata={"Date": None})
    return path.name


def load_curve(rows: Sequence[Mapping[str, Any]], title: str, folder: Path) -> str:
    """Latency and accepted load against offered load, as torus-load.svg. OSError.

    Loads beyond saturation have hollow marks, and no latency: it grows with the length of the run.
    """
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        figure.suptitle(title, fontsize="medium")
        left, right = figure.subplots(1, 2)
        loads = [row["offered"] for row in rows]
        good = [row for row in rows if not row["saturated"]] or list(rows[:1])
        for key, label in (("mean_cycles", "mean"), ("p99_cycles", "99 %")):
            if key not in rows[0]:
                continue
            left.plot([row["offered"] for row in good], [row[key] for row in good], "o-", ms=4, label=label)
        left.set(xlabel="offered words per node and cycle", ylabel="cycles, creation to tail")
        left.set_xlim(0, 1.04 * max(loads))
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
        right.plot([0, *loads], [0, *loads], ":", color="gray", label="offered")
        (line,) = right.plot(loads, [row["accepted"] for row in rows], "o-", ms=4, label="accepted")
        if beyond := [row for row in rows if row["saturated"]]:
            at = [row["offered"] for row in beyond], [row["accepted"] for row in beyond]
            right.plot(*at, "o", ms=4, mfc="white", color=line.get_color(), label="saturated")
        right.set(xlabel="offered words per node and cycle", ylabel="words per node and cycle")
        right.set_xlim(0, 1.04 * max(loads))
        right.set_ylim(bottom=0)
        right.legend(frameon=False)
        return _save(figure, folder / "torus-load.svg")


# Names in the figure.
LABELS = {
    "H-H": "host to host",
    "H-G": "host to GPU",
    "G-G": "GPU to GPU",
    "staged": "GPU to GPU, staged in host memory",
    "host_firmware": "host memory, firmware",
    "gpu_firmware": "GPU memory, firmware",
    "host_tlb": "host memory, TLB",
    "loopback_tlb": "loopback, TLB",
}


def _bytes(size: float, _: object = None) -> str:
    """A power of two as 32 B, 4 KiB, 4 MiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def _against_size(
    axes: Axes, rows: Sequence[Mapping[str, Any]], published: Mapping[str, float], at: int
) -> None:
    """Curves by size of the message; published: figures by curve, marked at row `at`."""
    for name in rows[0]:
        if name != "bytes":
            label = LABELS.get(name, name)
            axes.plot([row["bytes"] for row in rows], [row[name] for row in rows], "o-", ms=3, label=label)
    sizes = [rows[at]["bytes"]] * len(published)
    axes.plot(sizes, list(published.values()), "kx", ms=7, zorder=3, label="published")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2**4, numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(_bytes))
    axes.set_xlabel("size of the message")
    axes.legend(frameon=False, fontsize="small")


def curves(result: Mapping[str, Any], folder: Path) -> str:
    """Half round trip and bandwidth of the historic card, as torus-curves.svg. OSError."""
    published = result["published"]
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes, key, unit, at in (
            (left, "half_round_trip_us", "_us", 0),
            (right, "bandwidth_gbytes", "_gbytes", -1),
        ):
            of_it = {name.removesuffix(unit): v for name, v in published.items() if name.endswith(unit)}
            _against_size(axes, result[key], of_it, at)
        left.set_yscale("log")
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.set_ylabel("half round trip, µs")
        right.set_ylabel("bandwidth, GB/s")
        right.set_ylim(bottom=0)
        return _save(figure, folder / "torus-curves.svg")
