# SPDX-License-Identifier: Apache-2.0
"""The trigger's counters as Prometheus metrics; docs/monitor.md says what each one is."""

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
    "nanet_packets": ("packets_in", "UDP datagrams that came to the MGP port."),
    "nanet_packets_used": ("packets_used", "Packets whose payload was placed in a buffer."),
    "nanet_burst_markers": ("burst_markers", "Start and end of burst packets that were taken."),
    "nanet_received_bytes": ("bytes_in", "Bytes of all datagrams that came in."),
    "nanet_fragments": ("events_in", "Boards' parts of events in the packets used."),
    "nanet_hits": ("hits_in", "Hits in the packets used."),
    "nanet_events": ("events_built", "Events built of fragments."),
    "nanet_rings": ("rings", "Rings found."),
    "nanet_primitives": ("primitives_out", "Primitives that left in time."),
    "nanet_frames": ("frames_in", "Frames owed to the L0 trigger processor."),
    "nanet_frames_answered": ("frames_answered", "Frames answered by the trigger in time."),
    "nanet_frames_late": ("frames_late", "Frames answered header-only, at the deadline or without buffer."),
    "nanet_frames_incomplete": ("frames_incomplete", "Frames closed with a board missing."),
    "nanet_frames_skipped": ("frames_skipped", "Frames in a confirmed gap, owed by nobody."),
    "nanet_frames_overrun": ("frames_overrun", "Frames that found no free buffer."),
    "nanet_duplicate_hits": ("duplicate_hits", "Hits dropped because the PM came twice in a fragment."),
    "nanet_split_events": ("split_at_frame_edge", "Events split by the edge between two frames."),
    "nanet_masked_hits": ("masked_hits", "Hits of masked photomultipliers, dropped."),
    "nanet_bursts": ("bursts", "Bursts begun."),
    "nanet_send_errors": ("send_errors", "Datagrams that the network refused."),
    "nanet_account_violations": ("account_violations", "Checks of the account that failed while running."),
}  # fmt: skip
WITHHELD = ("below_min_hits", "mtp_overflow", "in_late_frames")
BY_NAME = {
    "nanet_packets_lost": ("lost", "Sound packets that could not be used, by reason."),
    "nanet_packets_bad": ("bad_packets", "Malformed packets, by reason."),
    "nanet_packets_foreign": ("not_mgp", "Packets that are no UDP to the MGP port, by reason."),
}
STATES = ("ready", "waiting", "burst", "draining", "stopped")  # of the core's trigger
BALANCE = "missing"  # of `lost`: it falls again when a packet comes after all, so it is no counter


class TriggerCollector(Collector):
    """Collects from the newest numbers at each scrape."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.watchers = 0

    def collect(self) -> Iterator[Metric]:
        """All families; before the trigger's first word only those of the monitor itself."""
        state, s = self.state, self.state.snapshot
        ok, _ = state.health()
        yield GaugeMetricFamily("nanet_up", "Whether the trigger works: as /health says.", float(ok))
        yield GaugeMetricFamily("nanet_monitor_watchers", "Pages that are open.", float(self.watchers))
        if not s:
            return
        yield InfoMetricFamily(
            "nanet_build", "Version of nanet.", {"version": str(state.about.get("version", ""))}
        )
        yield InfoMetricFamily(
            "nanet_configuration", "What the trigger runs with.",
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
        run = GaugeMetricFamily("nanet_run_state", "Where the run is: 1 for that state.", labels=["state"])
        for name in STATES:
            run.add_metric([name], float(name == s["state"]))
        yield run
        newest = GaugeMetricFamily("nanet_burst", "Number of the newest burst, wraps counted.")
        if s["burst"] is not None:
            newest.add_metric([], float(s["burst"]))
        yield newest
        choke = s["choke"]
        yield GaugeMetricFamily("nanet_choke", "Whether choke is raised.", float(choke["on"]))
        yield CounterMetricFamily("nanet_choke_raised", "How often choke was raised.", float(choke["raised"]))
        yield CounterMetricFamily(
            "nanet_choke_seconds", "How long choke has been raised in all.", float(choke["seconds"])
        )
        yield GaugeMetricFamily("nanet_buffer_fill_ratio", "Share of the buffers in use.", choke["fill"])
        if "gpu_faults" in s:
            yield CounterMetricFamily("nanet_gpu_faults", "How often a GPU was lost.", s["gpu_faults"])
            yield CounterMetricFamily(
                "nanet_gpu_recoveries", "How often a lost GPU came back.", s["gpu_recoveries"]
            )
            yield GaugeMetricFamily("nanet_gpu_lost", "Whether the CPU stands in for a GPU.", s["gpu_lost"])
            yield CounterMetricFamily(
                "nanet_gpu_fallback_seconds", "How long the CPU has stood in for a GPU in all.", s["gpu_fallback_s"]
            )
        if conditions := s.get("conditions"):
            yield InfoMetricFamily(
                "nanet_conditions", "Masks and time offsets in effect.", {"name": str(conditions["name"])}
            )
            yield GaugeMetricFamily(
                "nanet_channels_masked", "Photomultipliers masked.", float(conditions["masked"])
            )
            yield CounterMetricFamily(
                "nanet_conditions_changes", "How often other conditions took effect.",
                float(conditions["changes"]),
            )  # fmt: skip
            yield CounterMetricFamily(
                "nanet_conditions_refused", "Changed files of conditions that could not be taken.",
                float(conditions.get("refused", 0)),
            )  # fmt: skip
        if recorded := s.get("recorded"):
            kept = CounterMetricFamily(
                "nanet_packets_recorded", "Packets by what recording did with them.", labels=["outcome"]
            )
            for outcome in ("packets", "bad_packets", "ring_full", "write_failed"):
                kept.add_metric([outcome], float(recorded[outcome]))
            yield kept

    def _gauges(self, s: dict[str, Any]) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "nanet_packets_missing",
            "Sequence numbers that never came, a running balance.",
            float(s["lost"][BALANCE]),
        )
        yield GaugeMetricFamily(
            "nanet_deadline_seconds",
            "Answer due so long after a frame's first packet.",
            s["deadline_us"] * 1e-6,
        )
        yield GaugeMetricFamily(
            "nanet_frame_timeout_seconds",
            "A frame closes so long after its first packet.",
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
            "nanet_board_sends", "Whether a board's hits came in the last second.", labels=["board"]
        )
        for board in state.boards:
            boards.add_metric([str(board["board"])], float(board["hits"]))
            sends.add_metric([str(board["board"])], float(board["state"] == "sends"))
        yield boards
        yield sends
        channels = GaugeMetricFamily(
            "nanet_channels",
            "Photomultipliers that are masked, or dead or hot by their neighbours.",
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
