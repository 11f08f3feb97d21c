# SPDX-License-Identifier: Apache-2.0
"""Origin of a Parquet file, as metadata of its schema: equal runs give equal files, on any device."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nanet import __version__
from nanet.detector import NA62_DIGEST, NA62_NAME
from nanet.errors import UsageError, describe_os_error

if TYPE_CHECKING:
    import pyarrow as pa

DIGEST_KEY = b"nanet.detector_digest"
SIDECAR = ".detector.json"  # appended to the name of a capture, or a file of this name in its folder


def of_detector(core: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name and digest of a detector. core: its dictionary for the core; None: NA62's."""
    name, digest = (core["name"], core["digest"]) if core else (NA62_NAME, NA62_DIGEST)
    return {"nanet.detector": name, DIGEST_KEY.decode(): digest}


def of_file() -> dict[str, Any]:
    """Metadata of every file: version of nanet, detector."""
    return {"nanet.version": __version__, **of_detector()}


def write_sidecar(path: str, core: Mapping[str, Any] | None) -> None:
    """Writes name and digest of the detector beside a capture. UsageError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(of_detector(core), file)
            file.write("\n")
    except OSError as error:
        raise UsageError(f"{describe_os_error(error, path)}: give a folder that can be written") from None


def check_captures(captures: Sequence[str], core: Mapping[str, Any] | None) -> None:
    """UsageError if a capture was made with another detector, by the file beside it."""
    for path in captures:
        for sidecar in (path + SIDECAR, os.path.join(os.path.dirname(path), SIDECAR.removeprefix("."))):
            with contextlib.suppress(OSError):
                with open(sidecar, encoding="utf-8") as file:
                    try:
                        made = json.load(file)
                        _compare(path, made["nanet.detector"], made[DIGEST_KEY.decode()], core)
                    except (ValueError, KeyError, TypeError):
                        raise UsageError(f"{sidecar}: is no file of nanet: remove it") from None
                break


def check_metadata(path: str, metadata: Mapping[bytes, bytes] | None, core: Mapping[str, Any] | None) -> None:
    """UsageError if a Parquet file is of another detector. Files without a digest are accepted."""
    found = metadata or {}
    if DIGEST_KEY in found:
        name = found.get(b"nanet.detector", b"").decode(errors="replace")
        _compare(path, name, found[DIGEST_KEY].decode(errors="replace"), core)


def marked(table: pa.Table, core: Mapping[str, Any] | None) -> pa.Table:
    """The table with name and digest of its detector."""
    mine = {key.encode(): value.encode() for key, value in of_detector(core).items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **mine})


def with_detector_of(events: Any, table: pa.Table) -> pa.Table:
    """The table with the detector of `events`, where that is a table which names one."""
    found = getattr(getattr(events, "schema", None), "metadata", None) or {}
    mine = {key: found[key] for key in (b"nanet.detector", DIGEST_KEY) if key in found}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **mine} or None)


def check_table(name: str, table: pa.Table, core: Mapping[str, Any] | None) -> None:
    """UsageError if a table in memory is of another detector. Tables without a digest are accepted."""
    found = table.schema.metadata or {}
    if found.get(DIGEST_KEY, b"").decode(errors="replace") not in (
        "",
        of_detector(core)[DIGEST_KEY.decode()],
    ):
        raise UsageError(
            f"{name}: of {_detector_in(found)}, not of {_named(of_detector(core))}: set detector"
        )


def same_detector(name: str, table: pa.Table, other_name: str, other: pa.Table) -> None:
    """UsageError if two tables in memory are of different detectors."""
    one, two = table.schema.metadata or {}, other.schema.metadata or {}
    if DIGEST_KEY in one and DIGEST_KEY in two and one[DIGEST_KEY] != two[DIGEST_KEY]:
        raise UsageError(f"{name}: of {_detector_in(one)}, but {other_name} of {_detector_in(two)}")


def _detector_in(metadata: Mapping[bytes, bytes]) -> str:
    return _named(
        {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    )


def _named(values: Mapping[str, Any]) -> str:
    return f"{values.get('nanet.detector', '')} ({values[DIGEST_KEY.decode()]})"


def _compare(path: str, name: str, digest: str, core: Mapping[str, Any] | None) -> None:
    mine = of_detector(core)
    if digest != mine[DIGEST_KEY.decode()]:
        here = _named(mine)
        remedy = "give its file with --detector" if digest != NA62_DIGEST else "leave --detector out"
        raise UsageError(f"{path}: is of the detector {name} ({digest}), not of {here}: {remedy}")


def of_rings(settings: Mapping[str, Any], captures: Sequence[str]) -> dict[str, Any]:
    """Metadata of rings: algorithm, all its parameters, captures with their sizes, conditions.

    settings: options of the core (core_options); captures: files of the run, in order.
    """
    from nanet import _core

    algorithm = settings["algorithm"]
    parameters = {p["name"]: p["value"] for p in _core.algorithm_parameters(algorithm)}
    found = {
        "nanet.algorithm": algorithm,
        "nanet.parameters": json.dumps({**parameters, **settings["parameters"]}, sort_keys=True),
        "nanet.capture": json.dumps({os.path.basename(path): os.path.getsize(path) for path in captures}),
    }
    if settings.get("detector"):
        found |= of_detector(settings["detector"])
        parameters |= settings["detector"]["algorithms"].get(algorithm, {})
        found["nanet.parameters"] = json.dumps({**parameters, **settings["parameters"]}, sort_keys=True)
    if settings["conditions"]:
        found["nanet.conditions"] = settings["conditions"]["name"]
    return found


def as_metadata(values: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Metadata of every file and these values, as bytes for a schema."""
    return {str(key).encode(): str(value).encode() for key, value in {**of_file(), **values}.items()}
