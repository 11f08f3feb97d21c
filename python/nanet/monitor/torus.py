# SPDX-License-Identifier: Apache-2.0
"""State and metrics of a torus that carries a program, in the monitor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nanet.monitor.metrics import counters, family
from nanet.monitor.state import SILENT_S


class TorusState:
    """Takes messages of `nanet torus demo`; the same members as State, as far as the server uses them."""

    page = "torus.html"
    samples_events = False
    detector = ""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.snapshot: dict[str, Any] = {}
        self.physics: dict[str, Any] = {}
        self.history: deque[list[float]] = deque(maxlen=1)
        self.ended = False
        self.heard = time.monotonic()

    def take(self, message: Mapping[str, Any]) -> str:
        """Takes one message; returns its kind."""
        self.heard = time.monotonic()
        kind = message["kind"]
        if kind == "about":
            self.about = {key: value for key, value in message.items() if key != "kind"}
        else:
            self.snapshot = message["snapshot"]
            self.ended = kind == "result"
        return kind

    def health(self) -> tuple[bool, str]:
        """Whether the program runs, with one line of text."""
        silent = time.monotonic() - self.heard
        if not self.snapshot:
            return False, "not ok: no message from the torus yet"
        program = self.snapshot["program"]
        if self.ended:
            return False, f"not ok: the program has ended after {program['iterations']} iterations"
        if silent > SILENT_S:
            return False, f"not ok: no message from the torus for {silent:.0f} s"
        state = "degraded" if self.snapshot["errors_on"] else "ok"
        return True, (
            f"{state}: {program['iterations']} iterations, {program['packets']} packets delivered, "
            f"{program['cells_resent']} cells sent again"
        )

    def feed(self) -> dict[str, Any]:
        """Numbers of the page."""
        ok, line = self.health()
        degraded = bool(self.snapshot) and self.snapshot["errors_on"]
        return {
            "type": "state", "torus": self.snapshot, "ended": self.ended, "ok": ok, "degraded": degraded,
            "health": line,
        }  # fmt: skip

    def physics_feed(self) -> dict[str, Any]:
        """Nothing: a torus has no detector."""
        return {"type": "physics"}


class TorusCollector(Collector):
    """Prometheus collector of the latest numbers."""

    def __init__(self, state: TorusState) -> None:
        self.state = state
        self.watchers = 0

    def collect(self) -> Iterator[Metric]:
        """Counters of the core's list, loads of links."""
        s = self.state.snapshot
        yield GaugeMetricFamily(
            "nanet_up", "1: the program runs, as in /health.", float(self.state.health()[0])
        )
        yield GaugeMetricFamily("nanet_monitor_watchers", "Pages that are open.", float(self.watchers))
        if not s:
            return
        for metric, lines in counters().items():
            if all(line["family"] == "program" for line in lines):
                yield family(metric, lines, s)
        loads = GaugeMetricFamily(
            "nanet_torus_link_load", "Words per cycle of links, since the update before.", labels=["of"]
        )
        loads.add_metric(["mean"], float(s["load_mean"]))
        loads.add_metric(["busiest"], float(s["load_max"]))
        yield loads
