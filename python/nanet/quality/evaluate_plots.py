# SPDX-License-Identifier: Apache-2.0
"""Pictures of an evaluation, each as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nanet.errors import UsageError, describe_os_error
from nanet.quality.evaluate import MIN_HITS, MOST_RINGS, RADIUS_MM, Evaluation, cut_variance

BLUE, ORANGE, GREY = "#1f6fb2", "#d9731a", "#8a8a8a"


def write_plots(evaluation: Evaluation, folder: str) -> list[str]:
    """Writes the figures to a folder, which is created if needed; returns the files. UsageError."""
    figures = {
        "efficiency": efficiency(evaluation),
        "ring_count": ring_count(evaluation),
        "residuals": residuals(evaluation),
        "efficiency_hits_radius": efficiency_hits_radius(evaluation),
    }
    written = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            for kind in ("png", "svg"):
                path = str(Path(folder) / f"{name}.{kind}")
                figure.savefig(path, dpi=150)
                written.append(path)
    except OSError as error:
        raise UsageError(f"--plots {describe_os_error(error)}: give a folder that can be written") from None
    return written


def _figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, columns, k + 1) for k in range(columns)]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def efficiency(evaluation: Evaluation) -> Figure:
    """Efficiency against the number of true rings, for all events and for isolated ones."""
    figure, (axis,) = _figure(5, 3.6)
    every = np.ones(len(evaluation.true.time), dtype=bool)
    for chosen, name, colour, shift in (
        (every, "all events", BLUE, -0.06),
        (evaluation.isolated, "isolated events", ORANGE, 0.06),
    ):
        per_event = evaluation.true.ring_counts(evaluation.counts)[evaluation.true.rings.event]
        x, y, error = [], [], []
        for k in range(1, MOST_RINGS + 1):
            mask = evaluation.counts & chosen[evaluation.true.rings.event] & (per_event == k)
            if mask.any():
                share = float((evaluation.match[mask] >= 0).mean())
                x.append(k + shift)
                y.append(share)
                error.append(np.sqrt(share * (1 - share) / mask.sum()))
        axis.errorbar(x, y, error, fmt="o", color=colour, label=name, capsize=3)
    axis.set(
        xlabel="true rings in the event", ylabel="efficiency", ylim=(0, 1.04), xticks=range(1, MOST_RINGS + 1)
    )
    axis.grid(axis="y", alpha=0.3)
    axis.legend(frameon=False)
    return figure


def ring_count(evaluation: Evaluation) -> Figure:
    """Found against true number of rings, in per cent of the events with that true number."""
    figure, (axis,) = _figure(4.6, 4)
    size = MOST_RINGS + 1
    table = evaluation.ring_count_matrix(np.ones(len(evaluation.true.time), dtype=bool))
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axis.imshow(share.T, origin="lower", cmap="Blues", vmin=0, vmax=1)
    for t in range(size):
        for f in range(size):
            if table[t].sum():
                colour = "white" if share[t, f] > 0.6 else "black"
                axis.text(
                    t, f, f"{100 * share[t, f]:.1f}", ha="center", va="center", color=colour, fontsize=9
                )
    axis.set(
        xlabel="true rings",
        ylabel="found rings",
        title="per cent of the events",
        xticks=range(size),
        yticks=range(size),
    )
    return figure


def residuals(evaluation: Evaluation) -> Figure:
    """Radius and centre of the matched rings, found minus true, with the bound for the radius."""
    figure, (radius, centre) = _figure(9, 3.6, 2)
    matched = evaluation.counts & (evaluation.match >= 0)
    true, found, index = evaluation.true.rings, evaluation.found.rings, evaluation.match[matched]
    dr = found.r[index] - true.r[matched]
    edges = np.linspace(-RADIUS_MM, RADIUS_MM, 81)
    if len(dr):
        radius.hist(dr, edges, color=BLUE, alpha=0.75, label=f"found - true, sigma {dr.std():.2f} mm")
        expected = _expected(evaluation.bounds.r[matched], edges)
        bound = float(np.sqrt(np.nanmean(cut_variance(evaluation.bounds.r[matched]))))
        radius.plot(
            (edges[:-1] + edges[1:]) / 2,
            expected,
            color=ORANGE,
            label=f"Cramér-Rao bound, {bound:.2f} mm\n({evaluation.bounds.source})",
        )
        radius.legend(frameon=False, fontsize=8, loc="upper left")
    radius.margins(y=0.3)
    radius.set(xlabel="radius, mm", ylabel="rings", xlim=(-RADIUS_MM, RADIUS_MM))
    edges = np.linspace(-15, 15, 91)
    for name, colour in (("x", BLUE), ("y", ORANGE)):
        difference = getattr(found, name)[index] - getattr(true, name)[matched]
        if len(difference):
            label = f"{name}, sigma {difference.std():.2f} mm"
            centre.hist(difference, edges, histtype="step", color=colour, label=label)
    centre.margins(y=0.2)
    centre.set(xlabel="centre, mm", ylabel="rings", xlim=(-15, 15))
    if len(index):
        centre.legend(frameon=False, fontsize=8)
    return figure


def _expected(sigma: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Entries per bin if each ring's radius had the resolution of its bound."""
    from scipy.special import ndtr

    sigma = np.minimum(sigma[~np.isnan(sigma)], 1e4)
    # In classes of sigma, as there are many rings with similar bounds.
    count, width = np.histogram(np.log(sigma), bins=200)
    middle = np.exp((width[:-1] + width[1:]) / 2)[count > 0, None]
    inside = ndtr(edges[-1] / middle) - ndtr(edges[0] / middle)
    shape = np.diff(ndtr(edges[None, :] / middle), axis=1) / inside
    return (count[count > 0, None] * shape).sum(axis=0)


def efficiency_hits_radius(evaluation: Evaluation) -> Figure:
    """Efficiency against the hits of the ring and against its radius."""
    figure, (by_hits, by_radius) = _figure(9, 3.6, 2)
    counts, rings = evaluation.counts, evaluation.true.rings
    matched = evaluation.match >= 0
    hits = np.arange(MIN_HITS, 26) - 0.5
    for axis, values, edges, label in (
        (by_hits, rings.hits, hits, "hits of the ring"),
        (by_radius, rings.r, np.arange(60, 200, 5.0), "radius, mm"),
    ):
        whole, _ = np.histogram(values[counts], edges)
        part, _ = np.histogram(values[counts & matched], edges)
        some = whole > 0
        share = part[some] / whole[some]
        error = np.sqrt(share * (1 - share) / whole[some])
        axis.errorbar(
            ((edges[:-1] + edges[1:]) / 2)[some], share, error, fmt="o", ms=4, color=BLUE, capsize=2
        )
        axis.set(xlabel=label, ylabel="efficiency", ylim=(0, 1.04))
        axis.set_title("grey: number of rings", fontsize=9, color=GREY, loc="right")
        axis.grid(axis="y", alpha=0.3)
        rate = axis.twinx()
        rate.stairs(whole, edges, color=GREY, alpha=0.25, fill=True)
        rate.set_yticks([])
        rate.spines[["top", "right"]].set_visible(False)
        axis.set_zorder(rate.get_zorder() + 1)
        axis.patch.set_visible(False)
    return figure
