# SPDX-License-Identifier: Apache-2.0
"""Pictures of the quality report: one SVG per question, all algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nanet.config.sections import ALGORITHMS
from nanet.quality.evaluate import MOST_RINGS
from nanet.quality.results import ORACLES

# One colour per algorithm, the same in all figures, in the order of the list of algorithms.
PALETTE = ("#2a9d5c", "#c2407e", "#8e5bb5", "#7a6a4f", "#3aa6b9", "#1f6fb2", "#d9731a", "#b8a03a", "#5b6abf")
COLOURS = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(ALGORITHMS)}
COLOURS |= {"oracle": "#222222", "oracle_prior": "#8a8a8a"}
MARKERS = "os^Dv<>P"
_STYLE = {"svg.hashsalt": "nanet", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 10}


def write(result: Mapping[str, Any], folder: Path) -> list[str]:
    """Writes all figures as SVG to an existing folder; returns their names. OSError."""
    names = []
    with matplotlib.rc_context(_STYLE):
        for name, draw in FIGURES.items():
            figure = draw(result["algorithms"])
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            names.append(f"{name}.svg")
    return names


def _figure(panels: int, height: float = 3.4, width: float = 4.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * panels, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, panels, k + 1) for k in range(panels)]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    return figure, axes


def _look(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Style of an algorithm; oracles are dashed and without markers."""
    index = list(names).index(name)
    colour = COLOURS.get(name, f"C{index}")
    if name in ORACLES:
        return {"color": colour, "ls": "--", "lw": 1.1, "zorder": 1.5}
    heavy = {"lw": 2.0, "ms": 4.5, "zorder": 3} if name == "multiring" else {"lw": 1.1, "ms": 3.5}
    return {"color": colour, "marker": MARKERS[index % len(MARKERS)], **heavy}


def _name(name: str) -> str:
    return name.replace("_prior", " with priors")


def _efficiency_axis(axis: Axes, label: str) -> None:
    axis.set(xlabel=label, ylabel="efficiency", ylim=(0, 1.03))


def _legend(figure: Figure, axis: Axes) -> None:
    """One legend above the whole figure."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 9), frameon=False)


def _draw_curve(axis: Axes, curve: Mapping[str, Sequence[float]], look: dict[str, Any], label: str) -> None:
    middle = (np.asarray(curve["low"]) + np.asarray(curve["high"])) / 2
    error = np.asarray(curve["error"])
    keep = np.asarray(curve["n"]) >= 10  # bins with fewer entries are noise
    axis.errorbar(
        middle[keep], np.asarray(curve["value"])[keep], error[keep], elinewidth=0.6, label=label, **look
    )


def by_rings(rows: Mapping[str, Any]) -> Figure:
    """Efficiency and ring count against the number of true rings."""
    figure, (left, right) = _figure(2)
    for name, row in rows.items():
        part, look = row["mix"]["isolated"], _look(name, list(rows))
        keys = [str(k) for k in range(1, MOST_RINGS + 1)]
        left.plot(range(1, MOST_RINGS + 1), [part["efficiency"][k] for k in keys], label=_name(name), **look)
        if name not in ORACLES:
            counts = [part["ring_count_accuracy"][str(k)] for k in range(MOST_RINGS + 1)]
            right.plot(range(MOST_RINGS + 1), counts, **look)
    _efficiency_axis(left, "true rings in the event")
    left.set_xticks(range(1, MOST_RINGS + 1))
    right.set(xlabel="true rings in the event", ylabel="ring count right", ylim=(0, 1.03))
    right.set_xticks(range(MOST_RINGS + 1))
    _legend(figure, left)
    return figure


def by_hits(rows: Mapping[str, Any]) -> Figure:
    """Efficiency against the hits of the ring and of the event."""
    return _two_curves(rows, ("ring_hits", "hits of the ring"), ("event_hits", "hits of the event"))


def by_separation(rows: Mapping[str, Any]) -> Figure:
    """Efficiency in events of two rings against their distance."""
    return _two_curves(
        rows,
        ("separation", "distance of the centres, mm (events of two rings)"),
        ("distance", "distance of centre and radius, in units of the matching"),
    )


def _two_curves(rows: Mapping[str, Any], *panels: tuple[str, str]) -> Figure:
    figure, axes = _figure(len(panels))
    for axis, (curve, label) in zip(axes, panels, strict=True):
        for name, row in rows.items():
            _draw_curve(axis, row["curves"][curve], _look(name, list(rows)), _name(name))
        _efficiency_axis(axis, label)
    _legend(figure, axes[0])
    return figure


def by_radius(rows: Mapping[str, Any]) -> Figure:
    """Efficiency and resolution against the radius, and resolution against the ring's hits."""
    figure, axes = _figure(3, width=3.9)
    for name, row in rows.items():
        look = _look(name, list(rows))
        _draw_curve(axes[0], row["curves"]["radius"], look, _name(name))
        _draw_curve(axes[1], row["curves"]["sigma_r_radius"], look, _name(name))
        _draw_curve(axes[2], row["curves"]["sigma_r_ring_hits"], look, _name(name))
    for axis, curve in zip(axes[1:], ("sigma_r_radius", "sigma_r_ring_hits"), strict=True):
        bound = rows[next(iter(ORACLES))]["curves"][curve]  # from the rings matched by the oracle, nearly all
        middle = (np.asarray(bound["low"]) + np.asarray(bound["high"])) / 2
        axis.plot(middle, bound["bound"], color="#c0392b", ls=":", lw=1.6, label="Cramér-Rao bound")
        axis.set(ylabel="σ(R), mm", ylim=(0, 5))
    _efficiency_axis(axes[0], "radius, mm")
    axes[1].set_xlabel("radius, mm")
    axes[2].set_xlabel("hits of the ring")
    _legend(figure, axes[1])
    return figure


def by_noise(rows: Mapping[str, Any]) -> Figure:
    """Efficiency, fakes and ring count against the mean number of noise hits."""
    figure, axes = _figure(4, width=3.1)
    panels = (
        ("noise_efficiency_1", "efficiency, one true ring"),
        ("noise_efficiency_2", "efficiency, two true rings"),
        ("noise_fakes_per_event", "fakes per event"),
        ("noise_count_right_1", "ring count right, one true ring"),
    )
    for axis, (curve, label) in zip(axes, panels, strict=True):
        for name, row in rows.items():
            if name in ORACLES and "count" in curve:
                continue
            values = row["curves"][curve]
            axis.plot(values["noise"], values["value"], label=_name(name), **_look(name, list(rows)))
        axis.set(
            xlabel="mean noise hits per event", ylabel=label, ylim=(0, None if "fakes" in curve else 1.03)
        )
    _legend(figure, axes[0])
    return figure


def counts(rows: Mapping[str, Any]) -> Figure:
    """Found against true number of rings, in per cent of the events with that true number."""
    finders = [name for name in rows if name not in ORACLES]
    columns = min(len(finders), 4)
    lines = -(-len(finders) // columns)
    figure = Figure(figsize=(3.0 * columns, 3.0 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    for k, name in enumerate(finders):
        axis = figure.add_subplot(lines, columns, k + 1)
        table = np.asarray(rows[name]["mix"]["isolated"]["ring_count_matrix"], dtype=float)
        share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        axis.imshow(share.T, origin="lower", cmap="Blues", vmin=0, vmax=1)
        for (t, f), value in np.ndenumerate(share):
            if table[t].sum():
                colour = "white" if value > 0.6 else "black"
                axis.text(t, f, f"{100 * value:.1f}", ha="center", va="center", color=colour, fontsize=7.5)
        ticks = range(MOST_RINGS + 1)
        axis.set(xlabel="true rings", ylabel="found rings", title=name, xticks=ticks, yticks=ticks)
    return figure


FIGURES = {
    "quality-rings": by_rings,
    "quality-counts": counts,
    "quality-hits": by_hits,
    "quality-radius": by_radius,
    "quality-separation": by_separation,
    "quality-noise": by_noise,
}
