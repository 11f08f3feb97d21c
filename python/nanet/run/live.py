# SPDX-License-Identifier: Apache-2.0
"""Live view of `nanet demo`: status of the three programs, refreshed a few times per second."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nanet.report.counters import HARMLESS
from nanet.report.final import closed_loop, loop_line
from nanet.report.output import packets_lost
from nanet.report.tables import (
    CARD_CYCLE_NS,
    STAGES,
    count,
    duration,
    gateware_figures,
    losses,
    microseconds,
    rate,
    run_state,
)

BLOCKS = " ▁▂▃▄▅▆▇█"
HISTORY = 48
SHOWN_LOSSES = 5  # the largest


def sparkline(values: list[float]) -> str:
    """Values from zero to their maximum, as a line of block characters."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(BLOCKS[min(8, round(8 * value / top))] for value in values)


def bar(share: float, width: int) -> str:
    """A share from 0 to 1 as a bar of `width` characters."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="dim", padding=0)


def _shares(rows: list[tuple[str, int]], style: str, width: int) -> Table:
    total = sum(value for _, value in rows) or 1
    table = Table.grid(padding=(0, 1))
    for name, value in rows:
        table.add_row(name, Text(bar(value / total, width), style=style), f"{100 * value / total:4.1f} %")
    return table


class Rates:
    """Rates per second from counts with their times."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        self.now: dict[str, float] = {}
        self.history: deque[float] = deque(maxlen=HISTORY)

    def update(self, name: str, t: float, value: float) -> None:
        """Adds the count `value` at time t (seconds)."""
        before = self._last.get(name)
        if before is None:
            self._last[name] = (t, value)
        elif t > before[0]:
            self.now[name] = (value - before[1]) / (t - before[0])
            self._last[name] = (t, value)
            if name == "events":
                self.history.append(self.now[name])


def _rate(value: float | None) -> str:
    """A rate; a dash before the first interval has passed."""
    return "-" if value is None else rate(value)


class View:
    """Draws the state of the chain."""

    def __init__(self, title: str, duration: float) -> None:
        self.title = title
        self.duration = duration
        self.elapsed = 0.0
        self.trigger: Mapping[str, Any] = {}
        self.readout: Mapping[str, Any] = {}
        self.l0tp: Mapping[str, Any] = {}
        self.monitor: Mapping[str, Any] = {}
        self.loop: Mapping[str, Any] = {}  # of the final trigger
        self.rates = Rates()

    def update(
        self,
        elapsed: float,
        trigger: Mapping[str, Any],
        readout: Mapping[str, Any],
        l0tp: Mapping[str, Any],
        speed: float = 1.0,
    ) -> None:
        """Takes the latest status line of each program. speed: detector seconds per wall-clock second."""
        self.elapsed = elapsed
        self.trigger = trigger.get("snapshot", {})
        self.monitor = trigger.get("monitor", {})
        self.readout = readout.get("snapshot", {})
        self.l0tp = l0tp.get("snapshot", {})
        self.loop = closed_loop(self.trigger, self.readout, self.l0tp, speed)
        for values, t, keys in (
            (
                self.trigger,
                trigger.get("t", 0.0),
                ("packets_in", "bytes_in", "events_built", "frames_out", "rings"),
            ),
            (self.readout, readout.get("t", 0.0), ("events_sent", "packets_sent")),
            (self.l0tp, l0tp.get("t", 0.0), ("primitives", "packets")),
        ):
            for key in keys:
                if key in values:
                    name = "events" if key == "events_built" else key
                    self.rates.update(name, t, values[key])

    def __rich__(self) -> RenderableType:
        grid = Table.grid(expand=True)
        grid.add_column(ratio=5)
        grid.add_column(ratio=3)
        grid.add_row(self._flow(), self._rings())
        grid.add_row(self._latency(), Group(self._boards(), self._losses()))
        done = min(1.0, self.elapsed / self.duration) if self.duration else 0.0
        foot = Text(
            f"{bar(done, 40)} {self.elapsed:4.1f} of {self.duration:g} s   Ctrl-C ends early", style="dim"
        )
        title = Text(self.title, style="bold", overflow="fold")
        loop = [self._loop()] if self.loop else []
        return Group(title, run_line(self.trigger), grid, *loop, foot)

    def _loop(self) -> Panel:
        late = self.loop["late"] or self.loop.get("card", {}).get("late")
        bad = late or self.loop["events_twice"] or self.loop["events_untriggered"]
        text = Text(loop_line(self.loop), style="red" if bad else "", overflow="fold")
        return _panel(text, "final trigger")

    def _flow(self) -> Panel:
        now = self.rates.now
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(justify="right", min_width=11)
        table.add_column(justify="right", min_width=11)
        table.add_row("", Text("events", style="dim"), Text("packets", style="dim"))
        for name, events, packets in (
            ("boards", "events_sent", "packets_sent"),
            ("trigger", "events", "packets_in"),
            ("L0TP", "primitives", "packets"),
        ):
            table.add_row(name, _rate(now.get(events)), _rate(now.get(packets)))
        table.add_row("rings", _rate(now.get("rings")), "")
        line = Text(sparkline(list(self.rates.history)[-44:]), style="cyan", no_wrap=True)
        return _panel(Group(table, line), "rates, wall-clock")

    def _latency(self) -> Panel:
        table = Table.grid(padding=(0, 1))
        table.add_column(min_width=11, no_wrap=True)
        for _ in range(4):
            table.add_column(justify="right", min_width=8, no_wrap=True)
        table.add_row(*(Text(name, style="dim") for name in ("", "p50", "p99", "p99.9", "max")))
        latency = self.trigger.get("latency_us", {})
        for stage in STAGES:
            values = latency.get(stage)
            if not values or not values["n"]:
                continue
            style = "bold" if stage == "total" else ""
            cells = [microseconds(values[key]) for key in ("p50", "p99", "p99_9", "max")]
            table.add_row(stage, *cells, style=style)
        if figures := gateware_figures(self.trigger):
            p50, p99, most = (
                microseconds(figures[f"closing_cycles_{name}"] * CARD_CYCLE_NS / 1e3)
                for name in ("p50", "p99", "max")
            )
            table.add_row("card: event", p50, p99, "", most, style="cyan")
            rate_of_clock = f"card's clock: {figures['cycles_per_s'] / 1e6:.2f} M cycles/s simulated"
            return _panel(Group(table, Text(rate_of_clock, style="dim"), self._deadline(latency)), "latency")
        return _panel(Group(table, self._deadline(latency)), "latency")

    def _deadline(self, latency: Mapping[str, Any]) -> Text:
        deadline = self.trigger.get("deadline_us")
        total = latency.get("total", {})
        if not deadline or not total.get("n"):
            return Text("")
        late = self.trigger.get("frames_late", 0)
        style = "red" if late else "green"
        text = Text(f"deadline {duration(deadline)} ", no_wrap=True)
        text.append(f"▕{bar(total['max'] / deadline, 10)}▏", style=style)
        text.append(f" {count(late)} late" if late else " held", style=f"bold {style}")
        return text

    def _rings(self) -> Panel:
        counts = self.monitor.get("rings_per_event") or [0] * 5
        rows = [(str(number), value) for number, value in enumerate(counts)]
        return _panel(_shares(rows, "green", 14), "rings per event")

    def _boards(self) -> Panel:
        rows = [
            (f"board {number}", value) for number, value in enumerate(self.monitor.get("board_hits") or [])
        ]
        return _panel(_shares(rows, "blue", 8), "hits by board")

    def _losses(self) -> Panel:
        harmless = [name.replace("_", " ") for name in HARMLESS]
        rows = losses(self.trigger) if self.trigger else []
        rows += [
            (f"node {n['node']} SILENT", n["frames_silent"])
            for n in self.l0tp.get("nodes", [])
            if n["silent"]
        ]
        for key in ("frames_missing", "socket_overflow"):
            if self.l0tp.get(key):
                rows.append((f"L0TP: {key.replace('_', ' ')}", self.l0tp[key]))
        bad = [(name.removeprefix("lost: "), value) for name, value in rows if name not in harmless]
        bad.sort(key=lambda row: -row[1])
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in bad[:SHOWN_LOSSES]:
            table.add_row(Text(count(value), style="red"), name)
        if len(bad) > SHOWN_LOSSES:
            table.add_row("", Text(f"and {len(bad) - SHOWN_LOSSES} more", style="red"))
        if not bad:
            table.add_row(Text("none", style="green"))
        return _panel(table, "losses")


def run_line(snapshot: Mapping[str, Any]) -> Text:
    """State of the run, red while choke is raised."""
    choked = snapshot.get("choke", {}).get("on", False)
    return Text(run_state(snapshot), style="bold red" if choked else "dim", overflow="fold")


class TriggerLine:
    """Two status lines of `nanet trigger` on a terminal."""

    def __init__(self) -> None:
        self.snapshot: Mapping[str, Any] = {}
        self.rates = Rates()

    def update(self, t: float, snapshot: Mapping[str, Any]) -> None:
        """Takes a snapshot at time t (seconds)."""
        self.snapshot = snapshot
        self.rates.update("events", t, snapshot["events_built"])

    def __rich__(self) -> RenderableType:
        if not self.snapshot:
            return Text("")
        numbers = Text(numbers_line(self.snapshot, self.rates.now.get("events")), overflow="fold")
        return Group(numbers, run_line(self.snapshot))


def numbers_line(snapshot: Mapping[str, Any], events_per_s: float | None) -> str:
    """Rate, latency and losses in one line."""
    total = snapshot.get("latency_us", {}).get("total", {})
    total = total if total.get("n") else {}  # no measurement yet
    lost = packets_lost(snapshot.get("lost", {}))
    return (
        f"{_rate(events_per_s)} events  "
        f"p50 {microseconds(total.get('p50'))}  p99.9 {microseconds(total.get('p99_9'))}  "
        f"max {microseconds(total.get('max'))}  "
        f"late {count(snapshot.get('frames_late', 0))}  lost {count(lost)}"
    )


def plain_line(view: View) -> str:
    """The view as one line, for output without a terminal."""
    numbers = numbers_line(view.trigger, view.rates.now.get("events"))
    silent = "".join(f"  node {n['node']} SILENT" for n in view.l0tp.get("nodes", []) if n["silent"])
    loop = f"\n{' ' * 9}{loop_line(view.loop)}" if view.loop else ""
    return f"{view.elapsed:5.1f} s  {numbers}  {run_state(view.trigger)}{silent}{loop}"
