# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the trigger's counters, described in docs/monitor.md."""

from __future__ import annotations

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

# name -> (key of the JSON, help)
COUNTERS = {
    "nanet_packets": ("packets_in", "UDP datagrams received on the MGP port."),
    "nanet_packets_used": ("packets_used", "Packets whose payload was placed in a buffer."),
    "nanet_burst_markers": ("burst_markers", "Start-of-burst and end-of-burst packets used."),
    "nanet_received_bytes": ("bytes_in", "Bytes of all datagrams received."),
    "nanet_fragments": ("events_in", "Event fragments in the packets used."),
    "nanet_hits": ("hits_in", "Hits in the packets used."),
    "nanet_events": ("events_built", "Events built from fragments."),
    "nanet_rings": ("rings", "Rings found."),
    "nanet_primitives": ("primitives_out", "Primitives sent in time."),
    "nanet_frames": ("frames_in", "Frames due to the L0 trigger processor."),
    "nanet_frames_answered": ("frames_answered", "Frames answered by the trigger in time."),
    "nanet_frames_late": ("frames_late", "Frames answered header-only, at the deadline or without buffer."),
    "nanet_frames_incomplete": ("frames_incomplete", "Frames closed with a board missing."),
    "nanet_frames_skipped": ("frames_skipped", "Frames in a confirmed gap, without answer."),
    "nanet_frames_overrun": ("frames_overrun", "Frames without a free buffer."),
    "nanet_duplicate_hits": ("duplicate_hits", "Hits dropped as duplicates of a PM in a fragment."),
    "nanet_split_events": ("split_at_frame_edge", "Events split by the edge between two frames."),
    "nanet_masked_hits": ("masked_hits", "Hits of masked photomultipliers, dropped."),
    "nanet_bursts": ("bursts", "Bursts begun."),
    "nanet_send_errors": ("send_errors", "Datagrams that the network refused."),
    "nanet_account_violations": ("account_violations", "Failed checks of the account during the run."),
}  # fmt: skip
WITHHELD = ("below_min_hits", "mtp_overflow", "in_late_frames")
BY_NAME = {
    "nanet_packets_lost": ("lost", "Valid packets that were not used, by reason."),
    "nanet_packets_bad": ("bad_packets", "Malformed packets, by reason."),
    "nanet_packets_foreign": ("not_mgp", "Packets other than UDP to the MGP port, by reason."),
}
STATES = ("ready", "waiting", "burst", "draining", "stopped")  # counters of the core's trigger
BALANCE = "missing"  # term of `lost`: it decreases when a missing packet arrives late, so it is a gauge


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
        for name, (key, text) in COUNTERS.items():
            yield CounterMetricFamily(name, text, float(s[key]))
        withheld = CounterMetricFamily(
            "nanet_primitives_withheld", "Events without a primitive sent, by reason.", labels=["reason"]
        )
        for key in WITHHELD:
            withheld.add_metric([key], float(s[key]))
        for kind, value in s["downscaled"].items():
            withheld.add_metric([f"downscaled_{kind}"], float(value))
        yield withheld
        for name, (key, text) in BY_NAME.items():
            family = CounterMetricFamily(name, text, labels=["reason"])
            for reason, value in s[key].items():
                if reason != BALANCE:
                    family.add_metric([reason], float(value))
            yield family
        yield from self._run(s)
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
        if recorded := s.get("recorded"):
            kept = CounterMetricFamily(
                "nanet_packets_recorded", "Packets of the recorder, by outcome.", labels=["outcome"]
            )
            for outcome in ("packets", "bad_packets", "ring_full", "write_failed"):
                kept.add_metric([outcome], float(recorded[outcome]))
            yield kept

    def _gauges(self, s: dict[str, Any]) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "nanet_packets_missing",
            "Missing sequence numbers, running balance.",
            float(s["lost"][BALANCE]),
        )
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
            "nanet_elapsed_seconds", "Time since the trigger started.", float(s["elapsed_s"])
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
