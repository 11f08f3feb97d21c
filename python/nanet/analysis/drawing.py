# SPDX-License-Identifier: Apache-2.0
"""Drawing of an event with matplotlib: PMs of both disks in the common plane, coloured hits, rings, truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nanet.analysis.selection import Event, event, pm_positions
from nanet.detector import Detector, as_detector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PM_MM = 9.0  # half the pitch
RING_COLOURS = ("#d1495b", "#edae49", "#00798c", "#8d5a97")
TRUE_COLOUR = "#666666"
LIMITS = ((-485.0, 181.0), (-306.0, 306.0))  # mm; contains both lattices in the common plane


def draw_event(
    events: pa.Table | Event,
    number: int = 0,
    *,
    rings: pa.Table | None = None,
    truth: pa.Table | None = None,
    axes: Axes | None = None,
    lattice: bool = True,
    detector: str | Detector | None = None,
) -> Axes:
    """Draws event `number` of read_events (or an Event) and returns the axes.

    rings, truth: tables, as in event(). axes: existing axes; default: a new figure. lattice: draw all
    PMs. detector: a file, a name such as hexagonal, or a Detector; default: NA62's.
    """
    import matplotlib.pyplot as plt

    other = as_detector(detector)
    one = events if isinstance(events, Event) else event(events, number, rings, truth, detector)
    if axes is None:
        _, axes = plt.subplots(figsize=(7.6, 6.4), layout="constrained")
    if lattice:
        _add_lattice(axes, other)
    if len(one.pm):
        _add_hits(axes, one, other)
    for at, ring in enumerate(one.rings or ()):
        colour = RING_COLOURS[at % len(RING_COLOURS)]
        text = f"ring {at}: R = {ring.r:.1f} mm, {ring.hits} hits"
        axes.add_patch(_circle(ring, edgecolor=colour, linewidth=2.0, label=text))
        axes.plot([ring.x], [ring.y], "+", color=colour, markersize=8)
    for ring in one.true_rings or ():
        who = f"{ring.particle} {ring.momentum:.1f} GeV/c" if ring.momentum is not None else ring.particle
        text = f"true: {who}, R = {ring.r:.1f} mm, {ring.hits} hits"
        axes.add_patch(_circle(ring, edgecolor=TRUE_COLOUR, linewidth=1.2, linestyle=(0, (5, 4)), label=text))
    limits = limits_of(other)
    axes.set_xlim(*limits[0])
    axes.set_ylim(*limits[1])
    axes.set_aspect("equal")
    axes.set_xlabel("x in the common plane (mm)")
    axes.set_ylabel("y (mm)")
    axes.set_title(one.title(), fontsize=10)
    if one.rings or one.true_rings:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), fontsize=8, frameon=False, ncols=2)
    return axes


def _circle(ring: Any, **style: Any) -> Any:
    from matplotlib.patches import Circle

    return Circle((ring.x, ring.y), ring.r, fill=False, **style)


def limits_of(detector: Detector | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of a drawing in mm: x, y. None: NA62's."""
    return (detector.display.x_mm, detector.display.y_mm) if detector else LIMITS


def _add_lattice(axes: Axes, detector: Detector | None) -> None:
    from matplotlib.collections import EllipseCollection

    if detector:
        from nanet.detector.drawing import channel_outlines

        style = {"facecolors": "none", "edgecolors": (0.5, 0.5, 0.5, 0.18), "linewidths": 0.5}
        axes.add_collection(channel_outlines(detector, rasterized=True, **style))
        return
    size = 2 * PM_MM
    axes.add_collection(
        EllipseCollection(
            size, size, 0, units="xy", offsets=pm_positions(), offset_transform=axes.transData,
            facecolors="none", edgecolors=(0.5, 0.5, 0.5, 0.18), linewidths=0.5, rasterized=True,
        )
    )  # fmt: skip


def _add_hits(axes: Axes, one: Event, detector: Detector | None) -> None:
    import numpy as np
    from matplotlib.collections import EllipseCollection

    spread = max(float(np.abs(one.dt).max()), 0.5)
    size = detector.display.pitch_mm if detector else 2 * PM_MM
    hits = EllipseCollection(
        size, size, 0, units="xy", offsets=np.column_stack((one.x, one.y)),
        offset_transform=axes.transData, array=one.dt, cmap="viridis", edgecolors="black", linewidths=0.4,
    )  # fmt: skip
    hits.set_clim(-spread, spread)
    axes.add_collection(hits)
    bar = axes.figure.colorbar(hits, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label("hit time − event time (ns)")
