# SPDX-License-Identifier: Apache-2.0
"""README block: a row per algorithm, then round trip and gateware."""

from __future__ import annotations

import re
from collections.abc import Sequence

from results.markdown import NONE, fixed, number, rate, table
from results.measurements import ALGORITHMS, ROOT, Bench, Measurement, isolated, newest_quality

README = ROOT / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
TRIPS = (
    ("mailbox_gpu", "GPU, mailbox in GPU memory"),
    ("persistent", "GPU, frames in host memory"),
    ("cpu", "CPU"),
    ("echo", "bare UDP echo"),
)  # mode, title
README_CPU, README_GPU, README_TRIP = "A", "H200", "H200u"  # machines of the tables


def summary(measurements: Sequence[Measurement]) -> str:
    """The README's block: a row per algorithm, then round trip and gateware."""
    quality, speed = newest_quality(measurements), Bench(measurements, "rings")
    rows = []
    for name in ALGORITHMS:
        part = isolated(quality, name)
        rows.append(
            [
                f"`{name}`",
                *(fixed(2)(part["efficiency"][str(k)]) for k in (1, 2, 3)),
                fixed(2)(part["fakes_per_event"]),
                rate(speed.figure(f"{name}_cpu_events_per_s_per_core", README_CPU)),
                rate(_newest(speed, f"{name}_cuda_events_per_s")),
            ]
        )
    latency = {
        row["mode"]: row
        for m in Bench(measurements, "latency").all
        if m["machine"] == README_TRIP and not m["label"]
        for row in m["rows"]
        if "mode" in row
    }
    trips = [
        [title, *(f"{number(latency[mode].get(f'{p}_us'))} µs" for p in ("p50", "p99_99"))]
        for mode, title in TRIPS
        if mode in latency
    ]
    card = Bench(measurements, "card")
    trips.append(
        [
            "gateware (simulated), last word to event",
            f"{number(card.figure('event_cycles_max'))} cycles",
            NONE,
        ]
    )
    return (
        table(
            [
                "algorithm",
                "efficiency, 1 ring",
                "2 rings",
                "3 rings",
                "fakes per event",
                "events/s, one CPU core",
                f"events/s, {README_GPU}",
            ],
            rows,
        )
        + "\n"
        + table(["round trip, 16 events, NVIDIA H200 host", "median", "99.99 %"], trips)
    )


def _newest(bench: Bench, key: str) -> float | None:
    """The newest value of a figure on any host with the README's GPU."""
    hosts = [m for m in bench.all if m["machine"].startswith(README_GPU) and key in m["figures"]]
    return max((m["date"], m["figures"][key]) for m in hosts)[1] if hosts else None


def with_summary(text: str, block: str) -> str:
    """A page with the block between its markers replaced. ValueError: no markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{README.name} must have the lines {BEGIN} and {END} once")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{block}\n{END}", text, flags=re.S)
