# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a trigger: counters of the core's list, state, latency and event histograms."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from nanet.monitor.histograms import EDGES_S
from nanet.monitor.state import State
from nanet.report.counters import DECISIONS, inside

# Labelled metrics: label and help text. Every other metric of the core's list has one counter.
LABELLED = {
    "nanet_primitives_withheld": ("reason", "Events without a primitive sent, by reason."),
    "nanet_packets_lost": ("reason", "Valid packets that were not used, by reason."),
    "nanet_packets_recorded": ("outcome", "Packets by outcome of their recording."),
    DECISIONS: ("outcome", "Decisions of the final trigger, by outcome."),
    "nanet_torus_cells": ("outcome", "Cells of reliable links of the torus, by outcome."),
}
# Counts by name of a refusal (docs/formats.md): metric -> key of the JSON, help text.
REFUSALS = {
    "nanet_packets_bad": ("bad_packets", "Malformed packets, by reason."),
    "nanet_packets_foreign": ("not_mgp", "Frames other than UDP to the MGP port, by reason."),
}
GAUGES = {"nanet_packets_missing"}  # a running balance: it falls when a packet arrives late
STATES = ("ready", "waiting", "burst", "draining", "stopped")  # of the core's trigger


@functools.cache
def counters() -> dict[str, list[dict[str, str]]]:
    """Counters of the core's list (src/nanet/stats/counter_list.hpp) by metric."""
    from nanet import _core

    by_metric: dict[str, list[dict[str, str]]] = {}
    for counter in _core.counter_descriptions():
        if counter["metric"]:
            by_metric.setdefault(counter["metric"], []).append(counter)
    return by_metric


def family(metric: str, lines: list[dict[str, str]], s: dict[str, Any]) -> Metric:
    """A metric of the core's list with the values of a snapshot."""
    if metric not in LABELLED:
        (line,) = lines
        help_text = line["text"][:1].upper() + line["text"][1:] + "."
        kind = GaugeMetricFamily if metric in GAUGES else CounterMetricFamily
        return kind(metric, help_text, _value(line, s))
    label, help_text = LABELLED[metric]
    out = CounterMetricFamily(metric, help_text, labels=[label])
    for line in lines:
        out.add_metric([label_value(line)], _value(line, s))
    return out


def label_value(line: dict[str, str]) -> str:
    """The label of a counter within its metric."""
    return f"downscaled_{line['name']}" if line["family"] == "downscaled" else line["name"]


def present(lines: list[dict[str, str]], s: dict[str, Any]) -> list[dict[str, str]]:
    """Counters of a metric that a snapshot has: without --record no `recorded`, without a card no `card`."""
    return [line for line in lines if inside(s, line["family"])]


def _value(line: dict[str, str], s: dict[str, Any]) -> float:
    return float(inside(s, line["family"])[line["name"]])


class TriggerCollector(Collector):
    """Prometheus collector of the latest numbers."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.watchers = 0

    def collect(self) -> Iterator[Metric]:
        """All metric families; before the first message only those of the monitor."""
        state, s = self.state, self.state.snapshot
        ok, _ = state.health()
        yield GaugeMetricFamily("nanet_up", "1: the trigger works, as in /health.", float(ok))
        yield GaugeMetricFamily("nanet_monitor_watchers", "Pages that are open.", float(self.watchers))
        if not s:
            return
        yield InfoMetricFamily(
            "nanet_build", "Version of nanet.", {"version": str(state.about.get("version", ""))}
        )
        yield InfoMetricFamily(
            "nanet_configuration", "Configuration of the trigger.",
            {"hash": str(state.about.get("config_hash", "")), "algorithm": s["algorithm"],
             "device": s["device"], "card": s["card"], "gather": s["gather"]},
        )  # fmt: skip
        settings = GaugeMetricFamily(
            "nanet_realtime_setting", "1 for the state of each real-time setting.", labels=["name", "state"]
        )
        for setting in state.about.get("realtime_settings", ()):
            settings.add_metric([setting["name"], setting["state"]], 1.0)
        yield settings
        for metric, lines in counters().items():
            if there := present(lines, s):
                yield family(metric, there, s)
        for name, (key, text) in REFUSALS.items():
            refused = CounterMetricFamily(name, text, labels=["reason"])
            for reason, value in s[key].items():
                refused.add_metric([reason], float(value))
            yield refused
        yield from self._run(s)
        if "final" in s:
            yield from self._loop(s["final"])
        yield from self._gauges(s)
        yield from self._physics()
        yield self._latency()

    def _run(self, s: dict[str, Any]) -> Iterator[Metric]:
        run = GaugeMetricFamily(
            "nanet_run_state", "State of the run: 1 for the current state.", labels=["state"]
        )
        for name in STATES:
            run.add_metric([name], float(name == s["state"]))
        yield run
        newest = GaugeMetricFamily("nanet_burst", "Number of the latest burst, including wraps.")
        if s["burst"] is not None:
            newest.add_metric([], float(s["burst"]))
        yield newest
        choke = s["choke"]
        yield GaugeMetricFamily("nanet_choke", "Whether choke is raised.", float(choke["on"]))
        yield CounterMetricFamily(
            "nanet_choke_raised", "Number of times choke was raised.", float(choke["raised"])
        )
        yield CounterMetricFamily(
            "nanet_choke_seconds", "Total time with choke raised.", float(choke["seconds"])
        )
        yield GaugeMetricFamily("nanet_buffer_fill_ratio", "Share of the buffers in use.", choke["fill"])
        if "gpu_faults" in s:
            yield CounterMetricFamily("nanet_gpu_faults", "Number of times a GPU was lost.", s["gpu_faults"])
            yield CounterMetricFamily(
                "nanet_gpu_recoveries", "Number of times a lost GPU recovered.", s["gpu_recoveries"]
            )
            yield GaugeMetricFamily("nanet_gpu_lost", "1 while the CPU replaces a GPU.", s["gpu_lost"])
            yield CounterMetricFamily(
                "nanet_gpu_fallback_seconds", "Total time with the CPU replacing a GPU.", s["gpu_fallback_s"]
            )
        if conditions := s.get("conditions"):
            yield InfoMetricFamily(
                "nanet_conditions", "Masks and time offsets in effect.", {"name": str(conditions["name"])}
            )
            yield GaugeMetricFamily(
                "nanet_channels_masked", "Photomultipliers masked.", float(conditions["masked"])
            )
            yield CounterMetricFamily(
                "nanet_conditions_changes", "Number of changes of conditions.",
                float(conditions["changes"]),
            )  # fmt: skip
            yield CounterMetricFamily(
                "nanet_conditions_refused", "Refused changes of the conditions file.",
                float(conditions.get("refused", 0)),
            )  # fmt: skip

    def _loop(self, final: dict[str, Any]) -> Iterator[Metric]:
        loop = final.get("loop")
        if not loop:
            return
        boards = CounterMetricFamily(
            "nanet_final_board_triggers", "Triggers at the boards, by outcome.", labels=["outcome"]
        )
        for outcome in ("answered", "late", "early", "untimed", "flushed"):
            boards.add_metric([outcome], float(loop[outcome]))
        yield boards
        events = CounterMetricFamily(
            "nanet_final_events", "Events at the farm; untriggered, twice: answers.", labels=["outcome"]
        )
        for outcome in ("complete", "incomplete", "twice", "untriggered"):
            events.add_metric([outcome], float(loop[f"events_{outcome}"]))
        yield events

    def _gauges(self, s: dict[str, Any]) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "nanet_deadline_seconds",
            "Time from a frame's first packet to its deadline.",
            s["deadline_us"] * 1e-6,
        )
        yield GaugeMetricFamily(
            "nanet_frame_timeout_seconds",
            "Time from a frame's first packet to its close.",
            s["timeout_us"] * 1e-6,
        )
        yield GaugeMetricFamily(
            "nanet_elapsed_seconds", "Time from the first packet to the last answer.", float(s["elapsed_s"])
        )
        worst = GaugeMetricFamily(
            "nanet_latency_max_seconds", "Largest latency since the start, by stage.", labels=["stage"]
        )
        for stage, values in s["latency_us"].items():
            worst.add_metric([stage], values["max"] * 1e-6)
        yield worst

    def _physics(self) -> Iterator[Metric]:
        state = self.state
        rings = CounterMetricFamily(
            "nanet_events_by_rings", "Events by their number of rings.", labels=["rings"]
        )
        for number, value in enumerate(state.physics.get("rings_per_event", ())):
            rings.add_metric([str(number)], float(value))
        yield rings
        boards = CounterMetricFamily(
            "nanet_board_hits_sampled", "Hits of each board in the sampled frames.", labels=["board"]
        )
        sends = GaugeMetricFamily(
            "nanet_board_sends", "1 if hits of the board arrived in the last second.", labels=["board"]
        )
        for board in state.boards:
            boards.add_metric([str(board["board"])], float(board["hits"]))
            sends.add_metric([str(board["board"])], float(board["state"] == "sends"))
        yield boards
        yield sends
        channels = GaugeMetricFamily(
            "nanet_channels",
            "Photomultipliers masked, dead or hot (compared with neighbours).",
            labels=["state"],
        )
        for name, found in state.channels.items():
            channels.add_metric([name], float(len(found)))
        yield channels

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "nanet_latency_seconds",
            "Latency of each stage; total: first packet to answer sent.",
            labels=["stage"],
        )
        for stage, values in self.state.stages.items():
            buckets = [(f"{edge:g}", float(n)) for edge, n in zip(EDGES_S, values["buckets"], strict=True)]
            family.add_metric([stage], [*buckets, ("+Inf", float(values["n"]))], values["sum_s"])
        return family
