# SPDX-License-Identifier: Apache-2.0
"""Drawing of an event in the terminal: hits as dots coloured by time, rings as lines of braille dots."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanet.analysis.drawing import LIMITS
from nanet.analysis.selection import Event, Ring

RING_STYLES = ("bright_red", "bright_yellow", "bright_cyan", "bright_magenta")
TRUE_STYLE = "grey62"
# from early to late, relative to the event's time
TIME_STYLES = ("blue", "dodger_blue2", "cyan", "green", "yellow", "orange3", "red")
HIT = "●"
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille: [row][column]
CELL = 2.0  # height of a character divided by its width


class Canvas:
    """Characters over the common plane, two by four dots each. The last mark sets a character's colour."""

    def __init__(
        self, columns: int, limits: tuple[tuple[float, float], tuple[float, float]] = LIMITS
    ) -> None:
        (left, right), (bottom, top) = limits
        self.columns = columns
        self.scale = (right - left) / columns  # mm per column
        self.rows = math.ceil((top - bottom) / (self.scale * CELL))
        self._left, self._top = left, top
        self._dots = np.zeros((self.rows, columns), dtype=np.uint8)
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}  # characters that replace the dots
        self._styles: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, style: str) -> None:
        """Draws a small dot at a position (mm); ignored outside the plane."""
        column, row = (x - self._left) / self.scale, (self._top - y) / (self.scale * CELL)
        cell = (math.floor(row), math.floor(column))
        if 0 <= cell[0] < self.rows and 0 <= cell[1] < self.columns:
            self._dots[cell] |= DOTS[int((row % 1) * 4)][int((column % 1) * 2)]
            self._styles[cell] = style

    def put(self, x: float, y: float, character: str, style: str) -> None:
        """Draws a character at a position (mm)."""
        cell = (math.floor((self._top - y) / (self.scale * CELL)), math.floor((x - self._left) / self.scale))
        if 0 <= cell[0] < self.rows and 0 <= cell[1] < self.columns:
            self._cells[cell] = (character, style)

    def circle(self, ring: Ring, style: str, gap: int = 1) -> None:
        """Draws a ring; gap > 1 skips dots."""
        steps = max(int(2 * math.pi * ring.r / (self.scale / 2)), 8)
        for at in range(0, steps, gap):
            angle = 2 * math.pi * at / steps
            self.dot(ring.x + ring.r * math.cos(angle), ring.y + ring.r * math.sin(angle), style)

    def lines(self) -> Iterator[Text]:
        """Rows from top to bottom."""
        for row in range(self.rows):
            text = Text()
            for column in range(self.columns):
                cell = (row, column)
                if cell in self._cells:
                    text.append(*self._cells[cell])
                elif self._dots[cell]:
                    text.append(chr(0x2800 + int(self._dots[cell])), self._styles[cell])
                else:
                    text.append(" ")
            yield text


def time_style(dt: float, spread: float) -> str:
    """Colour of a hit at dt ns from the event time; `spread` is the largest |dt|."""
    at = (dt / spread + 1) / 2 * len(TIME_STYLES)
    return TIME_STYLES[min(max(int(at), 0), len(TIME_STYLES) - 1)]


def picture(
    event: Event, columns: int = 78, limits: tuple[tuple[float, float], tuple[float, float]] = LIMITS
) -> RenderableType:
    """Event with a legend below, for rich's console. limits: of the drawing, x and y in mm."""
    canvas = Canvas(columns, limits)
    for ring in event.true_rings or ():
        canvas.circle(ring, TRUE_STYLE, gap=4)
    for at, ring in enumerate(event.rings or ()):
        canvas.circle(ring, RING_STYLES[at % len(RING_STYLES)])
    spread = max(float(np.abs(event.dt).max(initial=0.0)), 0.5)
    for x, y, dt in zip(event.x, event.y, event.dt, strict=True):
        canvas.put(x, y, HIT, time_style(dt, spread))
    for at, ring in enumerate(event.rings or ()):
        canvas.put(ring.x, ring.y, "+", RING_STYLES[at % len(RING_STYLES)])
    parts: list[RenderableType] = [Text(event.title(), style="bold"), *canvas.lines()]
    scale = Text(f"hits: {-spread:+.1f} ns ")
    for style in TIME_STYLES:
        scale.append(HIT, style)
    scale.append(f" {spread:+.1f} ns")
    parts.append(scale)
    if event.rings is not None or event.true_rings is not None:
        parts.append(_legend(event))
    return Group(*parts)


def _legend(event: Event) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("ring", "x mm", "y mm", "R mm", "hits", "χ²/ndf", "particle"):
        table.add_column(name, justify="left" if name in ("ring", "particle") else "right")

    def row(name: str, ring: Ring, style: str) -> None:
        chi2 = "" if ring.chi2_ndf is None else f"{ring.chi2_ndf:.2f}"
        who = "" if ring.momentum is None else f"{ring.particle} {ring.momentum:.1f} GeV/c"
        numbers = (f"{value:.1f}" for value in (ring.x, ring.y, ring.r))
        table.add_row(Text(name, style), *numbers, str(ring.hits), chi2, who)

    for at, ring in enumerate(event.rings or ()):
        row(f"found {at}", ring, RING_STYLES[at % len(RING_STYLES)])
    if event.rings is not None and not event.rings:
        table.add_row("no ring found")
    for ring in event.true_rings or ():
        row("true", ring, TRUE_STYLE)
    if event.true_rings is not None and not event.true_rings:
        table.add_row(Text("no true ring", TRUE_STYLE))
    return table
