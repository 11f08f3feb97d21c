# SPDX-License-Identifier: Apache-2.0
"""`nanet bench merging`: stages of the executors on merged buffers and on segments of the same frames.

One capture at the nominal event rate, replayed in turns; on a GPU through the resident kernel, without and
with its mailbox. The card's part of merging is outside these stages.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.replay import generate_capture

EVENTS = 1_000_000
INPUTS = ("segments", "merged")
STAGES = ("build", "reconstruct", "post")


def run(settings: Settings, sheet: Sheet) -> None:
    """Rows: device, mailbox, input, medians of the stages; figures: of build, and from build to post.

    RuntimeError: an account does not close, the GPU failed, frames were not merged, or answers differ.
    """
    ways = [("cpu", False)]
    if settings.device != "cpu":
        ways += [(settings.device, mailbox) for mailbox in (False, True)]
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        capture = str(Path(folder) / "run.pcap")
        events = settings.events or EVENTS
        sheet(f"generating {events} events")
        generate_capture(capture, events, "4", "packed")
        for device, mailbox in ways:
            place = f"{device} with a mailbox" if mailbox else device
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in INPUTS}
            for number in range(settings.runs):
                for name in INPUTS:
                    sheet(f"{settings.algorithm} on {place}: {name}, run {number + 1} of {settings.runs}")
                    answers = str(Path(folder) / f"{name}.pcap")
                    options: Row = {"pcap": capture, "mtp": answers, "boards": 0xF}
                    options |= {"algorithm": settings.algorithm, "merge": name == "merged"}
                    if device != "cpu":
                        options |= {"device": device, "in_the_loop": True, "mailboxes": mailbox}
                    runs[name].append(_replay(options))
                one, other = (_packets(Path(folder) / f"{name}.pcap") for name in INPUTS)
                if one != other:
                    raise RuntimeError(f"the answers of {place} to merged buffers and to segments differ")
            found = runs["merged"][0].get("mailbox", "off")
            if mailbox and found.startswith("off"):
                sheet(f"{place}: left out: mailbox {found}")
                continue
            _add(sheet, settings.algorithm, device, runs)


def _packets(file: Path) -> list[bytes]:
    """Answers without the times of their capture, which a GPU's answers have from the clock."""
    from nanet import _core

    return [bytes(frame) for _, frame, _ in _core.wire.PcapReader(str(file))]


def _replay(options: Row) -> dict[str, Any]:
    from nanet import _core

    core = _core.Replay(options)
    core.run()
    result: dict[str, Any] = core.result()
    if not result["account_closes"] or "device_failed" in result:
        raise RuntimeError(f"the replay failed: {result.get('device_failed', 'its account does not close')}")
    if result["frames_unmerged"]:
        raise RuntimeError(f"{result['frames_unmerged']} frames of the capture could not be merged")
    return result


def _add(sheet: Sheet, algorithm: str, device: str, runs: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Rows and figures of one device, with a mailbox or without."""
    for name, results in runs.items():
        mailbox = results[0].get("mailbox", "off")
        kind = device.partition(":")[0] + ("" if mailbox.startswith("off") else "_mailbox")
        row: Row = {"algorithm": algorithm, "device": device, "mailbox": mailbox, "input": name}
        row |= {"frames": results[0]["frames_in"], "events": results[0]["events_built"]}
        for stage in STAGES:
            for share in ("p50", "p99"):
                times = [result["latency_us"][stage][share] for result in results]
                row[f"{stage}_{share}_us"] = median(times)
        sheet.rows.append(row)
        sheet.figures[f"{kind}_{name}_build_us"] = row["build_p50_us"]
        sheet.figures[f"{kind}_{name}_build_to_post_us"] = sum(row[f"{stage}_p50_us"] for stage in STAGES)
