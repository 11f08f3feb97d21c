# SPDX-License-Identifier: Apache-2.0
"""Tables of GPU, monitor and gateware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from results.markdown import number, rate, sources, table
from results.measurements import ALGORITHMS, ROOT, Bench, Measurement

SYNTHESIS = ROOT / "gateware" / "syn" / "results.md"


def gpu(measurements: Sequence[Measurement]) -> str:
    """Kernel times, copies, agreement with the CPU, recovery."""
    kernel, answers, buffers, recovery, merging = (
        Bench(measurements, name) for name in ("kernel", "answers", "bandwidth", "recovery", "merging")
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
    merged = [
        [
            f"`{row['algorithm']}`",
            row["device"] + ("" if row.get("mailbox", "off").startswith("off") else ", mailbox"),
            m["machine"],
            row["input"],
            *(number(row[f"{s}_p50_us"]) for s in ("build", "reconstruct", "post")),
        ]
        for m in merging.all
        for row in m["rows"]
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
        + "\n[Merged buffers](formats.md#merged-buffer) and segments of the same frames, medians, µs:\n\n"
        + table(["algorithm", "device", "machine", "input", "build", "reconstruct", "post"], merged)
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
                *merging.all,
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


CARDS = ("`nanet_card`", "`nanet_torus_card`")
NOT_ROUTED = "not routed"  # packed only


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
    whole = [row for row in rows if row[0].split()[0] in CARDS]
    parts = sorted((row for row in rows if row not in whole and row[5] != NOT_ROUTED), key=megahertz)
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
        "five; whole cards between registers and pins. [All modules](../gateware/syn/results.md).\n\n"
        + table(
            ["module", "LUT", "FF", "BRAM", "MHz", "target MHz"],
            [[*row[:4], row[5], row[6]] for row in [*parts[:5], *whole]],
        )
        + sources(bench.all)
        + "- synthesis: `./dev synth`\n"
    )
