# SPDX-License-Identifier: Apache-2.0
"""`nanet bench replay`: recorded traffic through the trigger on one core, as fast as possible."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from nanet.bench import Row, Settings, Sheet, median

EVENTS = 1_000_000
VARIANTS = (("4 boards, packed", "4", "packed"), ("merged stream, fixed slots", "merged", "fixed"))


def run(settings: Settings, sheet: Sheet) -> None:
    """Best and median of several passes over a million generated events; the file is in the page cache."""
    from nanet import _core

    copy = max(_core.bench_copy_rate(1168, 256 << 20, 0.5) for _ in range(3))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for title, boards, slots in VARIANTS:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            capture = str(Path(folder) / "run.pcap")
            sheet(f"generating {EVENTS} events ({title})")
            generate_capture(capture, EVENTS, boards, slots)
            rates, bytes_rates = [], []
            for _ in range(max(settings.runs, 3) + 2):
                core = _core.Replay(
                    {
                        "pcap": capture,
                        "boards": 0 if boards == "merged" else 0xF,
                        "algorithm": settings.algorithm,
                    }
                )
                core.run()
                result = core.result()
                if not result["account_closes"] or any(result["bad_packets"].values()):
                    raise RuntimeError(f"the account of the replay of {title} does not close")
                rates.append(result["events_per_s"])
                bytes_rates.append(result["bytes_in"] / result["elapsed_s"])
        row: Row = {
            "traffic": title,
            "algorithm": settings.algorithm,
            "events": result["events_built"],
            "hits_per_event": result["hits_in"] / result["events_built"],
            "events_per_s": median(rates),
            "events_per_s_best": max(rates),
            "bytes_per_s": median(bytes_rates),
            "memcpy_bytes_per_s": copy,
            "build_us_per_frame_p50": result["latency_us"]["build"]["p50"],
            "reconstruct_us_per_frame_p50": result["latency_us"]["reconstruct"]["p50"],
        }
        sheet.rows.append(row)
        if not sheet.figures:
            sheet.figures |= {
                "events_per_s_per_core": row["events_per_s"],
                "bytes_per_s": row["bytes_per_s"],
                "memcpy_bytes_per_s": copy,
            }


def generate_capture(path: str, events: int, boards: str, slots: str) -> None:
    """Generates a capture of the standard mix, without its truth."""
    from nanet import _core

    options = {
        "events": events,
        "seed": 20,
        "merged": boards == "merged",
        "fixed": slots == "fixed",
        "truth": False,
    }
    writer = _core.Capture(options, path)
    while writer.next(2048):
        pass
