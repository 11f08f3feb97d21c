# SPDX-License-Identifier: Apache-2.0
"""rings.parquet: one row per reconstructed ring, written in chunks during the run."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from nanet.errors import UsageError, describe_os_error
from nanet.files.provenance import as_metadata

# Columns of docs/formats.md. An event without rings has one row: ring = NO_RING, x, y, r and chi2_ndf null.
SCHEMA = pa.schema(
    [
        ("burst", pa.uint16()),
        ("event", pa.uint64()),
        ("timestamp", pa.uint32()),
        ("fine_time", pa.uint8()),
        ("ring", pa.uint8()),
        ("n_rings", pa.uint8()),
        ("x", pa.float32()),
        ("y", pa.float32()),
        ("r", pa.float32()),
        ("n_hits", pa.uint8()),
        ("chi2_ndf", pa.float32()),
        ("event_hits", pa.uint16()),
        ("primitive", pa.uint16()),
    ]
)
NO_RING = 255
ROW_GROUP = 1 << 17  # rows


def table(columns: Mapping[str, Any]) -> pa.Table:
    """Columns of equal length (numpy) as a table of SCHEMA; NaN becomes null."""
    arrays = []
    for field in SCHEMA:
        values = np.asarray(columns[field.name])
        missing = np.isnan(values) if pa.types.is_floating(field.type) else None
        arrays.append(pa.array(values, type=field.type, mask=missing))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class RingWriter:
    """Writes rings to a Parquet file; a context manager. UsageError if the file cannot be written.

    Row groups have ROW_GROUP rows whatever the sizes of the chunks, so that equal rings give equal files.
    metadata: stored in the schema, beside that of every file (provenance.py).
    """

    def __init__(self, path: str, metadata: Mapping[str, Any] | None = None) -> None:
        import pyarrow.parquet as pq

        self.rows = 0
        self._path = path
        self._kept: list[pa.Table] = []
        self._kept_rows = 0
        self._schema = SCHEMA.with_metadata(as_metadata(metadata or {}))
        try:
            self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", compression_level=1)
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError) -> UsageError:
        return UsageError(f"--out {describe_os_error(error, self._path)}")

    def write(self, columns: Mapping[str, Any]) -> None:
        """Appends a chunk; an empty one is ignored."""
        chunk = table(columns)
        if chunk.num_rows:
            self._kept.append(chunk)
            self._kept_rows += chunk.num_rows
            self.rows += chunk.num_rows
            if self._kept_rows >= ROW_GROUP:
                self._flush(self._kept_rows // ROW_GROUP * ROW_GROUP)

    def _flush(self, rows: int) -> None:
        """Writes the first `rows` kept rows."""
        kept = pa.concat_tables(self._kept).combine_chunks()
        try:
            for first in range(0, rows, ROW_GROUP):
                group = kept.slice(first, min(ROW_GROUP, rows - first))
                self._writer.write_table(group.replace_schema_metadata(self._schema.metadata))
        except OSError as error:
            raise self._error(error) from None
        self._kept = [kept.slice(rows)]
        self._kept_rows -= rows

    def __enter__(self) -> RingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._kept_rows:
                self._flush(self._kept_rows)
            self._writer.close()
        except OSError as failure:
            if error is None:
                raise self._error(failure) from None
