# SPDX-License-Identifier: Apache-2.0
"""Figures of the report as SVG with the colours of the page's theme, light or dark.

matplotlib draws in placeholder colours; svg() replaces them by CSS variables, which report.css defines for
both themes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from nanet.detector import Detector
from nanet.report.tables import STAGES, duration, microseconds

# Placeholder -> CSS variable. The values are unusual, so that no other colour equals them.
FG, MUTED, GRID = "#010203", "#040506", "#070809"
SERIES = ("#0a0b0c", "#0d0e0f", "#101112", "#131415", "#161718", "#191a1b", "#1c1d1e")
WARN = "#1f2021"
LATTICE = (0.5, 0.5, 0.5, 0.45)
_VARIABLES = {
    FG: "--fg",
    MUTED: "--muted",
    GRID: "--grid",
    WARN: "--warn",
    **{colour: f"--s{i}" for i, colour in enumerate(SERIES)},
}
# From transparent to opaque: bins without counts show the page.
HEAT = LinearSegmentedColormap.from_list(
    "heat",
    [(0.16, 0.42, 0.68, 0.0), (0.16, 0.50, 0.75, 0.55), (0.10, 0.66, 0.60, 0.9), (0.98, 0.75, 0.15, 1.0)],
)

CENTRE_X, CENTRE_Y = (-552.0, 248.0), (-400.0, 400.0)  # mm, range of the monitor's histogram of ring centres
RADIUS_BETA_1 = 190.7  # mm
DISK_SERIES = (0, 3, 1, 2)  # colours of the disks, as indices of SERIES

plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED,
        "axes.titlecolor": FG,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.7,
        "text.color": FG,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "legend.frameon": False,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "svg.hashsalt": "nanet",
    }
)


def svg(figure: Figure, label: str) -> str:
    """Inline SVG element that scales with its column; closes the figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=160, metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r"font: ([^;\"]*?)'?sans-serif'?[^;\"]*", r"font: \1 inherit", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' id="image\w+"', "", text)  # identifiers of equal images are equal and unreferenced
    # Identifiers are unique within a figure only, but several figures share the page.
    prefix = re.sub(r"\W+", "-", label.lower()) + "-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(xlink:href="#|href="#|url\(#)', rf"\g<1>{prefix}", text)
    text = text.replace('xlink:href="#' + prefix + prefix, 'xlink:href="#' + prefix)
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text)
    if size:
        text = text.replace(size.group(0), f'role="img" aria-label="{label}"', 1)
    return text


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(width, height), layout="constrained")


def _share(upper: np.ndarray, counts: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Counts of fine bins (by upper edge) summed into coarse bins, as shares of the total."""
    return np.histogram(upper, bins=bins, weights=counts)[0] / max(counts.sum(), 1)


def _arrays(histogram: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Upper edges (µs) and counts of the non-empty bins."""
    return np.asarray(histogram["edges_us"], dtype=float), np.asarray(histogram["counts"], dtype=float)


def _limits(data: Sequence[tuple[np.ndarray, np.ndarray]], deadline_us: float) -> tuple[float, float]:
    """Axis limits in half decades: from below the first filled bin to beyond the last or the deadline."""
    low, high = deadline_us, deadline_us * 1.3
    for upper, _ in data:
        if len(upper):
            low, high = min(low, max(upper[0] / 1.2, 0.02)), max(high, upper[-1] * 1.2)
    return 10 ** (np.floor(np.log10(low) * 2) / 2), 10 ** (np.ceil(np.log10(high) * 2) / 2)


def _time_axis(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [10.0**k for k in range(-2, 8) if low <= 10.0**k <= high]
    axes.set_xticks(ticks, [microseconds(t).replace(".0 ", " ").replace(".00 ", " ") for t in ticks])
    axes.minorticks_off()


def stages(histograms: Mapping[str, Mapping[str, Any]], deadline_us: float, timeout_us: float) -> str:
    """Latency by stage: one row per stage on a common logarithmic axis, with timeout and deadline."""
    data = {stage: _arrays(histograms[stage]) for stage in STAGES if stage in histograms}
    data = {stage: pair for stage, pair in data.items() if pair[1].sum()}
    figure, axes = _figure(9.4, 0.62 * max(len(data), 1) + 1.0)
    low, high = _limits(list(data.values()), deadline_us)
    bins = np.geomspace(low, high, 1 + int(28 * np.log10(high / low)))
    for row, (stage, (upper, counts)) in enumerate(reversed(data.items())):
        share = _share(upper, counts, bins)
        height = share / max(share.max(), 1e-12) * 0.82
        colour, alpha = (SERIES[0], 0.55) if stage == "total" else (SERIES[1], 0.35)
        axes.stairs(height + row, bins, baseline=row, fill=True, color=colour, alpha=alpha)
        axes.stairs(height + row, bins, baseline=None, color=colour, linewidth=1.1)
        axes.axhline(row, color=GRID, linewidth=0.8)
    names = [stage if stage != "total" else "first packet → answer" for stage in reversed(data)]
    axes.set_yticks(np.arange(len(names)) + 0.3, names)
    axes.tick_params(axis="y", length=0, labelcolor=FG)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    axes.set_ylim(-0.05, len(data) + 0.5)
    _time_axis(axes, low, high)
    side = "left" if deadline_us < high / 6 else "right"
    for when, name, colour, style, align, up in (
        (timeout_us, "timeout", MUTED, (0, (2, 2)), "right", 0.04),
        (deadline_us, "deadline", WARN, "solid", side, 0.04 if side == "left" else 0.28),
    ):
        top = (
            1.0 if name == "deadline" else (len(data) + 0.22) / (len(data) + 0.55)
        )  # keeps the line clear of the label
        axes.axvline(when, ymax=top, color=colour, linestyle=style, linewidth=1.3)
        label = f" {name} {duration(when)} "
        axes.annotate(label, (when, len(data) + up), color=colour, fontsize=8.5, ha=align)
    return svg(figure, "Latency by stage")


def tail(histograms: Mapping[str, Mapping[str, Any]], deadline_us: float) -> str:
    """Fraction of frames above a latency: one minus the cumulative distribution, with percentiles marked."""
    figure, axes = _figure(4.6, 3.1)
    upper, counts = _arrays(histograms["total"])
    total = counts.sum()
    low, high = _limits([(upper, counts)], deadline_us)
    if total:
        beyond = 1 - np.cumsum(counts) / total
        floor = 0.5 / total
        axes.plot(upper, np.maximum(beyond, floor), drawstyle="steps-post", color=SERIES[0], linewidth=1.6)
        for share, name in ((0.5, "p50"), (0.01, "p99"), (0.001, "p99.9"), (0.0001, "p99.99")):
            if share * total < 1:
                continue
            at = upper[np.argmax(beyond <= share)]
            side = "right" if deadline_us / 12 < at < deadline_us or at > high / 12 else "left"
            axes.plot([at], [share], "o", color=SERIES[0], markersize=4)
            axes.annotate(f"  {name} {microseconds(at)}  ", (at, share), fontsize=8.5, va="bottom", ha=side)
        axes.set_ylim(floor, 1.5)
    axes.axvline(deadline_us, color=WARN, linewidth=1.3)
    axes.set_yscale("log")
    axes.set_ylabel("share of frames that took longer")
    _time_axis(axes, low, high)
    return svg(figure, "Latency tail")


def slack(histograms: Mapping[str, Mapping[str, Any]]) -> str:
    """Slack of the triggers against zero: late ones, where they have a time, at negative times."""
    figure, axes = _figure(4.6, 3.1)
    none: dict[str, Any] = {"edges_us": [], "counts": []}
    early, late = (_arrays(histograms.get(name, none)) for name in ("slack", "late_by"))
    edges, counts = np.concatenate([-late[0], early[0]]), np.concatenate([late[1], early[1]])
    if counts.sum():
        low, high = min(edges.min(), 0.0), max(edges.max(), 1.0)
        bins = np.linspace(low, high, 81)
        heights = np.histogram(edges, bins, weights=counts)[0] / counts.sum()
        colours = [WARN if right <= 0 else SERIES[0] for right in bins[1:]]
        axes.bar(bins[:-1], heights, np.diff(bins), align="edge", color=colours)
        axes.set_yscale("log")
    axes.axvline(0.0, color=WARN, linewidth=1.3)
    axes.set_xlabel("slack in µs of the experiment")
    axes.set_ylabel("share of triggers")
    return svg(figure, "Slack of the triggers")


def rate_over_time(times: Sequence[float], events: Sequence[float], lost: Sequence[float]) -> str:
    """Events per second of wall-clock time over the run, with marks at lost packets and late frames."""
    figure, axes = _figure(4.6, 3.1)
    t, n = np.asarray(times, dtype=float), np.asarray(events, dtype=float)
    name = "million"
    if len(t) > 2 and (np.diff(t) > 0).all():
        t = t - t[0]
        rate = np.diff(n) / np.diff(t)
        unit, name = (1e6, "million") if rate.max() >= 1e6 else (1e3, "thousand")
        rate = rate / unit
        axes.stairs(rate, t, baseline=0, fill=True, color=SERIES[0], alpha=0.3)
        axes.stairs(rate, t, baseline=None, color=SERIES[0], linewidth=1.4)
        for at in t[1:][np.diff(np.asarray(lost, dtype=float)) > 0]:
            axes.axvline(at, color=WARN, linewidth=1.0, alpha=0.7)
        axes.set_xlim(0, t[-1])
        axes.set_ylim(0, max(rate.max(), 1e-6) * 1.15)
    axes.set_xlabel("seconds of the run")
    axes.set_ylabel(f"{name} events / s")
    return svg(figure, "Rate over the run")


def _bars(values: np.ndarray, xlabel: str, ylabel: str, colour: str, left: float) -> tuple[Figure, Axes]:
    figure, axes = _figure(4.6, 3.1)
    total = max(values.sum(), 1)
    edges = left + np.arange(len(values) + 1)
    axes.stairs(values / total, edges, fill=True, color=colour, alpha=0.45)
    axes.stairs(values / total, edges, color=colour, linewidth=1.1)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(axis="x", visible=False)
    axes.set_ylim(0, max(values.max() / total, 1e-9) * 1.15)
    return figure, axes


def hits_per_event(counts: Sequence[float]) -> str:
    """Hits per event, with the mean."""
    values = np.asarray(counts, dtype=float)
    figure, axes = _bars(values, "hits per event", "share of events", SERIES[1], -0.5)
    if values.sum():
        mean = float((np.arange(len(values)) * values).sum() / values.sum())
        axes.axvline(mean, color=FG, linewidth=1, linestyle=(0, (3, 2)))
        axes.annotate(f" mean {mean:.1f}", (mean, axes.get_ylim()[1] * 0.94), fontsize=9)
        last = np.flatnonzero(np.cumsum(values) >= 0.9995 * values.sum())[0]
        axes.set_xlim(-0.5, max(last + 1.5, 20))
    return svg(figure, "Hits per event")


def rings_per_event(counts: Sequence[float]) -> str:
    """Rings found per event, as bars with their shares."""
    values = np.asarray(counts, dtype=float)
    figure, axes = _figure(4.6, 3.1)
    share = values / max(values.sum(), 1)
    axes.bar(np.arange(len(values)), share, width=0.72, color=SERIES[2], alpha=0.55, edgecolor=SERIES[2])
    for n, value in enumerate(share):
        axes.annotate(f"{100 * value:.1f} %", (n, value), ha="center", va="bottom", fontsize=9)
    axes.set_xticks(np.arange(len(values)))
    axes.set_xlabel("rings per event")
    axes.set_ylabel("share of events")
    axes.grid(axis="x", visible=False)
    axes.set_ylim(0, max(share.max(), 0.01) * 1.15)
    return svg(figure, "Rings per event")


def radius(counts: Sequence[float]) -> str:
    """Radii of leading rings in bins of 1 mm, with the radius at the speed of light."""
    values = np.asarray(counts, dtype=float)
    figure, axes = _bars(values, "radius of the leading ring / mm", "share of rings per mm", SERIES[3], 0.0)
    top = axes.get_ylim()[1] * 0.94
    axes.axvline(RADIUS_BETA_1, color=FG, linewidth=1, linestyle=(0, (3, 2)))
    axes.annotate(f"β = 1: {RADIUS_BETA_1} mm ", (RADIUS_BETA_1, top), fontsize=9, ha="right")
    axes.set_xlim(40, len(values))
    return svg(figure, "Ring radius")


def centres(counts: Sequence[Sequence[float]]) -> str:
    """Centres of leading rings in the common plane; counts: [y][x]."""
    values = np.asarray(counts, dtype=float)
    figure, axes = _figure(4.6, 3.1)
    extent = (*CENTRE_X, *CENTRE_Y)
    image = axes.imshow(values, origin="lower", extent=extent, cmap=HEAT, interpolation="nearest")
    axes.set_xlabel("x / mm, common plane")
    axes.set_ylabel("y / mm")
    _colour_bar(figure, image, axes, "rings")
    return svg(figure, "Ring centres")


def _colour_bar(figure: Figure, mappable: Any, axes: Any, label: str) -> None:
    bar = figure.colorbar(mappable, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.grid(visible=False)
    bar.set_label(label)


def _photomultipliers(axes: Axes, at: np.ndarray, pitch: float, **style: Any) -> EllipseCollection:
    size = np.full(len(at), 0.92 * pitch)
    flat = np.zeros(len(at))
    circles = EllipseCollection(
        size, size, flat, units="x", offsets=at, offset_transform=axes.transData, **style
    )
    axes.add_collection(circles)
    return circles


def occupancy(counts: Sequence[float], detector: Detector) -> str:
    """Hits per photomultiplier, each PM on its own disk."""
    values = np.asarray(counts, dtype=float)
    number = len(detector.disks)
    columns = max(number, 2)  # one disk has half of the width
    figure, grid = plt.subplots(
        1, columns, figsize=(4.7 * columns, 4.3), sharey=True, squeeze=False, layout="constrained"
    )
    every = list(grid[0][:number])
    for axes in grid[0][number:]:
        axes.set_visible(False)
    place, pitch = detector.position, detector.display.pitch_mm
    middle = (place.max(axis=0) + place.min(axis=0)) / 2
    half = float(np.abs(place - middle).max()) + 1.55 * pitch
    # An image instead of two thousand circles.
    style = {"cmap": HEAT, "clim": (0, max(values.max(), 1)), "edgecolors": LATTICE, "linewidths": 0.4}
    for disk, (axes, name) in enumerate(zip(every, detector.disks, strict=True)):
        mine = detector.disk == disk
        circles = _photomultipliers(axes, place[mine], pitch, array=values[mine], rasterized=True, **style)
        axes.set_title(name)
        _square(axes, half, *middle.tolist())
    every[0].set_ylabel("y / mm")
    _colour_bar(figure, circles, every, "sampled hits")
    return svg(figure, "PM occupancy")


def _square(axes: Axes, half: float, x: float = 0.0, y: float = 0.0) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(x - half, x + half)
    axes.set_ylim(y - half, y + half)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, labelsize=8)


def events(chosen: Sequence[Mapping[str, Any]], detector: Detector) -> str:
    """Event displays: hits in the common plane on the lattices of all disks, and the fitted rings."""
    columns = 3
    rows = max(1, -(-len(chosen) // columns))
    size = (9.4, 3.3 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    common, pitch = detector.common, detector.display.pitch_mm
    (left, right), (bottom, top) = detector.display.x_mm, detector.display.y_mm
    half = max(right - left, top - bottom) / 2 + 12.0
    lattice = {"facecolors": "none", "edgecolors": LATTICE, "linewidths": 0.4, "rasterized": True}
    for axes in grid.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, event in zip(grid.flat, chosen, strict=False):
        _photomultipliers(axes, common, pitch, **lattice)
        pms = np.asarray(event["pm"], dtype=int)
        for disk in range(len(detector.disks)):
            mine = pms[detector.disk[pms] == disk]
            colour = SERIES[DISK_SERIES[disk % len(DISK_SERIES)]]
            _photomultipliers(axes, common[mine], pitch, facecolors=colour, edgecolors="none")
        rings = [(ring["x"], ring["y"], ring["r"]) for ring in event["rings"]]
        for x, y, r in rings:
            axes.add_patch(plt.Circle((x, y), r, fill=False, color=FG, linewidth=1.6, zorder=3))
            axes.plot([x], [y], "+", color=FG, markersize=6, zorder=3)
        radii = ", ".join(f"{r:.0f}" for *_, r in rings)
        axes.set_title(f"{len(pms)} hits, " + (f"R = {radii} mm" if radii else "no ring"), fontsize=9.5)
        _square(axes, half, (left + right) / 2, (bottom + top) / 2)
        axes.set_xticks([])
        axes.set_yticks([])
    return svg(figure, "Event displays")
