# SPDX-License-Identifier: Apache-2.0
"""Page generator: results/*.json to docs/results.md and the table of README.md; gateware/doc/modules.md.

    ./dev results                       # regenerates all
    ./dev results --check               # exit status 1 if they are out of date
    ./dev results --add FILE MACHINE    # copies a bench output into results/ first
                  [--label LABEL]

File names: BENCH-MACHINE[-LABEL].json, for example trigger-H200-60s.json. BENCH is the name of the
measurement (`nanet bench NAME --json FILE`, `nanet quality --json FILE`), MACHINE a key of
results/machines.json, LABEL separates several runs. A new measurement replaces the file of the same name, or
stands beside it under a label. README.md takes the round trip from latency-H200c.json and the rates from
rings-A.json and rings-H200.json (constants below). results/targets.json names the file of each target.

Keys of every file: `bench`, `command`, `date`, `commit`, `rows`, `figures`. Files with `transcribed_from`
hold figures copied from a page of the history; that key names page and commit. A missing figure is a dash.
gateware/syn/results.md, which ./dev synth writes, is the source of the synthesis summary.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import module_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
SYNTHESIS = ROOT / "gateware" / "syn" / "results.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
README_CPU, README_GPU, README_TRIP = "A", "H200", "H200c"  # machines of the README's tables
ALGORITHMS = ("math", "tripl", "hough", "pomh", "domh", "almagest", "multiring")
NONE = "–"
Measurement = dict[str, Any]


# ------------------------------------------------------------------------------------------------ files


def load(folder: Path = RESULTS) -> list[Measurement]:
    """All measurements, with `name`, `machine`, `label` from the file name. ValueError: a key is missing."""
    machines = json.loads((folder / "machines.json").read_text(encoding="utf-8"))
    found = []
    for path in sorted(folder.glob("*-*.json")):
        measurement = json.loads(path.read_text(encoding="utf-8"))
        bench, machine, *label = path.stem.split("-", 2)
        for key in ("bench", "command", "date", "commit"):
            if not measurement.get(key):
                raise ValueError(f"{path}: key {key!r} is missing")
        if measurement["bench"] != bench:
            raise ValueError(
                f"{path}: holds bench {measurement['bench']!r}: rename it to BENCH-MACHINE[-LABEL].json"
            )
        if machine not in machines:
            raise ValueError(f"{path}: machine {machine!r} is not in machines.json: describe it there")
        found.append(
            {
                "rows": [],
                "figures": {},
                **measurement,
                "name": path.stem,
                "machine": machine,
                "label": "".join(label),
            }
        )
    return found


def add(path: Path, machine: str, label: str) -> Path:
    """Copies a bench output into results/, without curves and distributions, which the page does not show."""
    measurement = json.loads(path.read_text(encoding="utf-8"))
    if measurement.get("partial"):
        raise SystemExit(f"{path}: incomplete ({measurement.get('trouble', 'stopped')}): measure again")
    measurement["command"] = re.sub(r" --(json|plots|out)[ =]\S+", "", measurement.get("command", ""))
    for row in measurement.get("rows", []):
        row.pop("distribution_us", None)
    for row in measurement.get("algorithms", {}).values():
        row.pop("curves", None)
        row.pop("noise", None)
    if "algorithms" in measurement:
        measurement.setdefault("bench", "quality")
    target = RESULTS / ("-".join(filter(None, (measurement["bench"], machine, label))) + ".json")
    target.write_text(json.dumps(measurement, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


# ---------------------------------------------------------------------------------------------- numbers


def number(value: Any, digits: int = 3) -> str:
    """A number with `digits` significant digits; text as it is; a dash for None and NaN."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return NONE
    if value == 0 or (isinstance(value, int) and abs(value) < 10**5):
        return f"{value:g}"
    if abs(value) >= 10**6:
        power = math.floor(math.log10(abs(value)))
        mantissa = f"{value / 10**power:.2f}".rstrip("0").rstrip(".")
        return f"{mantissa} × 10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def rate(value: float | None) -> str:
    """Events per second, with a prefix."""
    if value is None:
        return NONE
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{number(value / size)} {prefix}"
    return number(value)


def fixed(digits: int) -> Callable[[float | None], str]:
    """Formatter with a fixed number of decimals."""
    return lambda value: NONE if value is None or value != value else f"{value:.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown table: the first column left, all others right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("|" + "|".join(cells) + "|" for cells in lines) + "\n"


def sources(measurements: Sequence[Measurement]) -> str:
    """Provenance of a table: file, command, machine, date."""
    lines = []
    for m in measurements:
        source = m["transcribed_from"].replace(" at ", "@") if "transcribed_from" in m else m["commit"]
        lines.append(f"- `{m['name']}`: `{m['command']}`, {m['machine']}, {m['date'][:10]} ({source})")
    return "\n" + "\n".join(lines) + "\n"


class Bench:
    """All measurements of one name."""

    def __init__(self, measurements: Sequence[Measurement], name: str) -> None:
        self.all = [m for m in measurements if m["bench"] == name]

    def figure(self, key: str, machine: str | None = None) -> Any:
        """The newest value of a figure, of one machine or of any; None where there is none."""
        values = [
            (m["date"], m["figures"][key])
            for m in self.all
            if key in m["figures"] and machine in (None, m["machine"])
        ]
        return max(values)[1] if values else None


# ----------------------------------------------------------------------------------------------- topics


def isolated(quality: Measurement, name: str) -> dict[str, Any]:
    """Figures of the isolated events of the standard mix."""
    part: dict[str, Any] = quality["algorithms"][name]["mix"]["isolated"]
    return part


def newest_quality(measurements: Sequence[Measurement]) -> Measurement:
    """The newest `nanet quality` of all algorithms."""
    whole = [m for m in Bench(measurements, "quality").all if set(ALGORITHMS) <= set(m["algorithms"])]
    return max(whole, key=lambda m: m["date"])


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
STAGES = ("gather", "queue", "build", "reconstruct", "post", "send")


def roundtrip(measurements: Sequence[Measurement]) -> str:
    """Round trip of one packet by executor; stages of the median."""
    bench = Bench(measurements, "latency")
    rows, stages = [], []
    for m in bench.all:
        for row in m["rows"]:
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
        "trigger. `graph` was removed after these measurements.\n\n"
        + table(
            ["mode", "machine", "round trips", *(p[1:].replace("_", ".") + " %" for p in PERCENTILES)], rows
        )
        + "\nMedian of each stage in the trigger, µs:\n\n"
        + table(["mode", "run", *STAGES], stages)
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
        "primitives. Deadline 1 ms. Host threads of the virtual "
        "machines pause for up to 2.6 ms; these pauses cause the late frames.\n\n"
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
        + "\nStages, 50 % / 99.99 %, µs:\n\n"
        + table(["run", *STAGES], stages)
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
    rows = [[title, *(rate(m["figures"].get(key)) for m in bench.all)] for key, title in LOOPBACK]
    return (
        "Boards, trigger and L0TP on one host, CPU, `math`; lossless as "
        "[defined](benchmarks.md#definitions).\n\n"
        + table(["figure", *(m["name"].partition("-")[2] for m in bench.all)], rows)
        + sources(bench.all)
    )


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


def gpu(measurements: Sequence[Measurement]) -> str:
    """Kernel times, copies, agreement with the CPU, recovery."""
    kernel, answers, buffers, recovery = (
        Bench(measurements, name) for name in ("kernel", "answers", "bandwidth", "recovery")
    )
    frames = [
        [
            f"`{row['algorithm']}`",
            m["machine"],
            number(row["events"]),
            *(number(row[f"{s}_p50_us"]) for s in ("build", "reconstruct", "post")),
        ]
        for m in kernel.all
        for row in m["rows"]
    ]
    whole = [
        [f"`{name}`", *(number(m["figures"].get(f"{name}_frame_us")) for m in kernel.all)]
        for name in ALGORITHMS
        if any(f"{name}_frame_us" in m["figures"] for m in kernel.all)
    ]
    same = [
        [
            f"`{row['algorithm']}`",
            row["executor"],
            m["machine"],
            rate(row["events_per_s"]),
            number(row["different"]),
        ]
        for m in answers.all
        for row in m["rows"]
        if "executor" in row and "events_per_s" in row
    ]
    copies = [
        [
            number(row["events"]),
            row["gpu"],
            m["machine"],
            number(row["p50_us"]),
            number(row["p99_us"]),
            rate(row["events_per_s"]),
        ]
        for m in buffers.all
        for row in m["rows"]
        if "gpu" in row
    ]
    lost = [
        [row["case"], m["machine"], number(row["gpu_fallback_s"])] for m in recovery.all for row in m["rows"]
    ]
    return (
        "Stages of one frame in the resident kernel, medians, µs:\n\n"
        + table(["algorithm", "machine", "events", "build", "reconstruct", "post"], frames)
        + "\nA frame of 64 events, build to post, µs:\n\n"
        + table(["algorithm", *(m["machine"] for m in kernel.all)], whole)
        + "\nOne capture of 10 M events through every executor: rate from a file, primitives that "
        "differ from the CPU's:\n\n"
        + table(["algorithm", "executor", "machine", "events/s", "different"], same)
        + "\nBuffers copied in, fitted by `math`, copied out, µs:\n\n"
        + table(["events", "mode", "machine", "50 %", "99 %", "events/s"], copies)
        + "\nRecovery of a lost GPU, with a pause of 0.2 s before the restart:\n\n"
        + table(["case", "machine", "CPU only, s"], lost)
        + sources(
            [
                *kernel.all,
                *answers.all,
                *(m for m in buffers.all if any("gpu" in r for r in m["rows"])),
                *recovery.all,
            ]
        )
    )


def watching(measurements: Sequence[Measurement]) -> str:
    """Cost of the monitor, memory over time, recording."""
    monitor, soak, record = (Bench(measurements, name) for name in ("monitor", "soak", "record"))
    pairs = [
        [
            row["load"],
            m["machine"],
            number(row["pair"]),
            row["monitor"],
            *(number(row[f"{p}_us"]) for p in ("p50", "p99", "p99_9")),
        ]
        for m in monitor.all
        for row in m["rows"]
    ]
    memory = (
        ("events", "events"),
        ("frames", "frames"),
        ("late", "frames late"),
        ("lost", "packets lost"),
        ("last_p50_us", "latency 50 %, µs"),
        ("trigger_early_kB", "trigger, early, kB"),
        ("trigger_late_kB", "trigger, late, kB"),
        ("monitor_early_kB", "monitor, early, kB"),
        ("monitor_late_kB", "monitor, late, kB"),
        ("updates_per_s", "page updates per s"),
        ("garbage_requests", "garbage requests"),
        ("slow_clients", "slow clients"),
    )
    crowd = [[title, *(number(figure_or_last(m, key)) for m in soak.all)] for key, title in memory]
    kept = [
        [
            row["recorded_to"],
            m["name"].partition("-")[2],
            number(row["MB_per_s"]),
            number(row["not_written"]),
            *(number(row.get(f"{p}_us")) for p in ("p50", "p99", "p99_9")),
            number(row["late"]),
        ]
        for m in record.all
        for row in m["rows"]
    ]
    return (
        "Latency with the monitor on and off in turns; `packets`: one in flight, `chain`: four "
        "boards at 10 MHz, µs:\n\n"
        + table(["load", "machine", "pair", "monitor", "50 %", "99 %", "99.9 %"], pairs)
        + "\nTrigger and monitor with 1000 idle clients, clients that never read, and garbage requests:\n\n"
        + table(["figure", *(m["machine"] for m in soak.all)], crowd)
        + "\nRecording at 10 MHz, latency in the trigger, µs:\n\n"
        + table(
            ["recorded to", "run", "MB/s", "packets not written", "50 %", "99 %", "99.9 %", "frames late"],
            kept,
        )
        + sources([*monitor.all, *soak.all, *record.all])
    )


def figure_or_last(m: Measurement, key: str) -> Any:
    """A figure, or the value of the last row, for sums that grow during a run."""
    return m["figures"].get(key, m["rows"][-1].get(key) if m["rows"] else None)


GATEWARE = (
    ("event_cycles_max", "last word of a frame to its event, at most, cycles"),
    ("event_cycles_spread", "spread, cycles"),
    ("tlb_cycles", "end of a packet to its address, cycles"),
    ("by_tlb_us_max", "1472 B, first word to last write, by TLB, µs"),
    ("firmware_us_min", "the same by firmware with the original's times, least, µs"),
    ("firmware_us_max", "the same, most, µs"),
    ("line_rate_lost", "packets lost at line rate, frames of 64 to 9018 B"),
    ("sim_cycles_per_s", "simulated cycles per second of one core"),
)


def synthesis() -> list[list[str]]:
    """Rows of ./dev synth: module, LUT, FF, BRAM, DSP, MHz, target."""
    lines = SYNTHESIS.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in lines]
    return [row for row in rows if len(row) == 7 and row[1].isdigit()]


def megahertz(row: Sequence[str]) -> float:
    """Fmax of a row of synthesis()."""
    return float(row[5].split()[0])


def gateware(measurements: Sequence[Measurement]) -> str:
    """Simulated card: times, line rate; synthesis summary."""
    bench, rows = Bench(measurements, "card"), synthesis()
    whole = [row for row in rows if row[0].startswith("`nanet_card`")]
    parts = sorted((row for row in rows if row not in whole), key=megahertz)
    figures = [
        [
            title,
            *(
                rate(m["figures"].get(key)) if "per_s" in key else number(m["figures"].get(key))
                for m in bench.all
            ),
        ]
        for key, title in GATEWARE
    ]
    lines = [
        [
            row["measured"],
            m["machine"],
            number(row["frame_bytes"]),
            number(row["lost"]),
            number(row["payload_MB_per_s"]),
        ]
        for m in bench.all
        for row in m["rows"]
        if "payload_MB_per_s" in row and row["frame_bytes"] == 1518
    ]
    return (
        "The card in simulation, cycles of 156.25 MHz; the original card needed 7.3 to 8.6 µs for "
        "1472 B (published).\n\n"
        + table(["figure", *(m["machine"] for m in bench.all)], figures)
        + "\nPayload at line rate:\n\n"
        + table(["link", "machine", "frame, B", "lost", "payload, MB/s"], lines)
        + f"\nSynthesis for an ECP5-85 as a proxy device: {len(parts)} modules out of context, the slowest "
        "five, and whole cards between registers and "
        "pins. [All modules](../gateware/syn/results.md).\n\n"
        + table(
            ["module", "LUT", "FF", "BRAM", "MHz", "target MHz"],
            [[*row[:4], row[5], row[6]] for row in [*parts[:5], *whole]],
        )
        + sources(bench.all)
        + "- synthesis: `./dev synth`\n"
    )


def targets(measurements: Sequence[Measurement]) -> str:
    """Targets of the project (results/targets.json) against what was reached."""
    rows = []
    for goal in json.loads((RESULTS / "targets.json").read_text(encoding="utf-8")):
        m = next((m for m in measurements if m["name"] == goal["file"]), None)
        value = reached(m, goal) if m else None
        scaled = value * goal["scale"] if value is not None else None
        met = scaled is not None and (
            scaled <= goal["target"] if goal["sense"] == "<=" else scaled >= goal["target"]
        )
        sense = "≤" if goal["sense"] == "<=" else "≥"
        rows.append(
            [
                goal["figure"],
                f"{sense} {goal['target']:g}",
                number(scaled),
                "yes" if met else "**no**",
                f"`{goal['file']}`",
            ]
        )
    return (
        "Targets set for the project, and what was reached; measured on hosts that are not fit "
        "for real time.\n\n" + table(["figure", "target", "reached", "met", "file"], rows)
    )


def reached(m: Measurement, goal: dict[str, Any]) -> float | None:
    """The figure that a target names: of an algorithm, of the first row that fits, or of `figures`."""
    if goal["bench"] == "quality":
        part: Any = isolated(m, goal["row"]["algorithm"])
        for key in goal["key"].split("."):
            part = part[key]
        return float(part)
    if "row" not in goal:
        return m["figures"].get(goal["key"])
    fits = (row for row in m["rows"] if all(row.get(k) == v for k, v in goal["row"].items()))
    return next((row.get(goal["key"]) for row in fits), None)


def history(measurements: Sequence[Measurement]) -> str:
    """Files with the figures of successive versions."""
    rows = [[m["title"], f"`{m['name']}`", m["date"]] for m in Bench(measurements, "history").all]
    return "Figures of successive versions, and single studies:\n\n" + table(["title", "file", "date"], rows)


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


TOPICS: tuple[tuple[str, Callable[[Sequence[Measurement]], str]], ...] = (
    ("Rings: quality and speed", rings),
    ("Round trip", roundtrip),
    ("Four boards at 10 MHz", chain),
    ("Largest rate", largest_rate),
    ("Loopback", loopback),
    ("Replay", replay),
    ("Bandwidth", other),
    ("GPU", gpu),
    ("Monitor and recording", watching),
    ("Gateware", gateware),
    ("Targets", targets),
    ("Development", history),
)


def page(measurements: Sequence[Measurement]) -> str:
    """docs/results.md."""
    machines = json.loads((RESULTS / "machines.json").read_text(encoding="utf-8"))
    parts = [
        "# Results\n\nGenerated by `./dev results` from `results/*.json`; do not edit. Each list "
        "below a table gives file, command, machine, date, and commit or page@commit of the history. "
        "What the benches measure: [benchmarks](benchmarks.md).\n",
        "## Machines\n\n" + table(["machine", "description"], machines.items()),
    ]
    parts += [f"## {title}\n\n{topic(measurements)}" for title, topic in TOPICS]
    return "\n".join(parts)


# ----------------------------------------------------------------------------------------------- README


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
                rate(speed.figure(f"{name}_cuda_events_per_s", README_GPU)),
            ]
        )
    latency = {
        row["mode"]: row
        for m in Bench(measurements, "latency").all
        if m["machine"] == README_TRIP and not m["label"]
        for row in m["rows"]
    }
    trips = [
        [title, *(f"{number(latency[mode].get(f'{p}_us'))} µs" for p in ("p50", "p99_99"))]
        for mode, title in (("persistent", "GPU, resident kernel"), ("cpu", "CPU"), ("echo", "bare UDP echo"))
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


def with_summary(text: str, block: str) -> str:
    """A page with the block between its markers replaced. ValueError: no markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{README.name} must have the lines {BEGIN} and {END} once")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{block}\n{END}", text, flags=re.S)


def generated() -> dict[Path, str]:
    """Path and text of every generated page."""
    measurements = load()
    return {
        PAGE: page(measurements),
        README: with_summary(README.read_text(encoding="utf-8"), summary(measurements)),
        module_table.PAGE: module_table.page(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Regenerates the pages, or checks them."""
    parser = argparse.ArgumentParser(
        prog="./dev results", description="Generates docs/results.md from results/*.json."
    )
    parser.add_argument(
        "--check", action="store_true", help="only compare; exit status 1 if a page is out of date"
    )
    parser.add_argument(
        "--add", nargs=2, metavar=("FILE", "MACHINE"), help="copy a bench output into results/ first"
    )
    parser.add_argument("--label", default="", help="with --add: part of the file name, for several runs")
    options = parser.parse_args(arguments)
    if options.add:
        print(add(Path(options.add[0]), options.add[1], options.label).relative_to(ROOT))
    stale = [
        path
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} is out of date: run ./dev results", file=sys.stderr)
        else:
            path.write_text(generated()[path], encoding="utf-8")
            print(path.relative_to(ROOT))
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
