# SPDX-License-Identifier: Apache-2.0
"""Figures of `nanet bench latency`, `bandwidth`, `kernel`, `trigger`, `rate` and `stack`: one or two each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nanet.bench import Row

_RC = {"svg.hashsalt": "nanet", "svg.fonttype": "path", "font.size": 9}


def write(name: str, rows: list[Row], folder: Path) -> list[str]:
    """Writes the figures of benchmark `name` as SVG and PNG; returns the file names. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(_RC):
        for figure_name, draw in _DRAWN[name].items():
            figure, axis = _figure()
            draw(axis, rows)
            for kind in ("svg", "png"):
                metadata = {"Date": None} if kind == "svg" else None
                figure.savefig(folder / f"{figure_name}.{kind}", dpi=150, metadata=metadata)
                written.append(f"{figure_name}.{kind}")
    return written


def _figure() -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3, which="major")
    return figure, axis


def _round_trips(axis: Any, rows: list[Row]) -> None:
    """Share of round trips above a time, against time."""
    for row in rows:
        if "distribution_us" not in row or "packets" in row:
            continue
        shares = [(1 - float(share), us) for share, us in row["distribution_us"].items()]
        axis.plot([us for _, us in shares], [above for above, _ in shares], label=row["mode"])
    axis.set(xscale="log", yscale="log", xlabel="round trip / µs", ylabel="share above")
    axis.legend(frameon=False)


def _stages(axis: Any, rows: list[Row]) -> None:
    """Stages of the median round trip, stacked."""
    shown = [row for row in rows if "stage_gather_p50_us" in row]
    left = [0.0] * len(shown)
    for stage in ("gather", "queue", "build", "reconstruct", "post", "send"):
        widths = [row[f"stage_{stage}_p50_us"] for row in shown]
        axis.barh([row["mode"] for row in shown], widths, left=left, label=stage)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axis.set(xlabel="median time in the trigger / µs")
    axis.legend(frameon=False, ncols=3)


def _against_packets(axis: Any, rows: list[Row]) -> None:
    shown = [row for row in rows if "packets" in row]
    for p in ("p50", "p99", "p99_9"):
        axis.plot([row["packets"] for row in shown], [row[f"{p}_us"] for row in shown], "o-", label=p)
    axis.set(xlabel="packets of 16 events in one frame", ylabel="round trip / µs")
    axis.legend(frameon=False)


def _throughput(axis: Any, rows: list[Row]) -> None:
    for payload in sorted({row["payload"] for row in rows if "payload" in row}):
        mine = [row for row in rows if row.get("payload") == payload]
        rates = [row["bytes_per_s"] / 1e9 for row in mine]
        axis.plot([row["packets"] for row in mine], rates, "o-", label=f"sockets, {payload} B")
    axis.set(xscale="log", xlabel="payloads per buffer", ylabel="throughput / GB/s")
    axis.legend(frameon=False)


def _gpu_buffers(axis: Any, rows: list[Row]) -> None:
    other = axis.twinx()
    for mode, style in (("serialised", "--"), ("overlapped", "-")):
        mine = [row for row in rows if row.get("gpu") == mode]
        events = [row["events"] for row in mine]
        axis.plot(events, [row["events_per_s"] / 1e6 for row in mine], style, color="C0", label=mode)
        other.plot(events, [row["p50_us"] for row in mine], style, color="C1")
    axis.set(xscale="log", yscale="log", xlabel="events per buffer", ylabel="M events/s")
    other.set(ylabel="latency of a buffer, median / µs")
    other.set_ylim(bottom=0)
    axis.yaxis.label.set_color("C0")
    other.yaxis.label.set_color("C1")
    axis.legend(frameon=False)


def _kernel(axis: Any, rows: list[Row]) -> None:
    for algorithm in dict.fromkeys(row["algorithm"] for row in rows):
        mine = [row for row in rows if row["algorithm"] == algorithm]
        times = [sum(row[f"{stage}_p50_us"] for stage in ("build", "reconstruct", "post")) for row in mine]
        axis.plot([row["events"] for row in mine], times, "o-", label=algorithm)
    axis.set(xscale="log", yscale="log", xlabel="events of the frame", ylabel="build to post, median / µs")
    axis.legend(frameon=False)


def _percentiles(axis: Any, rows: list[Row]) -> None:
    levels = ("p50", "p90", "p99", "p99_9", "p99_99")
    for row in rows:
        if "latency" in row:
            axis.plot(levels, [max(row[level], 1e-3) for level in levels], "o-", label=row["latency"])
    axis.set(yscale="log", ylabel="µs")
    axis.legend(frameon=False, fontsize=7)


def _stacks(load: str) -> Callable[[Any, list[Row]], None]:
    """Round trips of each path against percentile; solid: real time, dashed: normal."""

    def draw(axis: Any, rows: list[Row]) -> None:
        levels = ("p50", "p90", "p99", "p99_9", "p99_99", "max")
        shown = [row for row in rows if row.get("load") == load]
        kinds = list(dict.fromkeys((row["program"], row["path"]) for row in shown))
        for row in shown:
            program, path = row["program"], row["path"]
            axis.plot(
                levels,
                [max(row[f"{level}_us"], 1e-3) for level in levels],
                ("o" if program == "trigger" else ".") + ("-" if row["scheduler"] == "real time" else "--"),
                color=f"C{kinds.index((program, path))}",
                label=f"{program}, {path}" if row["scheduler"] == "real time" else None,
            )
        axis.set(yscale="log", ylabel="round trip / µs", title=f"{load}; dashed: without real time")
        axis.legend(frameon=False, fontsize=7)

    return draw


def _attempts(axis: Any, rows: list[Row]) -> None:
    for lossless, colour in ((True, "C2"), (False, "C3")):
        mine = [(i, row) for i, row in enumerate(rows) if (row["losses"] == "none") == lossless]
        label = "nothing lost or late" if lossless else "losses or late frames"
        axis.plot([i for i, _ in mine], [row["events_per_s"] / 1e6 for _, row in mine], "o", color=colour,
                  label=label)  # fmt: skip
    axis.set(xlabel="attempt", ylabel="M events/s")
    axis.legend(frameon=False)


_DRAWN: dict[str, dict[str, Callable[[Any, list[Row]], None]]] = {
    "latency": {
        "latency-tail": _round_trips,
        "latency-stages": _stages,
        "latency-packets": _against_packets,
    },
    "bandwidth": {"bandwidth-sockets": _throughput, "bandwidth-gpu": _gpu_buffers},
    "kernel": {"kernel-frame": _kernel},
    "trigger": {"trigger-latency": _percentiles},
    "rate": {"rate-attempts": _attempts},
    "stack": {"stack-idle": _stacks("idle"), "stack-loaded": _stacks("loaded")},
}
