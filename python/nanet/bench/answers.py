# SPDX-License-Identifier: Apache-2.0
"""`nanet bench answers`: one capture through every executor; primitives that differ from the CPU's.

The executors are those of a live trigger, fed from the file at full speed. Nothing is lost or late then, so
the packets are compared one by one, in order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nanet.bench import Row, Settings, Sheet
from nanet.bench.replay import generate_capture
from nanet.run import host

EVENTS = 10_000_000
ALGORITHMS = ("math", "multiring")
EXECUTORS = ("persistent", "launch")
HEADER = 42  # Ethernet, IPv4, UDP
MOST_LISTED = 1000  # differing primitives listed per executor


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: primitives and differences of each executor, then the differences. RuntimeError: no GPU."""
    if settings.device == "cpu":
        raise RuntimeError("there is no GPU to compare with: needs --device cuda")
    events = settings.events or EVENTS
    threads = max(1, min(14, len(host.cores()) - 2))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    listed: list[Row] = []
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        capture = str(Path(folder) / "run.pcap")
        sheet(f"generating {events} events")
        generate_capture(capture, events, "4", "packed")
        for algorithm in (settings.only,) if settings.only else ALGORITHMS:
            ways = {"cpu": {"threads": threads}} | {
                name: {"device": settings.device, "executor": name, "in_the_loop": True} for name in EXECUTORS
            }
            reference = str(Path(folder) / "cpu.pcap")
            for name, options in ways.items():
                sheet(f"{algorithm}, {name}")
                answers = reference if name == "cpu" else str(Path(folder) / "gpu.pcap")
                row = _through(capture, answers, algorithm, options)
                differing = 0 if name == "cpu" else compare(reference, answers, algorithm, name, listed)
                sheet.rows.append({"algorithm": algorithm, "executor": name, **row, "different": differing})
                if name != "cpu":
                    share = differing / max(1, row["primitives"])
                    sheet.figures[f"{algorithm}_{name}_different"] = share
    sheet.rows += listed


def _through(capture: str, answers: str, algorithm: str, options: Row) -> Row:
    from nanet import _core

    core = _core.Replay({"pcap": capture, "mtp": answers, "boards": 0xF, "algorithm": algorithm, **options})
    core.run()
    result = core.result()
    if not result["account_closes"] or "device_failed" in result:
        raise RuntimeError(f"the replay failed: {result.get('device_failed', 'its account does not close')}")
    return {
        "events": result["events_built"],
        "primitives": result["primitives_out"],
        "events_per_s": result["events_per_s"],
    }


def _packets(path: str) -> Iterator[bytes]:
    from nanet import _core

    for _, frame, _ in _core.wire.PcapReader(path):
        yield frame[HEADER:]


def compare(reference: str, answers: str, algorithm: str, executor: str, listed: list[Row]) -> int:
    """Number of primitive words that differ; each is listed. ValueError for missing packets."""
    from nanet import _core

    different = 0
    for number, (ours, theirs) in enumerate(zip(_packets(reference), _packets(answers), strict=True)):
        if ours == theirs:
            continue
        sides = [_core.wire.mtp_decode(data)[2] for data in (ours, theirs)]
        for place in range(max(map(len, sides))):
            one, other = (side[place] if place < len(side) else None for side in sides)
            if one == other:
                continue
            different += 1
            if different <= MOST_LISTED:
                listed.append(
                    {
                        "differs": algorithm,
                        "by": executor,
                        "packet": number,
                        "primitive": place,
                        "cpu": _text(one),
                        "gpu": _text(other),
                    }
                )
    return different


def _text(primitive: tuple[int, int] | None) -> str:
    """Time (LSB since SOB) and bits of a primitive."""
    return "none" if primitive is None else f"{primitive[0]} {primitive[1]:#06x}"
