# SPDX-License-Identifier: Apache-2.0
"""`nanet replay` of many captures, each a separate run, into one Parquet dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nanet.cluster.units import RECORDS, Outcome, Unit, partition, quoted
from nanet.errors import DataWarning, UsageError, describe_os_error
from nanet.report import counters
from nanet.report.output import account_closes, plain
from nanet.run.core_options import load_algorithm
from nanet.run.replaying import captures_in, replay_files

FILE = "rings.parquet"
SHOWN = ("events_built", "hits_in", "rings", "primitives_out", "packets_in", "elapsed_s")
# Options of the core that change nothing in a replay's results.
_OF_THE_HOST = ("busy", "pin", "real_time")


def runs_of(given: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Runs by name: each capture is one; the captures of a `--record` (raw-*.pcap) are one together.

    A folder stands for all captures in it and in its folders. UsageError: nothing there, or two of one name.
    """
    found: dict[str, tuple[str, ...]] = {}

    def add(name: str, files: list[str]) -> None:
        if name in found:
            text = f"{found[name][0]} and {files[0]}: have one name in the results"
            raise UsageError(f"{text}: give the folder above them instead")
        found[name] = tuple(files)

    for path in given:
        if not os.path.isdir(path):
            _readable(path)
            add(Path(path).stem, [os.path.abspath(path)])
            continue
        before = len(found)
        top = os.path.abspath(path)
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            captures, recorded = captures_in(names)
            inside = "" if folder == top else os.path.relpath(folder, top) + "/"
            if recorded:
                add(inside.rstrip("/") or os.path.basename(top), [f"{folder}/{name}" for name in recorded])
            else:
                for name in captures:
                    add(inside + Path(name).stem, [f"{folder}/{name}"])
        if len(found) == before:
            raise UsageError(f"{path}: there is no .pcap or .pcapng file in this folder")
    return found


def _readable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        remedy = "give a pcap or pcapng file that can be read, or a folder of them"
        raise UsageError(f"{describe_os_error(error)}: {remedy}") from None


def units(
    runs: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any], out: str, mtp: str | None
) -> list[Unit]:
    """One unit per run. settings: as of replay_files; out: folder of the dataset; mtp: folder of pcaps."""
    plugin = (settings["plugin"],) if settings["plugin"] else ()
    made = []
    for name, files in runs.items():
        outputs = {"rings": partition(out, name, FILE)}
        if mtp is not None:
            outputs["mtp"] = os.path.join(mtp, f"{quoted(name)}.pcap")
        made.append(Unit(name, work, (*files, *plugin), outputs, settings, os.path.join(out, RECORDS)))
    return made


def work(unit: Unit, paths: Mapping[str, str]) -> dict[str, Any]:
    """Replays one run. UsageError if its account does not close."""
    plugin = unit.settings["plugin"]
    if plugin:
        load_algorithm(plugin)
    captures = unit.inputs[:-1] if plugin else unit.inputs
    result = replay_files(captures, unit.settings, rings=paths["rings"], mtp=paths.get("mtp"))
    if not account_closes(result):
        raise UsageError(f"{captures[0]}: the account of the replay does not close")
    if result["packets_in"] == 0 and any(result["not_mgp"].values()):
        port = unit.settings["port"]
        warnings.warn(f"{captures[0]}: no packet went to port {port}: give --port", DataWarning, stacklevel=2)
    for cut in result["truncated_files"]:
        text = f"{cut} ends within a record: the packets before it were replayed"
        warnings.warn(text, DataWarning, stacklevel=2)
    return plain({key: value for key, value in result.items() if key != "captures"})


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those of the host, so that results of another host are kept."""
    return {key: value for key, value in options.items() if key not in _OF_THE_HOST}


def total(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Sums of the counters, and a row per capture."""
    sums: dict[str, Any] = {}
    rows = []
    for outcome in outcomes:
        if outcome.state == "failed":
            continue
        result = outcome.result
        for key in (*counters.listed(), *counters.GROUPS):
            value = result.get(key, 0)
            if isinstance(value, dict):
                mine = sums.setdefault(key, {})
                for name, part in value.items():
                    mine[name] = mine.get(name, 0) + part
            else:
                sums[key] = sums.get(key, 0) + value
        shown = {key: result[key] for key in SHOWN}
        rows.append({"capture": outcome.name, "kept": outcome.state == "kept", **shown})
    return {**sums, "account_closes": account_closes(sums) if rows else True, "rows": rows}
