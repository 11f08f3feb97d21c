# SPDX-License-Identifier: Apache-2.0
"""Torus: puts by kernels, saturation and speed of the model, messages of the fabric."""

from __future__ import annotations

from collections.abc import Sequence

from results.markdown import fixed, number, rate, sources, table
from results.measurements import Bench, Measurement


def torus(measurements: Sequence[Measurement]) -> str:
    """Puts by kernels; the model's saturation against the simulated routers; the fabric's messages."""
    parts = [puts(measurements), model(measurements), messages(measurements)]
    return "\n".join(part for part in parts if part)


def puts(measurements: Sequence[Measurement]) -> str:
    """Half round trips and bandwidth of puts by kernels."""
    bench = Bench(measurements, "rdma")
    trips, streams = [], []
    for m in bench.all:
        for row in m["rows"]:
            if "path" in row:
                times = (number(row[key]) for key in ("half_round_trip_us", "p99_us"))
                trips.append([row["path"], m["machine"], number(row["bytes"]), *times])
            elif "published" in row:
                trips.append([row["published"], "published", "", number(row["half_round_trip_us"]), ""])
            elif "put_bytes" in row:
                speeds = (rate(row[key]) for key in ("put_bytes_per_s", "copy_bytes_per_s"))
                by = "copy engine" if row["by_copy_engine"] else "threads"
                streams.append(
                    [
                        f"{row['put_bytes'] // 1024}",
                        m["machine"],
                        by,
                        *speeds,
                        fixed(2)(row["share"]),
                    ]
                )
    places = "; ".join(
        f"{m['machine']}: {row['between']}" for m in bench.all for row in m["rows"] if "between" in row
    )
    return (
        f"[Puts by kernels](torus.md#puts-by-kernels), emulated cards ({places}), half a round trip; "
        "G: GPU memory, H: host memory, staged: through host memory:\n\n"
        + table(["path", "machine", "B", "µs", "99 %, µs"], trips)
        + "\nPuts of one kernel beside the GPU's copy engine, B/s:\n\n"
        + table(["KiB of a put", "machine", "moved by", "puts", "copies", "share"], streams)
        + sources(bench.all)
    )


def model(measurements: Sequence[Measurement]) -> str:
    """Largest accepted load of the torus model, and its distance from the simulated routers."""
    bench = Bench(measurements, "torus")
    if not bench.all:
        return ""
    loads: dict[tuple[str, ...], float] = {}
    for m in bench.all:
        for row in m["rows"]:
            if row.get("measured") == "saturation":
                key = (row["size"], row["vc_rule"], row["injection"], m["machine"])
                loads[key] = max(loads.get(key, 0.0), row["accepted"])
    figures = [
        [name, m["machine"], form(m["figures"].get(key))]
        for m in bench.all
        for key, name, form in (
            ("model_events_per_s", "model, events/s", rate),
            ("model_nodes", "largest model, nodes", number),
            ("hop_cycles", "router, cycles", number),
            ("payload_efficiency", "payload efficiency", number),
            ("model_throughput_error", "model - RTL, throughput", number),
            ("model_latency_error", "model - RTL, latency", number),
        )
    ]
    return (
        "Largest accepted load, uniform traffic, [model](torus.md):\n\n"
        + table(
            ["nodes", "virtual channels", "injection", "machine", "accepted"],
            [[*key, fixed(3)(load)] for key, load in loads.items()],
        )
        + "\n"
        + table(["figure", "machine", "value"], figures)
        + sources(bench.all)
    )


def messages(measurements: Sequence[Measurement]) -> str:
    """Messages of the libfabric provider beside libfabric's own providers."""
    bench = Bench(measurements, "fabric")
    if not bench.all:
        return ""
    rows = [
        [row["provider"], m["machine"], number(row["half_round_trip_us"]),
         rate(row["bandwidth_bytes_per_s"]), rate(row["messages_per_s"])]
        for m in bench.all for row in m["rows"]
    ]  # fmt: skip
    return (
        "[Fabric](fabric.md):\n\n"
        + table(["provider", "machine", "half trip, µs", "B/s", "messages/s"], rows)
        + sources(bench.all)
    )
