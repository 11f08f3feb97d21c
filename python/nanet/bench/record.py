# SPDX-License-Identifier: Apache-2.0
"""`nanet bench record`: the chain without recording, with recording to disk, and to memory.

The rate of the disk alone is measured in the same run; the trigger counts the packets not written.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from nanet.bench import Row, Settings, Sheet
from nanet.bench.monitor import LEVELS, chain_here, speed_here
from nanet.report.output import packets_lost

SECONDS = 10.0
MEMORY = Path("/dev/shm")
DISK_S = 4.0
FILE_MB = 256  # as the trigger's
LIMIT_MB = 8192  # of files kept; a ring, as in long runs
ROOM = 4  # of the limit: free space that the file system must have


def run(settings: Settings, sheet: Sheet) -> None:
    """One row per target; figures: shares not written, MB/s, latency without and with recording."""
    with tempfile.TemporaryDirectory(prefix="nanet-record-") as folder:
        limit = limit_mb(Path(folder))
        sheet(f"rate of the disk of {folder} alone")
        sheet.figures["disk_MB_per_s"] = disk_rate(Path(folder), limit)
        sheet.rows.append(one(settings, sheet, "nowhere", None))
        sheet.rows.append(one(settings, sheet, "disk", Path(folder)))
    if MEMORY.is_dir() and limit_mb(MEMORY) >= LIMIT_MB // ROOM:
        with tempfile.TemporaryDirectory(prefix="nanet-record-", dir=MEMORY) as folder:
            sheet.rows.append(one(settings, sheet, "memory", Path(folder)))
    for row in sheet.rows:
        where = row["recorded_to"]
        for level in LEVELS:
            sheet.figures[f"{where}_{level}_us"] = row[f"{level}_us"]
        if where != "nowhere":
            sheet.figures[f"{where}_not_written"] = row["not_written"]
            sheet.figures[f"{where}_written_MB_per_s"] = row["MB_per_s"]


def limit_mb(folder: Path) -> int:
    """Limit of recorded files in a folder, MB."""
    return max(min(LIMIT_MB, shutil.disk_usage(folder).free // 1_000_000 // ROOM), 16)


def disk_rate(folder: Path, most_mb: int) -> float:
    """Rate of sequential writes to one file, with fsync, without other load (MB/s)."""
    block = os.urandom(1_000_000)
    path = folder / "rate"
    written, began = 0, time.monotonic()
    with open(path, "wb", buffering=0) as file:
        while written < most_mb and time.monotonic() - began < DISK_S:
            for _ in range(FILE_MB):
                file.write(block)
            os.fdatasync(file.fileno())
            written += FILE_MB
    seconds = time.monotonic() - began
    path.unlink()
    return written / seconds


def one(settings: Settings, sheet: Sheet, where: str, folder: Path | None) -> Row:
    """One run of the chain: a row."""
    seconds = settings.seconds or SECONDS
    speed = speed_here(settings)
    sheet(f"{settings.rate * speed / 1e6:g} MHz for {seconds:g} s, recorded to: {where}")
    record = ["--record", str(folder), "--record-limit-mb", str(limit_mb(folder))] if folder else []
    result = chain_here(settings, seconds, record)
    trigger = result.trigger
    recorded = trigger.get("recorded", {})
    if folder and sum(recorded[name] for name in OUTCOMES) != trigger["packets_in"]:
        raise RuntimeError("packets recorded and not recorded do not add up to all packets")
    total = trigger["latency_us"]["total"]
    return {
        "recorded_to": where,
        "packets_in": trigger["packets_in"],
        "events_per_s": trigger["events_built"] / result.readout["elapsed_s"],
        **{name: recorded.get(name, 0) for name in (*OUTCOMES, "files", "files_removed")},
        "not_written": recorded.get("ring_full", 0) + recorded.get("write_failed", 0),
        "MB_per_s": recorded.get("bytes", 0) / 1e6 / result.readout["elapsed_s"],
        **{f"{level}_us": total[level] for level in LEVELS},
        "lost": packets_lost(trigger["lost"]),
        "late": trigger["frames_late"],
        "losses": ", ".join(f"{name} {n:g}" for name, n in result.losses.items()) or "none",
    }


OUTCOMES = ("packets", "bad_packets", "ring_full", "write_failed")
