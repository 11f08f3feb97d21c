# SPDX-License-Identifier: Apache-2.0
"""Tables of the trigger: rings, round trip, rates, loopback, replay, bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from results.markdown import NONE, fixed, number, rate, sources, table
from results.measurements import ALGORITHMS, Bench, Measurement, isolated, newest_quality


def rings(measurements: Sequence[Measurement]) -> str:
    """Quality and speed of every algorithm."""
    quality, speed = newest_quality(measurements), Bench(measurements, "rings")
    names = [*ALGORITHMS, "oracle"]
    cpus = sorted({m["machine"] for m in speed.all if "math_cpu_frame_us" in m["figures"]})
    gpus = sorted({m["machine"] for m in speed.all if any("_cuda_events_per_s" in k for k in m["figures"])})
    head = [
        "algorithm",
        *(f"efficiency {k}" for k in range(1, 5)),
        "fakes",
        *(f"count {k}" for k in range(1, 4)),
        "σ(R) mm",
        "÷ bound",
    ]
    head += [text for c in cpus for text in (f"{c}: one core", f"{c}: frame µs")]
    head += [text for g in gpus for text in (f"{g}: events/s", f"{g}: streaming", f"{g}: frame µs")]
    rows = []
    for name in names:
        part = isolated(quality, name)
        row = [f"`{name}`" if name in ALGORITHMS else f"*{name}*"]
        row += [fixed(3)(part["efficiency"][str(k)]) for k in range(1, 5)]
        row += [fixed(3)(part["fakes_per_event"])]
        row += [
            fixed(3)(part["ring_count_accuracy"][str(k)]) if name in ALGORITHMS else NONE for k in range(1, 4)
        ]
        row += [fixed(2)(part["sigma_r_mm"]), fixed(2)(part["sigma_r_mm"] / part["crlb_sigma_r_mm"])]
        for cpu in cpus:
            row += [
                rate(speed.figure(f"{name}_cpu_events_per_s_per_core", cpu)),
                number(speed.figure(f"{name}_cpu_frame_us", cpu)),
            ]
        for gpu in gpus:
            row += [
                rate(speed.figure(f"{name}_cuda_events_per_s", gpu)),
                rate(speed.figure(f"{name}_cuda_streaming_events_per_s", gpu)),
            ]
            row += [number(speed.figure(f"{name}_frame_us", gpu))]
        rows.append(row)
    text = (
        "Isolated events of the standard mix; definitions: [quality](quality.md#definitions). "
        "`efficiency k`, `count k`: events with k "
        "true rings. `one core`, `events/s`: batches; `frame`: 64 events ([bench "
        "rings](benchmarks.md#rings)). The oracle fits the "
        "true hits of each ring.\n\n"
    )
    return text + table(head, rows) + sources([quality, *speed.all])


PERCENTILES = ("p50", "p99", "p99_9", "p99_99", "p99_999")


WATCHED_S = 0.1  # of a thread, as in nanet.bench.tails
STAGES = ("gather", "queue", "build", "reconstruct", "post", "send")


def _stops(bench: Bench) -> str:
    """Stops of the spinning loop and of the trigger's threads, and the tail over the echo's, of each run."""
    rows = []
    for m in bench.all:
        for row in (row for row in m["rows"] if "stops" in row):
            figures = m["figures"]
            ratios = {
                key.removesuffix("p99_9_over_echo").strip("_"): (value, figures[key.replace("99_9", "99_99")])
                for key, value in figures.items()
                if key.endswith("_p99_9_over_echo")
            }
            rows.append(
                [
                    m["name"].partition("-")[2],
                    row["stops"],
                    *(number(row[f"{p}_us"]) for p in ("p99_9", "p99_99", "longest")),
                    *(number(row[f"over_{limit}us_share"]) for limit in (10, 50, 100)),
                    "; ".join(f"{name} {number(a)} / {number(b)}" for name, (a, b) in ratios.items()),
                ]
            )
        # Of threads that were hardly watched the benchmark has no figures.
        if threads := [row for row in m["rows"] if "polling" in row and row.get("seconds", 1.0) >= WATCHED_S]:
            longest, share = (
                number(max(row[key] for row in threads)) for key in ("longest_us", "over_50us_share")
            )
            rows.append(
                [m["name"].partition("-")[2], "largest of threads", "", "", longest, "", share, "", ""]
            )
    if not rows:
        return ""
    head = ["run", "measured", "99.9 %", "99.99 %", "longest"]
    head += [f"share over {limit} µs" for limit in (10, 50, 100)] + ["99.9 % / 99.99 % over the echo's"]
    return (
        "\nStops of a bare spinning loop in the same run, µs and share of time "
        "([rule](benchmarks.md#stops-and-late-frames)):\n\n" + table(head, rows)
    )


def _by_cause(bench: Bench) -> str:
    """Late frames and losses by cause; empty where no run has them."""
    keys = (
        "late_by_us",
        "late_by_stops",
        "late_by_boards",
        "explained_share",
        "lost_by_us",
        "lost_by_stops",
        "lost_by_boards",
    )
    rows = [
        [m["name"].partition("-")[2], *(number(m["figures"].get(key)) for key in keys)]
        for m in bench.all
        if "late_by_us" in m["figures"]
    ]
    if not rows:
        return ""
    head = [
        "run",
        "late by the trigger",
        "by stops",
        "by the boards",
        "explained share",
        "packets lost by the trigger",
        "by stops",
        "by the boards",
    ]
    return "\nBy [cause](benchmarks.md#stops-and-late-frames):\n\n" + table(head, rows)


def roundtrip(measurements: Sequence[Measurement]) -> str:
    """Round trip of one packet by executor; stages of the median."""
    bench = Bench(measurements, "latency")
    rows, stages = [], []
    for m in bench.all:
        for row in (row for row in m["rows"] if "mode" in row):
            rows.append(
                [
                    row["mode"],
                    m["machine"],
                    number(row["samples"]),
                    *(number(row.get(f"{p}_us")) for p in PERCENTILES),
                ]
            )
            if "stage_gather_p50_us" in row:
                stages.append(
                    [
                        row["mode"],
                        m["name"].partition("-")[2],
                        *(number(row.get(f"stage_{s}_p50_us")) for s in STAGES),
                    ]
                )
    return (
        "One packet in flight: 16 events in 1168 B, `math`, µs. `echo`: bare UDP echo; `cpu`, "
        "`launch`, `persistent`: executors of the "
        "trigger.\n\n"
        + table(
            ["mode", "machine", "round trips", *(p[1:].replace("_", ".") + " %" for p in PERCENTILES)], rows
        )
        + "\nMedian of each stage in the trigger, µs:\n\n"
        + table(["mode", "run", *STAGES], stages)
        + _stops(bench)
        + sources(bench.all)
    )


def stack(measurements: Sequence[Measurement]) -> str:
    """Round trips of the network stacks, with the published measurement, and the receive cost."""
    bench = Bench(measurements, "stack")
    columns = ("p50", "p99", "p99_9", "p99_99", "max")
    rows = []
    costs: dict[tuple[str, ...], list[list[float]]] = {}
    for m in bench.all:
        for row in m["rows"]:
            if "path" in row:
                about = [row["program"], row["path"], f"{row['scheduler']}, {row['load']}", m["machine"]]
                rows.append([*about, *(number(row[f"{p}_us"]) for p in columns)])
            else:
                about = (row["receiver"].replace("_", " "), row["frames"], m["machine"])
                costs.setdefault(about, []).append([row[f"{p}_us"] for p in ("kernel", "program", "cpu")])
        figures = m["figures"]
        rows.append(
            ["sockperf, half a round trip", "standard stack, GbE", "normal, idle", "published"]
            + [number(figures[f"published_{p}_us"]) for p in columns]
        )
    ratios = "; ".join(
        f"{m['machine']}: {fixed(2)(m['figures']['xdp_over_socket_cpu'])} with frames as from a NIC, "
        f"{fixed(2)(m['figures']['xdp_over_socket_cpu_veth'])} with packets of a kernel socket"
        for m in bench.all
    )
    return (
        "Between two network namespaces, one packet of 1168 B in flight, µs. The papers show their real-time "
        "kernel, PF_RING and NaNet as curves without numbers.\n\n"
        + table(
            ["program", "path", "scheduler, load", "machine"]
            + [p.replace("p", "", 1).replace("_", ".") + " %" if p != "max" else p for p in columns],
            rows,
        )
        + "\nCPU time of a received packet, µs, medians:\n\n"
        + table(
            ["receiver", "frames", "machine", "kernel", "program", "sum"],
            [
                [*about, *(fixed(2)(median(of)) for of in zip(*runs, strict=True))]
                for about, runs in costs.items()
            ],
        )
        + f"\nMedian of the XDP card over the socket card: {ratios}.\n"
        + sources(bench.all)
    )


def chain(measurements: Sequence[Measurement]) -> str:
    """Four boards at a fixed rate."""
    bench = Bench(measurements, "trigger")
    rows, stages = [], []
    for m in bench.all:
        f, about = m["figures"], next((row for row in m["rows"] if "algorithm" in row), {})
        rows.append(
            [
                m["name"].partition("-")[2],
                about.get("algorithm", NONE),
                rate(f["rate"]),
                *(number(f.get(f"last_{p}_us")) for p in ("p50", "p99", "p99_9", "p99_99")),
                number(f["events"]),
                f"{f['lost']:.0f} of {number(about.get('packets_in'))}",
                f"{f['late']:.0f}",
            ]
        )
        times = {
            row["latency"].removeprefix("trigger "): row
            for row in m["rows"]
            if str(row.get("latency", "")).startswith("trigger ")
        }
        if times:
            stages.append(
                [
                    m["name"].partition("-")[2],
                    *(
                        f"{number(times[s]['p50'])} / {number(times[s]['p99_99'])}" if s in times else NONE
                        for s in STAGES
                    ),
                ]
            )
    return (
        "Four emulated boards; µs from the last packet of a frame to the arrival of its "
        "primitives. Deadline 1 ms.\n\n"
        + table(
            [
                "run",
                "algorithm",
                "rate, events/s",
                "50 %",
                "99 %",
                "99.9 %",
                "99.99 %",
                "events",
                "packets lost",
                "frames late",
            ],
            rows,
        )
        + _by_cause(bench)
        + "\nStages, 50 % / 99.99 %, µs:\n\n"
        + table(["run", *STAGES], stages)
        + _stops(bench)
        + sources(bench.all)
    )


def largest_rate(measurements: Sequence[Measurement]) -> str:
    """Rates that were tried, with their losses."""
    bench = Bench(measurements, "rate")
    rows = [
        [m["machine"], rate(row["events_per_s"]), number(row["seconds"]), row["losses"]]
        for m in bench.all
        for row in m["rows"]
    ]
    return (
        "Runs of the search for the largest lossless rate, GPU, `math`.\n\n"
        + table(["machine", "events/s", "seconds", "losses"], rows)
        + sources(bench.all)
    )


def _by_figure(
    bench: Bench, keys: Sequence[tuple[str, str]], shown: Callable[[float | None], str] = number
) -> str:
    """A row per figure (key, title), a column per measurement, and their sources."""
    rows = [[title, *(shown(m["figures"].get(key)) for m in bench.all)] for key, title in keys]
    return table(["figure", *(m["name"].partition("-")[2] for m in bench.all)], rows) + sources(bench.all)


def overload(measurements: Sequence[Measurement]) -> str:
    """Shares answered in time above the capacity, header-only answers, recovery."""
    bench = Bench(measurements, "overload")
    keys = (
        ("capacity_frames_per_s", "capacity, frames/s"),
        ("answered_share_at_1_5", "answered at 1.5 × capacity, share of it"),
        ("answered_share_at_2", "answered at 2 × capacity, share of it"),
        ("header_only_p99_after_deadline_ms", "header-only answers after the deadline, 99 %, ms"),
        ("recovery_load_ms", "recovery after the load fell, ms"),
        ("recovery_stop_ms", "recovery after a stop of 0.5 s, ms"),
    )
    return (
        "Four boards, trigger and receiver on one host, `multiring`, deadline 50 ms. "
        "Capacity: largest rate without losses in runs of two seconds.\n\n" + _by_figure(bench, keys)
    )


FINAL = (
    ("events_per_s", "events/s"),
    ("triggers", "triggers"),
    ("triggers_in_time_share", "answered in time, share of triggers × boards"),
    ("events_complete", "events complete"),
    ("events_incomplete", "events incomplete"),
    ("events_twice", "events twice"),
    ("late", "triggers late"),
    ("slack_p50_us", "slack, 50 %, µs"),
    ("slack_p0_1_us", "slack, 0.1 %, µs"),
    ("total_p99_us", "trigger: first packet to answer, 99 %, µs"),
    ("frames_late", "trigger: frames late"),
)


def final(measurements: Sequence[Measurement]) -> str:
    """Closed loop of the final trigger."""
    bench = Bench(measurements, "demo")
    return (
        "The [loop](ttc.md#software-loop) closed at the detector's rate, L 1 ms. Boards, trigger, farm and "
        "view share 16 cores; late triggers met a thread that waited for a core.\n\n"
        + _by_figure(bench, FINAL)
    )


LOOPBACK = (
    ("lossless_events_per_s_packed", "lossless, packed packets, events/s"),
    ("lossless_events_per_s_padded", "lossless, padded trains, events/s"),
    ("packets_per_cpu_s_single", "nanet card, single datagrams, packets per CPU second"),
    ("recvmmsg_packets_per_cpu_s_single", "bare recvmmsg, single datagrams"),
    ("packets_per_cpu_s", "nanet card, trains"),
    ("recvmmsg_packets_per_cpu_s", "bare recvmmsg, trains"),
    ("recvmmsg_gro_packets_per_cpu_s", "bare recvmmsg with UDP_GRO, trains"),
    ("spead2_packets_per_cpu_s", "spead2, own sender"),
)


def loopback(measurements: Sequence[Measurement]) -> str:
    """Lossless rate of the chain on one host, and cost of a packet."""
    bench = Bench(measurements, "loopback")
    return (
        "Boards, trigger and L0TP on one host, CPU, `math`; lossless as "
        "[defined](benchmarks.md#definitions).\n\n" + _by_figure(bench, LOOPBACK, rate)
    )


SPARE = 1.25  # rate of a farm relative to what it must carry
FARM_RATES = (10e6, 20e6, 40e6)  # events/s


def farm(measurements: Sequence[Measurement]) -> str:
    """Number of nodes for a rate, from the largest rate of one node below which no run lost anything."""
    rates = [
        (m["name"], "CPU, boards and L0TP on the same host", m["figures"].get("lossless_events_per_s_packed"))
        for m in Bench(measurements, "loopback").all
    ]
    for m in Bench(measurements, "rate").all:
        lossy = min(row["events_per_s"] for row in m["rows"] if row["losses"] != "none")
        held = [row["events_per_s"] for row in m["rows"] if row["events_per_s"] < lossy]
        rates.append((m["name"], "GPU", max(held, default=None)))
    rows = [
        [f"`{name}`", what, rate(value), *(str(math.ceil(SPARE * wanted / value)) for wanted in FARM_RATES)]
        for name, what, value in rates
        if value
    ]
    return (
        "Nodes for a rate of events, from the largest lossless rate of one node, `math`, with a quarter to "
        "spare ([several nodes](deploying.md#several-nodes)).\n\n"
        + table(["file", "conditions", "events/s per node", *(f"{r / 1e6:g} MHz" for r in FARM_RATES)], rows)
    )


def cluster(measurements: Sequence[Measurement]) -> str:
    """Two worker processes against one."""
    bench = Bench(measurements, "cluster")
    rows = []
    for m in bench.all:
        figures = m["figures"]
        both = (number(figures[f"two_workers_over_one{kind}"]) for kind in ("", "_cpu"))
        rows.append([m["machine"], *both, number(figures["foreign_cpus"])])
    head = ["machine", "speed-up", "by CPU time", "CPUs of other programs"]
    return (
        "Captures through worker processes of Dask, one and two in turns: median of the pairs with the "
        "least other load.\n\n" + table(head, rows) + sources(bench.all)
    )


def detectors(measurements: Sequence[Measurement]) -> str:
    """Detectors from files and rings of plain arrays."""
    bench = Bench(measurements, "detector")
    keys = ("file_over_builtin", "arrays_over_bare", "arrays_over_bare_batches")
    rows = [[m["machine"], *(number(m["figures"][key]) for key in keys)] for m in bench.all]
    return (
        "CPU time with NA62's detector from its file over that of the compiled one; of plain arrays over "
        "that of the bare algorithm, one call and batches.\n\n"
        + table(["machine", "file over compiled", "arrays over one call", "over batches"], rows)
        + sources(bench.all)
    )


def faults(measurements: Sequence[Measurement]) -> str:
    """Campaign of faults."""
    bench = Bench(measurements, "faults")
    rows = [
        [row["fault"], m["machine"], str(row["lost_beyond"]), number(row["recovery_ms"])]
        for m in bench.all
        for row in m["rows"]
        if "not_run" not in row
    ]
    head = ["fault", "machine", "frames lost beyond it", "recovery ms"]
    return "Faults of the chain, one by one.\n\n" + table(head, rows) + sources(bench.all)


def replay(measurements: Sequence[Measurement]) -> str:
    """Rate of one core from memory."""
    bench = Bench(measurements, "replay")
    rows = [
        [
            row["traffic"],
            f"`{row['algorithm']}`",
            m["machine"],
            number(row.get("hits_per_event")),
            rate(row["events_per_s"]),
            rate(row.get("bytes_per_s")),
            rate(row.get("memcpy_bytes_per_s")),
            number(row.get("build_us_per_frame_p50")),
            number(row.get("reconstruct_us_per_frame_p50")),
        ]
        for m in bench.all
        for row in m["rows"]
    ]
    head = [
        "traffic",
        "algorithm",
        "machine",
        "hits per event",
        "events/s",
        "B/s",
        "memcpy B/s",
        "build, µs per frame",
        "reconstruct",
    ]
    return (
        "One core, from memory: parse, validate, merge, reconstruct, encode.\n\n"
        + table(head, rows)
        + sources(bench.all)
    )


def other(measurements: Sequence[Measurement]) -> str:
    """Historic curve: throughput against payloads per buffer."""
    bench = Bench(measurements, "bandwidth")
    chosen = [m for m in bench.all if "bytes_per_s_max" in m["figures"]]
    rows = [
        [m["machine"], rate(m["figures"]["bytes_per_s_max"]), number(m["figures"].get("p1_1472_p50_us"))]
        for m in chosen
    ]
    return (
        "P payloads of 1472 B per buffer, data checked.\n\n"
        + table(["machine", "best, B/s", "latency for P = 1, µs"], rows)
        + sources(chosen)
    )
