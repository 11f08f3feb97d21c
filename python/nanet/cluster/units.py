# SPDX-License-Identifier: Apache-2.0
"""Unit of work: input files, output files, and the record by which a second run skips it.

Outputs are written under hidden names and renamed when they are complete. The record of a finished unit holds
size, time of change and digest of its files, and its result.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import urllib.parse
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from nanet import __version__
from nanet.errors import DataWarning, UsageError, describe_os_error

RECORDS = "_records"  # Arrow's datasets ignore names that begin with _ or .
FORMAT = 1
Work = Callable[["Unit", Mapping[str, str]], dict[str, Any]]


@attrs.frozen
class Unit:
    """One unit: `work(unit, paths)` reads the inputs and writes the outputs to `paths` (key -> hidden name).

    settings: everything else that determines the result, for JSON. records: folder of the record; "": none,
    so the unit is never skipped. Workers on other machines need the same paths.
    """

    name: str
    work: Work
    inputs: tuple[str, ...] = ()
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    records: str = ""

    @property
    def record(self) -> Path:
        """File of the record."""
        return Path(self.records) / f"{quoted(self.name)}.json"


@attrs.frozen
class Outcome:
    """End of a unit. state: done, kept (finished by an earlier run) or failed, with the reason."""

    name: str
    state: str
    result: dict[str, Any] = attrs.field(factory=dict)
    reason: str = ""
    warnings: tuple[str, ...] = ()


def quoted(name: str) -> str:
    """Name of a unit as a part of a file name, or as the value of a Hive partition."""
    return urllib.parse.quote(name, safe=" +,@~")


def partition(folder: str | os.PathLike[str], name: str, file: str) -> str:
    """Path of a unit's file in a dataset: FOLDER/capture=NAME/FILE; readers add a column `capture`."""
    return os.path.join(folder, f"capture={quoted(name)}", file)


def partitions(folder: str, file: str) -> dict[str, str]:
    """Files of a dataset by name of the capture, in order of name. UsageError: no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"{describe_os_error(error)}: give a folder that can be read") from None
    found = {}
    for name in names:
        path = os.path.join(folder, name, file)
        if name.startswith("capture=") and os.path.isfile(path):
            found[urllib.parse.unquote(name.removeprefix("capture="))] = path
    return found


@contextlib.contextmanager
def only_writer(folder: str) -> Iterator[None]:
    """Makes the folder of records; UsageError while another command writes to it."""
    try:
        os.makedirs(folder, exist_ok=True)
        file = open(os.path.join(folder, "lock"), "ab")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{describe_os_error(error)}: give a folder that can be written") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"{os.path.dirname(folder)}: another nanet writes to this folder"
            raise UsageError(f"{text}: wait for its end, or give another folder") from None
        yield


def complete(command: str, unit: Unit) -> Outcome:
    """Runs a unit unless its record says that it is finished. Errors of the unit become its outcome.

    command: a name of this command; units that run twice in it (their worker died later) count as done.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DataWarning)
        try:
            state, result = _complete(command, unit)
            reason = ""
        except UsageError as error:
            state, result, reason = "failed", {}, str(error)
        except OSError as error:
            state, result, reason = "failed", {}, describe_os_error(error)
        except Exception as error:  # the other units go on
            state, result, reason = "failed", {}, f"{type(error).__name__}: {error}"
    return Outcome(unit.name, state, result, reason, tuple(str(one.message) for one in caught))


def _complete(command: str, unit: Unit) -> tuple[str, dict[str, Any]]:
    settings = json.loads(_json({**unit.settings, "version": __version__, "format": FORMAT}))
    record = _read(unit) if unit.records else {}
    if record and record["settings"] == settings and _same(record, unit):
        return "done" if record["command"] == command else "kept", record["result"]
    if record:
        _check_owner(record, unit)
    hidden = {key: _hidden(path) for key, path in unit.outputs.items()}
    try:
        _forget(unit)
        inputs = [fingerprint(path) for path in unit.inputs]  # before the work: a later change is noticed
        result = unit.work(unit, hidden)
        for path in hidden.values():
            _flush(path)
        for key, path in hidden.items():
            os.replace(path, unit.outputs[key])
        if unit.records:
            outputs = [fingerprint(path) for path in unit.outputs.values()]
            kept = {"inputs": inputs, "outputs": outputs, "settings": settings, "result": result}
            _write(unit, {**kept, "command": command})
    finally:
        for path in hidden.values():
            with contextlib.suppress(OSError):
                os.unlink(path)
            with contextlib.suppress(OSError):  # of a failed unit, if it is empty
                os.rmdir(os.path.dirname(path))
    return "done", result


def fingerprint(path: str) -> dict[str, Any]:
    """Path, size, time of change and SHA-256 of a file. OSError."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path, "size": about.st_size, "mtime_ns": about.st_mtime_ns, "sha256": digest}


def _unchanged(kept: Mapping[str, Any], path: str) -> bool:
    """Whether a file has the size and the digest of its record; the digest is read if its time changed."""
    try:
        about = os.stat(path)
        if about.st_size != kept["size"]:
            return False
        return about.st_mtime_ns == kept["mtime_ns"] or fingerprint(path)["sha256"] == kept["sha256"]
    except OSError:
        return False


def _same(record: Mapping[str, Any], unit: Unit) -> bool:
    """Whether all files of a record are those of the unit, unchanged."""
    pairs = ((record["inputs"], unit.inputs), (record["outputs"], tuple(unit.outputs.values())))
    return all(len(kept) == len(paths) and all(map(_unchanged, kept, paths)) for kept, paths in pairs)


def _check_owner(record: Mapping[str, Any], unit: Unit) -> None:
    """UsageError if the record belongs to other files of the same name, which still exist."""
    before = tuple(kept["path"] for kept in record["inputs"])
    if before and unit.inputs and before[0] != unit.inputs[0] and os.path.exists(before[0]):
        raise UsageError(f"{unit.inputs[0]}: the folder has results of {before[0]} under this name: "
                         "give another folder for the results")  # fmt: skip


def _forget(unit: Unit) -> None:
    """Removes record, outputs and partial files of an earlier run."""
    if unit.records:
        unit.record.unlink(missing_ok=True)
    for path in unit.outputs.values():
        folder, name = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        for partial in Path(folder).glob(f".{_glob_literal(name)}.*.partial"):
            partial.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _glob_literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _hidden(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}.partial")


def _flush(path: str) -> None:
    """Data of a file to the disk, so that a rename never precedes them."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _json(value: Any) -> str:
    """JSON of a record: NaN stays NaN, numpy values become numbers and lists; floats are exact."""
    return json.dumps(value, default=lambda one: one.tolist(), sort_keys=True)


def _read(unit: Unit) -> dict[str, Any]:
    """Record of a unit; empty if there is none that can be used."""
    try:
        record = json.loads(unit.record.read_text(encoding="utf-8"))
        return record if {"inputs", "outputs", "settings", "result", "command"} <= set(record) else {}
    except (OSError, ValueError):
        return {}


def _write(unit: Unit, record: Mapping[str, Any]) -> None:
    hidden = _hidden(str(unit.record))
    with open(hidden, "w", encoding="utf-8") as file:
        file.write(_json(record) + "\n")
    os.replace(hidden, unit.record)


def check_names(units: Sequence[Unit]) -> None:
    """UsageError if two units have one name."""
    seen: dict[str, Unit] = {}
    for unit in units:
        if unit.name in seen:
            both = " and ".join(one.inputs[0] if one.inputs else one.name for one in (seen[unit.name], unit))
            raise UsageError(f"{both}: have one name in the results: give the folder above them instead")
        seen[unit.name] = unit
