# SPDX-License-Identifier: Apache-2.0
"""Fuzzing: CPU hours of each decoder, summed over all recorded runs.

`./dev fuzz` and `./dev test` append a line per run to .dev/fuzz-runs.jsonl (tools/fuzz_record.py);
`./dev results --fuzz MACHINE` merges those lines into results/fuzz-MACHINE.json. A run counts once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from results.markdown import number, rate, sources, table
from results.measurements import RESULTS, ROOT, Bench, Measurement

RUNS = ROOT / ".dev" / "fuzz-runs.jsonl"
SUMS = ("runs", "cpu_s", "executions", "crashes")


def merge(runs: Path, machine: str, folder: Path = RESULTS) -> Path:
    """Adds the runs of a file that the machine's record does not have yet; returns the record's path."""
    path = folder / f"fuzz-{machine}.json"
    record: Measurement = {"bench": "fuzz", "command": "./dev fuzz", "merged": [], "rows": []}
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["target"]: row for row in record["rows"]}
    for line in runs.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if run["id"] in record["merged"]:
            continue
        record["merged"].append(run["id"])
        row = rows.setdefault(run["target"], {"target": run["target"], **dict.fromkeys(SUMS, 0)})
        row["runs"] += 1
        for key in SUMS[1:]:
            row[key] += run[key]
        record["date"], record["commit"] = run["date"], run["commit"]  # of the newest run
    record["rows"] = [rows[target] for target in sorted(rows)]
    record["figures"] = {
        "cpu_hours": sum(row["cpu_s"] for row in rows.values()) / 3600,
        "crashes": sum(row["crashes"] for row in rows.values()),
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def fuzzing(measurements: Sequence[Measurement]) -> str:
    """CPU hours of each fuzz target."""
    bench = Bench(measurements, "fuzz")
    sums: dict[str, dict[str, float]] = {}
    for row in (row for m in bench.all for row in m["rows"]):
        of = sums.setdefault(row["target"], dict.fromkeys(SUMS, 0))
        for key in SUMS:
            of[key] += row[key]
    rows = [
        [target, number(of["cpu_s"] / 3600), str(of["runs"]), rate(of["executions"]), str(of["crashes"])]
        for target, of in sorted(sums.items())
    ]
    hours = sum(m["figures"]["cpu_hours"] for m in bench.all)
    head = ["target", "CPU hours", "runs", "inputs", "crashes"]
    return (
        f"libFuzzer with AddressSanitizer and UBSan on every decoder: {number(hours)} CPU hours in all "
        "recorded runs.\n\n" + table(head, rows) + sources(bench.all)
    )
