# SPDX-License-Identifier: Apache-2.0
"""State of the trigger in the monitor: latest numbers, rates, and health."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from nanet.monitor.channels import judge
from nanet.report.output import account_closes, packets_lost

SILENT_S = 5.0  # silence after which the trigger counts as lost
HISTORY, HISTORY_S = 1200, 0.25  # points of the rate series, and their spacing: five minutes
BOARDS = (0, 512, 1024, 1536, 1952)  # first PM of each of NA62's boards, and their number
RATES = ("events_built", "packets_in", "bytes_in", "frames_out", "rings", "frames_late")


class State:
    """Takes messages of the trigger; source of all data of the page and the metrics."""

    page = "index.html"
    samples_events = True

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.detector = ""  # file; "": NA62's
        self._bounds: Sequence[int] = BOARDS
        self.snapshot: dict[str, Any] = {}
        self.physics: dict[str, Any] = {}
        self.stages: dict[str, Any] = {}
        self.channels: dict[str, list[int]] = {"dead": [], "hot": [], "masked": []}
        self.boards: list[dict[str, Any]] = []
        self.rates: dict[str, float] = {}
        self.history: deque[list[float]] = deque(maxlen=HISTORY)  # t, events/s, lost/s, late/s, burst
        self.ended = False
        self.heard = time.monotonic()
        self._before: tuple[float, dict[str, float]] | None = None
        self._point: tuple[float, dict[str, float]] | None = None
        self._hits: tuple[float, list[int]] | None = None

    def take(self, message: Mapping[str, Any]) -> str:
        """Takes one message; returns its kind."""
        self.heard = time.monotonic()
        kind = message["kind"]
        if kind == "about":
            self.about = {key: value for key, value in message.items() if key != "kind"}
            if "detector" in self.about:
                self.detector = self.about["detector"]["file"]
                self._bounds = self.about["detector"]["boards"]
        elif kind in ("snapshot", "result"):
            self.snapshot = message["snapshot"]
            self.ended = kind == "result"
            self._count(message["t"])
        elif kind == "physics":
            self.physics, self.stages = message["physics"], message["stages"]
            self.channels = judge(self.physics["pm_occupancy"], self.physics["masked"], self.detector)
            self._judge_boards(message["t"])
        return kind

    def _count(self, t: float) -> None:
        counts = {key: float(self.snapshot[key]) for key in RATES}
        counts["lost"] = float(lost(self.snapshot))
        if self.ended:
            self.rates = dict.fromkeys(counts, 0.0)
            self.boards = [{**board, "hits_per_s": 0.0, "state": "idle"} for board in self.boards]
        elif self._before is not None and t > self._before[0]:
            seconds = t - self._before[0]
            self.rates = {key: (value - self._before[1][key]) / seconds for key, value in counts.items()}
        self._before = (t, counts)
        if self._point is None:
            self._point = (t, counts)
        elif t - self._point[0] >= HISTORY_S:
            seconds = t - self._point[0]
            gained = [
                (counts[key] - self._point[1][key]) / seconds
                for key in ("events_built", "lost", "frames_late")
            ]
            self.history.append([round(t, 3), *gained, self.snapshot["bursts"]])
            self._point = (t, counts)

    def _judge_boards(self, t: float) -> None:
        occupancy = self.physics["pm_occupancy"]
        hits = [sum(occupancy[first:last]) for first, last in pairwise(self._bounds)]
        before = self._hits
        self._hits = (t, hits)
        seconds = t - before[0] if before else 0.0
        rates = (
            [(now - was) / seconds for now, was in zip(hits, before[1], strict=True)] if seconds > 0 else []
        )
        anyone = any(rates)
        self.boards = [
            {
                "board": number,
                "hits": count,
                "hits_per_s": rates[number] if rates else 0.0,
                "state": "sends" if rates and rates[number] else "silent" if anyone else "idle",
            }
            for number, count in enumerate(hits)
        ]

    def trouble(self) -> str:
        """Fault as a clause; empty without one."""
        s = self.snapshot
        if not s:
            return "no message from the trigger yet"
        if self.ended:
            return "the trigger has ended"
        silent = time.monotonic() - self.heard
        if silent > SILENT_S:
            return f"no message from the trigger for {silent:.0f} s"
        if s.get("device_failed") and s.get("gpu_lost", 1):  # else the device has recovered
            return f"the device failed: {s['device_failed']}"
        if s.get("account_violations"):
            return f"{s['account_violations']} checks of the account failed"
        return ""

    def health(self) -> tuple[bool, str]:
        """Whether the trigger works, with one line of text; "degraded" after late frames or lost packets."""
        wrong = self.trouble()
        if wrong:
            return False, f"not ok: {wrong}"
        s = self.snapshot
        return True, (
            f"{'degraded' if self.degraded() else 'ok'}: "
            f"{s['frames_answered']} frames answered, {s['frames_late']} late, {lost(s)} packets lost, "
            f"{sum(s['bad_packets'].values())} bad{', choke raised' if s['choke']['on'] else ''}"
        )

    def degraded(self) -> bool:
        """Whether frames were late or packets lost in this run."""
        return bool(self.snapshot) and (self.snapshot["frames_late"] > 0 or lost(self.snapshot) > 0)

    def feed(self) -> dict[str, Any]:
        """Numbers of the page: the trigger's JSON as `trigger`, with derived values."""
        ok, line = self.health()
        return {
            "type": "state",
            "trigger": self.snapshot,
            "rates": self.rates,
            "point": self.history[-1] if self.history else None,
            "boards": self.boards,
            "ended": self.ended,
            "ok": ok,
            "degraded": self.degraded(),
            "health": line,
            "closes": account_closes(self.snapshot) if self.ended else None,
        }

    def physics_feed(self) -> dict[str, Any]:
        """Histograms, centre map and occupancy, once per second."""
        return {"type": "physics", **self.physics, "channels": self.channels}


def lost(snapshot: Mapping[str, Any]) -> int:
    """Packets lost, each once."""
    return packets_lost(snapshot["lost"])
