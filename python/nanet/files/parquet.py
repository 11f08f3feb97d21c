# SPDX-License-Identifier: Apache-2.0
"""Columns of Parquet files as numpy arrays; errors name file, column and remedy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nanet.errors import UsageError, describe_os_error


def read_columns(
    option: str, path: str, schema: pa.Schema, names: tuple[str, ...], remedy: str
) -> tuple[dict[str, np.ndarray], dict[bytes, bytes]]:
    """The named columns in the types of `schema` (null floats: NaN), and the file's metadata.

    option: command-line option, remedy: what to give instead, both for the UsageError.
    """
    where = f"{option} {path}"
    try:
        with open(path, "rb"):  # its error is clearer than Arrow's
            pass
        file = pq.ParquetFile(path)
    except OSError as error:
        raise UsageError(f"{option} {describe_os_error(error)}: {remedy}") from None
    except pa.ArrowInvalid:
        raise UsageError(f"{where}: is no Parquet file: {remedy}") from None
    with file:
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise UsageError(f"{where}: has no column {missing[0]}: {remedy}")
        try:
            table = file.read(columns=list(names))
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{where}: cannot be read ({str(error).splitlines()[0]}): {remedy}") from None
        metadata = dict(file.schema_arrow.metadata or {})
    columns = {}
    for name in names:
        wanted = schema.field(name).type
        column = table[name]
        try:
            column = column.cast(wanted)
        except pa.ArrowException:
            raise UsageError(f"{where}: column {name} is {column.type}, must be {wanted}: {remedy}") from None
        if column.null_count and not pa.types.is_floating(wanted):
            raise UsageError(f"{where}: column {name} has empty places: {remedy}")
        columns[name] = column.to_numpy()
    return columns, metadata
