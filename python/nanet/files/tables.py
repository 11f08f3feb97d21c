# SPDX-License-Identifier: Apache-2.0
"""Rings, truth and its hits: Parquet files as Arrow tables with the columns of docs/formats.md, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nanet.errors import UsageError, describe_os_error
from nanet.files import rings, truth


class Kind(NamedTuple):
    """A kind of Parquet file: what it holds, its columns, what writes it."""

    name: str
    schema: pa.Schema
    written_by: str


RINGS = Kind("rings", rings.SCHEMA, "`nanet replay --out`")
TRUTH = Kind("truth", truth.RING_SCHEMA, "`nanet generate --truth`")
HITS = Kind("hits", truth.HIT_SCHEMA, "`nanet generate --truth-hits`")


def read_rings(path: str) -> pa.Table:
    """What `nanet replay --out` wrote: one row for each ring; ring 255 for an event without. UsageError."""
    return read(path, RINGS)


def read_truth(path: str) -> pa.Table:
    """What `nanet generate --truth` wrote: one row for each true ring; ring 255 for an event without."""
    return read(path, TRUTH)


def read_truth_hits(path: str) -> pa.Table:
    """What `nanet generate --truth-hits` wrote: one row for each hit and owner; ring 255 for noise."""
    return read(path, HITS)


def kind_of(path: str) -> Kind | None:
    """Which of the three a Parquet file is, by its columns; None for another one. UsageError."""
    names = set(_open(path, "a Parquet file").schema_arrow.names)
    for kind in (RINGS, TRUTH, HITS):
        if set(kind.schema.names) <= names:
            return kind
    return None


def read(path: str, kind: Kind) -> pa.Table:
    """The file's columns of that kind, in its types; the metadata is kept. UsageError."""
    remedy = f"give what {kind.written_by} wrote"
    file = _open(path, f"what {kind.written_by} wrote")
    missing = [name for name in kind.schema.names if name not in file.schema_arrow.names]
    if missing:
        raise UsageError(f"{path}: has no column {missing[0]}: {remedy}")
    try:
        table = file.read(columns=kind.schema.names)
        return table.cast(kind.schema).replace_schema_metadata(file.schema_arrow.metadata)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read ({str(error).splitlines()[0]}): {remedy}") from None


def need(table: object, argument: str, columns: Iterable[str], from_where: str) -> None:
    """UsageError where `table` is no table with these columns; from_where: what gives one."""
    if not isinstance(table, pa.Table):
        raise UsageError(f"{argument} is {type(table).__name__}: must be a pyarrow.Table: give {from_where}")
    missing = [name for name in columns if name not in table.schema.names]
    if missing:
        raise UsageError(f"{argument} has no column {missing[0]}: give {from_where}")


def _open(path: str, wanted: str) -> pq.ParquetFile:
    try:
        with open(path, "rb"):  # says in plainer words than Arrow what is wrong with a file
            pass
        return pq.ParquetFile(path)
    except OSError as error:
        raise UsageError(f"{describe_os_error(error, path)}: give {wanted}") from None
    except pa.ArrowInvalid:
        raise UsageError(f"{path}: is no Parquet file: give {wanted}") from None
