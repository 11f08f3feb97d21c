# SPDX-License-Identifier: Apache-2.0
"""Drawing of a detector with matplotlib: its channels in the common plane, coloured by board."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nanet.detector.model import Detector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def channel_outlines(detector: Detector, **style: object) -> object:
    """Outlines of all channels in the common plane, as a collection for matplotlib axes."""
    import numpy as np
    from matplotlib.collections import PolyCollection

    corners = 6 if detector.display.shape == "hexagon" else 4
    size = detector.display.pitch_mm / (2 * math.cos(math.pi / corners))
    turn = math.pi / 2 if corners == 6 else math.pi / 4
    angle = turn + 2 * math.pi * np.arange(corners) / corners
    outline = size * np.column_stack((np.cos(angle), np.sin(angle)))
    return PolyCollection(detector.common[:, None, :] + outline, **style)


def draw_detector(detector: Detector, axes: Axes | None = None) -> Axes:
    """Draws a detector, and a ring at beta = 1 about the mean ring centre; returns the axes."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Circle

    if axes is None:
        _, axes = plt.subplots(figsize=(7.6, 6.4), layout="constrained")
    colours = plt.get_cmap("Set2")(detector.board % 8)
    axes.add_collection(
        channel_outlines(detector, facecolors=colours, edgecolors="white", linewidths=0.2, alpha=0.7)
    )
    centre, radius = detector.monte_carlo.centre_mm, detector.optics.largest_mm
    axes.add_patch(Circle((centre, 0.0), radius, fill=False, edgecolor="#d1495b", linewidth=1.5))
    axes.set_xlim(*detector.display.x_mm)
    axes.set_ylim(*detector.display.y_mm)
    axes.set_aspect("equal")
    axes.set_xlabel("x in the common plane (mm)")
    axes.set_ylabel("y (mm)")
    axes.set_title(f"{detector.name}: {detector.channels} channels, {detector.boards} boards", fontsize=10)
    return axes
