# SPDX-License-Identifier: Apache-2.0
"""rings.parquet: one row per reconstructed ring, written in chunks during the run."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nanet.errors import UsageError, describe_os_error

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


def table(columns: Mapping[str, Any]) -> pa.Table:
    """Columns of equal length (numpy) as a table of SCHEMA; NaN becomes null."""
    arrays = []
    for field in SCHEMA:
        values = np.asarray(columns[field.name])
        missing = np.isnan(values) if pa.types.is_floating(field.type) else None
        arrays.append(pa.array(values, type=field.type, mask=missing))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class RingWriter:
    """Writes rings to a Parquet file; a context manager. UsageError if the file cannot be written."""

    def __init__(self, path: str) -> None:
        self.rows = 0
        self._path = path
        try:
            self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd", compression_level=1)
        except OSError as error:
            raise UsageError(f"--out {describe_os_error(error, path)}") from None

    def write(self, columns: Mapping[str, Any]) -> None:
        """Appends a chunk; an empty one is ignored."""
        chunk = table(columns)
        if chunk.num_rows:
            try:
                self._writer.write_table(chunk)
            except OSError as error:
                raise UsageError(f"--out {describe_os_error(error, self._path)}") from None
            self.rows += chunk.num_rows

    def __enter__(self) -> RingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
