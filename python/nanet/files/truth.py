# SPDX-License-Identifier: Apache-2.0
"""Truth of generated events as Parquet: rings (run.parquet), and optionally hits with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from nanet.errors import UsageError, describe_os_error
from nanet.files.provenance import as_metadata

NO_RING = 255
NOISE = 255
PARTICLES = ("e", "mu", "pi", "K")
PERIOD_KEY = b"nanet.period_frames"  # schema metadata: frame f of a burst repeats frame f modulo this number

# An event without rings has one row: ring = NO_RING; x, y, r, particle and momentum null.
RING_SCHEMA = pa.schema(
    [
        ("burst", pa.uint16()),
        ("timestamp", pa.uint32()),
        ("fine_time", pa.uint8()),
        ("event", pa.uint64()),
        ("ring", pa.uint8()),
        ("x", pa.float32()),
        ("y", pa.float32()),
        ("r", pa.float32()),
        ("particle", pa.string()),
        ("momentum", pa.float32()),
        ("n_hits", pa.uint8()),
        ("event_hits", pa.uint16()),
    ]
)
HIT_SCHEMA = pa.schema(
    [("event", pa.uint64()), ("ring", pa.uint8()), ("pm", pa.uint16()), ("time", pa.float64())]
)
_REPEATING = (
    "burst",
    "ring",
    "particle",
    "n_hits",
    "event_hits",
    "pm",
)  # dictionary-encoded in the file
_NULLABLE = ("x", "y", "r", "momentum")


def ring_table(columns: Mapping[str, Any], schema: pa.Schema = RING_SCHEMA) -> pa.Table:
    """The core's columns (particle as a number) as a table of RING_SCHEMA."""
    missing = np.asarray(columns["ring"]) == NO_RING
    arrays = []
    for field in RING_SCHEMA:
        values = np.asarray(columns[field.name])
        if field.name == "particle":
            index = pa.array(np.where(missing, 0, values).astype(np.int8), mask=missing)
            arrays.append(pa.DictionaryArray.from_arrays(index, pa.array(PARTICLES)).cast(pa.string()))
        else:
            arrays.append(
                pa.array(values, type=field.type, mask=missing if field.name in _NULLABLE else None)
            )
    return pa.Table.from_arrays(arrays, schema=schema)


def hit_table(columns: Mapping[str, Any]) -> pa.Table:
    """The core's columns of hits as a table of HIT_SCHEMA."""
    arrays = [pa.array(np.asarray(columns[field.name]), type=field.type) for field in HIT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=HIT_SCHEMA)


class TruthWriter:
    """Writes tables to a Parquet file in chunks; a context manager. UsageError if the file cannot be written.

    option: command-line option, for the error. metadata: stored in the schema (seed, rate, ...).
    """

    def __init__(
        self, option: str, path: str, schema: pa.Schema, metadata: Mapping[str, Any] | None = None
    ) -> None:
        import pyarrow.parquet as pq

        self._what = f"{option} {path}"
        repeating = [name for name in _REPEATING if name in schema.names]
        self.schema = schema.with_metadata(as_metadata(metadata or {}))
        try:
            self._writer = pq.ParquetWriter(
                path, self.schema, compression="zstd", compression_level=1, use_dictionary=repeating
            )
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError) -> UsageError:
        return UsageError(f"{self._what}: {describe_os_error(error)}: give a file that can be written")

    def write(self, table: pa.Table) -> None:
        """Appends a table; an empty one is ignored."""
        if table.num_rows:
            try:
                self._writer.write_table(table.replace_schema_metadata(self.schema.metadata))
            except OSError as error:
                raise self._error(error) from None

    def __enter__(self) -> TruthWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        except OSError as failure:
            if error is None:
                raise self._error(failure) from None


def write_truth(
    path: str,
    columns: Mapping[str, Any],
    *,
    period_frames: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    option: str = "--truth",
) -> None:
    """Writes run.parquet from the core's columns.

    period_frames: number of frames after which repeated events start again.
    """
    keys = dict(metadata or {})
    if period_frames is not None:
        keys[PERIOD_KEY.decode()] = period_frames
    with TruthWriter(option, path, RING_SCHEMA, keys) as writer:
        writer.write(ring_table(columns))
