# SPDX-License-Identifier: Apache-2.0
"""Appends a run of each fuzz target to .dev/fuzz-runs.jsonl: fuzz_record.py STATE_FOLDER TARGET...

Reads STATE_FOLDER/fuzz-TARGET.log: the output of libFuzzer, then `cpu_s: USER SYSTEM` (run_fuzz of
tools/dev/checks.sh). A log is recorded once.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CRASHES = r"^==\d+==ERROR: |^SUMMARY: (?:\w*Sanitizer|libFuzzer): "


def run_of(target: str, log: str, time: float, commit: str) -> dict[str, Any] | None:
    """The run of a log, written at `time`; None if it has no CPU time: stopped, or not begun."""
    cpu = re.search(r"^cpu_s: ([\d.]+) ([\d.]+)$", log, re.M)
    if not cpu:
        return None
    executed = re.search(r"^stat::number_of_executed_units: +(\d+)$", log, re.M)
    done = re.findall(r"^#(\d+)\t", log, re.M)  # of a run that ended with a crash
    date = datetime.datetime.fromtimestamp(time, datetime.UTC)
    return {
        "id": f"{target}-{date:%Y%m%dT%H%M%S.%f}",
        "target": target,
        "cpu_s": round(float(cpu[1]) + float(cpu[2]), 1),
        "executions": int(executed[1] if executed else done[-1] if done else 0),
        "crashes": int(bool(re.search(CRASHES, log, re.M))),
        "date": f"{date:%Y-%m-%d}",
        "commit": commit,
    }


def main(state: Path, targets: list[str]) -> None:
    """Appends the runs; prints the sum of this call."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    file = state / "fuzz-runs.jsonl"
    known = file.read_text(encoding="utf-8") if file.exists() else ""
    runs = []
    for target in targets:
        log = state / f"fuzz-{target}.log"
        if log.exists():
            text = log.read_text(encoding="utf-8", errors="replace")
            run = run_of(target, text, log.stat().st_mtime, commit or "unknown")
            if run and f'"{run["id"]}"' not in known:
                runs.append(run)
    with file.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps(run) + "\n" for run in runs)
    hours = sum(run["cpu_s"] for run in runs) / 3600
    print(f"recorded: {hours:.3f} CPU hours of fuzzing; merge with ./dev results --fuzz MACHINE")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
