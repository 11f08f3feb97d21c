# SPDX-License-Identifier: Apache-2.0
"""Live picture of a torus on a terminal: planes of nodes, links coloured by load."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from nanet.report.tables import count
from nanet.run.live import bar, sparkline

if TYPE_CHECKING:
    from nanet.torus.demo import Demo, Tick

COLOURS = ("grey37", "blue", "cyan", "green", "yellow", "magenta")  # of loads, up to the largest
HISTORY = 48


def colour(load: float, most: float) -> str:
    """Colour of a link's load; most: the largest load in the picture."""
    if load <= 0 or most <= 0:
        return COLOURS[0]
    return COLOURS[1 + min(len(COLOURS) - 2, int((len(COLOURS) - 1) * load / most))]


class View:
    """Draws the latest tick of a demo."""

    def __init__(self, demo: Demo, title: str) -> None:
        self.demo, self.title = demo, title
        self.tick: Tick | None = None
        self.accepted: deque[float] = deque(maxlen=HISTORY)
        self._words = self._cycles = 0

    def update(self, tick: Tick) -> None:
        """Takes the state after a tick."""
        self.tick = tick
        cycles = max(1, tick.count["cycles"] - self._cycles)
        self.accepted.append((tick.count["words"] - self._words) / cycles / self.demo.nodes)
        self._words, self._cycles = tick.count["words"], tick.count["cycles"]

    def plane(self, z: int) -> Text:
        """Nodes of one z: links X across and Y down, the node in the colour of its Z links."""
        assert self.tick is not None
        nx, ny, _ = self.demo.size
        loads, most = self.tick.loads, float(self.tick.loads.max())
        text = Text(no_wrap=True)
        text.append(f"z = {z}\n", style="dim")

        def both(node: int, port: int, far: int) -> float:
            return float(max(loads[node * 6 + port], loads[far * 6 + port + 3]))

        for y in range(ny):
            below = Text()
            for x in range(nx):
                node = x + nx * (y + ny * z)
                right, down = (x + 1) % nx + nx * (y + ny * z), x + nx * ((y + 1) % ny + ny * z)
                up_down = float(max(loads[node * 6 + 2], loads[node * 6 + 5]))
                text.append("●", style=colour(up_down, most))
                bad_x = self.demo.bad == (node, 0) and self.tick.errors_on
                text.append(
                    "✗─" if bad_x else "──",
                    style="bold red" if bad_x else colour(both(node, 0, right), most),
                )
                bad_y = self.demo.bad == (node, 1) and self.tick.errors_on
                below.append(
                    "✗  " if bad_y else "│  ",
                    style="bold red" if bad_y else colour(both(node, 1, down), most),
                )
            text.append("\n")
            text.append_text(below)
            text.append("\n" if y + 1 < ny else "")
        return text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.tick is None:
            return
        nx, _, nz = self.demo.size
        shown = max(1, min(nz, options.max_width // (3 * nx + 3)))
        planes = Table.grid(padding=(0, 3, 0, 0))
        planes.add_row(*(self.plane(z) for z in range(shown)))
        more = f", planes 0 to {shown - 1} of {nz}" if shown < nz else ""
        scale = Text("link load, words per cycle: 0 ", style="dim")
        for name in COLOURS:
            scale.append("━━", style=name)
        scale.append(f" {self.tick.loads.max():.2f}; nodes: Z links{more}")
        yield Group(Text(self.title, style="bold"), planes, scale, self._counts(), self._foot())

    def _counts(self) -> Table:
        assert self.tick is not None
        now = self.tick.count
        table = Table.grid(padding=(0, 2))
        history = Text(sparkline(list(self.accepted)), style="cyan")
        table.add_row("accepted", f"{self.accepted[-1]:.3f}", "words per node and cycle", history)
        latency = f"cycles in the mean, 99 %: {now['p99_cycles']:.0f}, longest: {now['max_cycles']}"
        table.add_row("latency", f"{now['mean_cycles']:.0f}", latency)
        wanted = "delivered" if self.demo.expected is None else f"of {count(self.demo.expected)}"
        table.add_row("packets", count(now["packets"]), wanted)
        style = "bold red" if self.tick.errors_on else ""
        node, port = self.demo.bad
        where = f"link {'XYZ'[port]}+ of node {node}"
        table.add_row(
            Text("cells", style=style), Text(count(now["cells_damaged"]), style=style),
            Text(f"damaged, {count(now['cells_resent'])} sent again: {where}", style=style),
        )  # fmt: skip
        return table

    def _foot(self) -> Text:
        assert self.tick is not None
        done = self.tick.count["iterations"]
        share = done / self.demo.iterations
        state = self.demo.starting(self.tick.count) or f"{done} of {self.demo.iterations} iterations"
        return Text(f"{bar(share, 40)} {state}   Ctrl-C ends early", style="dim")


def summary(result: dict[str, Any]) -> Table:
    """Figures of a finished demo."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    program, errors = result["program"], result["errors"]
    mpi, stopped = result.get("mpi"), result.get("stopped") and not result["complete"]
    if mpi:
        table.add_row("iterations", count(program["iterations"]), f"of an MPI program, {mpi['ranks']} ranks")
        exact = "equal to the exact solution" if result["complete"] else "wrong result"
        text = f"{exact}, largest error {mpi['error']:.1e}"
        table.add_row("result", "", "none: stopped before the end" if stopped else text)
        table.add_row("packets", count(program["packets"]), "delivered")
    else:
        took = f"{count(round(result['microseconds']))} µs in the model"
        table.add_row("iterations", count(program["iterations"]), took)
        table.add_row(
            "packets", count(program["packets"]),
            "every one delivered once" if result["complete"] else f"of {count(result['packets_expected'])}"
            + (", stopped before the end" if stopped else ""),
        )  # fmt: skip
        table.add_row("accepted", f"{result['accepted']:.3f}", "words per node and cycle")
    table.add_row(
        "latency", f"{result['mean_cycles']:.0f}",
        f"cycles in the mean, 99 %: {result['p99_cycles']:.0f}, longest: {result['max_cycles']}",
    )  # fmt: skip
    table.add_row(
        "cells damaged", count(program["cells_damaged"]),
        ("" if program["cells_damaged"] else "no errors: take more --iterations or --errors; ")
        + f"{count(program['cells_resent'])} sent again; {'XYZ'[errors['port']]}+ of node {errors['node']}, "
        f"{100 * errors['word_rate']:g} % of words",
    )  # fmt: skip
    if mpi:
        return table
    spans = [count(round(cycles)) for cycles in result["cycles_per_iteration"]]
    titles = ("before", "during", "after") if len(spans) == 3 else ("",) * len(spans)
    parts = ", ".join(f"{span} {title}".strip() for span, title in zip(spans, titles, strict=True))
    table.add_row("cycles per iteration", "", f"{parts} the errors" if len(spans) == 3 else parts)
    return table
