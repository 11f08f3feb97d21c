# SPDX-License-Identifier: Apache-2.0
"""Captures, rings and truth as ROOT trees or Parquet tables.

ROOT trees here hold neither nulls nor text. A null float is NaN, any other null is 0. Particles are PDG
numbers (without sign); names of refusals are indices into a list stored beside the trees.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nanet import __version__
from nanet.detector import Detector
from nanet.errors import UsageError, describe_os_error
from nanet.files import captures
from nanet.files import tables as files
from nanet.files.provenance import of_detector, of_file

CAPTURE_TABLES = {
    "events": captures.EVENT_SCHEMA,
    "fragments": captures.FRAGMENT_SCHEMA,
    "packets": captures.PACKET_SCHEMA,
}
PDG = {"e": 11, "mu": 13, "pi": 211, "K": 321}  # Particle Data Group numbers; 0: none
NO_NAME = -1
BATCH_ROWS = 1 << 18
_PARQUET_MAGIC = b"PAR1"


@attrs.frozen
class Source:
    """A table to export: its name in the file, its columns, its batches."""

    name: str
    schema: pa.Schema
    path: str
    capture: captures.Capture | None = None
    detector: Detector | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches."""
        if self.capture is not None:
            yield from getattr(self.capture, self.name).to_batches(BATCH_ROWS)
            return
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=self.schema.names):
                yield from pa.Table.from_batches([batch]).cast(self.schema).to_batches()

    def metadata(self) -> dict[str, str]:
        """Metadata of the source file."""
        if self.capture is not None:
            of = of_detector(self.detector.core() if self.detector else None)
            return {**of_file(), **of, "nanet.capture": os.path.basename(self.path)}
        with pq.ParquetFile(self.path) as file:
            found = file.schema_arrow.metadata or {}
        return {k.decode(errors="replace"): v.decode(errors="replace") for k, v in found.items()}


def sources(
    paths: Sequence[str], tables: Sequence[str], detector: Detector | None = None, **options: Any
) -> list[Source]:
    """Tables of the files. tables: of captures, by name. options: of read_capture. UsageError."""
    for name in tables:
        if name not in CAPTURE_TABLES:
            raise UsageError(f"--tables {name}: must be of {', '.join(CAPTURE_TABLES)}")
    found: list[Source] = []
    for path in paths:
        if _is_parquet(path):
            kind = files.kind_of(path)
            if kind is None:
                raise UsageError(
                    f"{path}: has neither the columns of rings nor those of truth: give what "
                    "`nanet replay --out`, `nanet generate --truth` or --truth-hits wrote"
                )
            found.append(Source(kind.name, kind.schema, path))
        else:
            capture = captures.read_capture(path, detector=detector, **options)
            found += [Source(name, CAPTURE_TABLES[name], path, capture, detector) for name in tables]
    names = [source.name for source in found]
    for name in names:
        if names.count(name) > 1:
            twice = " and ".join(source.path for source in found if source.name == name)
            raise UsageError(f"{twice}: both give {name}: export them to separate files")
    return found


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == _PARQUET_MAGIC
    except OSError as error:
        remedy = "give a pcap, pcapng or Parquet file"
        raise UsageError(f"{describe_os_error(error, path)}: {remedy}") from None


def export(found: Sequence[Source], path: str) -> dict[str, int]:
    """Writes the tables to a .root or .parquet file and returns the number of rows by table. UsageError."""
    write = to_root if path.lower().endswith(".root") else to_parquet
    try:
        return write(found, path)
    except OSError as error:
        if os.path.isfile(path):
            with suppress(OSError):
                os.remove(path)  # remove the incomplete file
        raise UsageError(f"--out {describe_os_error(error, path)}") from None


def to_parquet(found: Sequence[Source], path: str) -> dict[str, int]:
    """Writes one table as Parquet."""
    if len(found) != 1:
        raise UsageError(
            f"--out {path}: a Parquet file holds one table, not {' and '.join(s.name for s in found)}: "
            "give one file and one of --tables, or a .root file"
        )
    source, rows = found[0], 0
    schema = source.schema.with_metadata({**source.metadata(), "nanet.version": __version__})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in source.batches():
            writer.write_table(pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata))
            rows += batch.num_rows
    return {source.name: rows}


def to_root(found: Sequence[Source], path: str) -> dict[str, int]:
    """Writes one tree per table, and `about`: JSON with the origins and the names behind codes."""
    import uproot

    rows: dict[str, int] = {}
    with uproot.recreate(path, compression=uproot.ZSTD(3)) as file:
        for source in found:
            tree = file.mktree(source.name, {f.name: _root_type(f) for f in source.schema})
            rows[source.name] = 0
            for batch in source.batches():
                if batch.num_rows:
                    tree.extend({f.name: _root_values(f, batch[f.name]) for f in source.schema})
                    rows[source.name] += batch.num_rows
        about = {"nanet": __version__, "particle": "PDG number", **_codes()}
        about["from"] = {s.name: {"file": os.path.basename(s.path), **s.metadata()} for s in found}
        file["about"] = json.dumps(about)
    return rows


def _codes() -> dict[str, list[str]]:
    from nanet._core import wire

    return {"refusal": list(wire.refusals), "not_mgp": list(wire.not_mgp)}


def _root_type(field: pa.Field) -> Any:
    if pa.types.is_list(field.type):
        return f"var * {np.dtype(field.type.value_type.to_pandas_dtype()).name}"
    if pa.types.is_string(field.type):
        return np.dtype(np.int16 if field.name == "particle" else np.int8)
    return np.dtype(field.type.to_pandas_dtype())


def _root_values(field: pa.Field, column: pa.Array) -> Any:
    if pa.types.is_list(field.type):
        import awkward as ak

        lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        offsets, values = np.concatenate(([0], np.cumsum(lengths))), column.flatten().to_numpy()
        layout = ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(values))
        return ak.Array(layout)
    if field.name == "particle":
        return np.array([PDG.get(name, 0) for name in column.to_pylist()], dtype=np.int16)
    if pa.types.is_string(field.type):
        place = {name: at for at, name in enumerate(_codes()[field.name])}
        return np.array([place.get(name, NO_NAME) for name in column.to_pylist()], dtype=np.int8)
    if pa.types.is_floating(field.type):
        return column.to_numpy(zero_copy_only=False)
    return column.fill_null(False if pa.types.is_boolean(field.type) else 0).to_numpy(zero_copy_only=False)
