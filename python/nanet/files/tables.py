# SPDX-License-Identifier: Apache-2.0
"""Rings, truth and truth hits: Parquet files as Arrow tables with the columns of docs/formats.md, checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nanet.errors import UsageError, describe_os_error
from nanet.files import rings, truth

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class Kind(NamedTuple):
    """Kind of Parquet file: its name, its columns, the command that writes it."""

    name: str
    schema: pa.Schema
    written_by: str


RINGS = Kind("rings", rings.SCHEMA, "`nanet replay --out`")
TRUTH = Kind("truth", truth.RING_SCHEMA, "`nanet generate --truth`")
HITS = Kind("hits", truth.HIT_SCHEMA, "`nanet generate --truth-hits`")


def read_rings(path: str) -> pa.Table:
    """Rings from `nanet replay --out`: one row per ring; ring 255: event without rings. UsageError."""
    return read(path, RINGS)


def read_truth(path: str) -> pa.Table:
    """Truth from `nanet generate --truth`: one row per true ring; 255: event without rings. UsageError."""
    return read(path, TRUTH)


def read_truth_hits(path: str) -> pa.Table:
    """Hits from `nanet generate --truth-hits`: one row per hit and source; ring 255: noise. UsageError."""
    return read(path, HITS)


def kind_of(path: str) -> Kind | None:
    """Kind of a Parquet file, from its columns; None for any other file. UsageError."""
    names = set(_open(path, "a Parquet file").schema_arrow.names)
    for kind in (RINGS, TRUTH, HITS):
        if set(kind.schema.names) <= names:
            return kind
    return None


def read(path: str, kind: Kind) -> pa.Table:
    """Columns of a kind, in its types, with the file's metadata. UsageError.

    The folder of a dataset gives all its captures in order of name, with a column `capture`.
    """
    remedy = f"give a file from {kind.written_by}"
    if os.path.isdir(path):
        return _read_dataset(path, kind, remedy)
    file = _open(path, f"a file from {kind.written_by}")
    missing = [name for name in kind.schema.names if name not in file.schema_arrow.names]
    if missing:
        raise UsageError(f"{path}: has no column {missing[0]}: {remedy}")
    try:
        table = file.read(columns=kind.schema.names)
        if not table.schema.equals(kind.schema):  # a cast loads pyarrow.compute
            table = table.cast(kind.schema)
        return table.replace_schema_metadata(file.schema_arrow.metadata)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read ({str(error).splitlines()[0]}): {remedy}") from None


def _read_dataset(folder: str, kind: Kind, remedy: str) -> pa.Table:
    import pyarrow.dataset as pads

    try:
        names = pads.partitioning(pa.schema([("capture", pa.string())]), flavor="hive")
        dataset = pads.dataset(folder, schema=kind.schema.append(names.schema[0]), partitioning=names)
        if not dataset.files:
            raise UsageError(f"{folder}: has no Parquet file: {remedy}")
        return dataset.to_table()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{folder}: cannot be read ({str(error).splitlines()[0]}): {remedy}") from None


def need(table: object, argument: str, columns: Iterable[str], from_where: str) -> None:
    """UsageError if `table` is no Arrow table with these columns. from_where: its source, for the message."""
    if not isinstance(table, pa.Table):
        raise UsageError(f"{argument} is {type(table).__name__}: must be a pyarrow.Table: give {from_where}")
    missing = [name for name in columns if name not in table.schema.names]
    if missing:
        raise UsageError(f"{argument} has no column {missing[0]}: give {from_where}")


def _open(path: str, wanted: str) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    try:
        with open(path, "rb"):  # its error is clearer than Arrow's
            pass
        return pq.ParquetFile(path)
    except OSError as error:
        raise UsageError(f"{describe_os_error(error, path)}: give {wanted}") from None
    except pa.ArrowInvalid:
        raise UsageError(f"{path}: is no Parquet file: give {wanted}") from None


def offsets_and_values(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A list column as numpy: offsets of the lists (one more than lists), and all values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # a column without chunks
        array = pa.array([], column.type)
    offsets = array.offsets.to_numpy()
    values = array.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], values
