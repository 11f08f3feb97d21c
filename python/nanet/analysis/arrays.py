# SPDX-License-Identifier: Apache-2.0
"""Hits in mm as plain arrays, and the ring algorithms on them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nanet.config.sections import DEFAULT_ALGORITHM
from nanet.detector import Detector, as_detector
from nanet.errors import UsageError, near
from nanet.files import rings as ring_files
from nanet.files.tables import offsets_and_values
from nanet.run import host

MOST_EVENTS = 1 << 32  # numbers of events are their times, in periods


def resolve(algorithm: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """Name in the core and parameters as numbers; a plug-in is loaded. UsageError."""
    from nanet import _core
    from nanet.config.sections import names_a_plugin
    from nanet.run.core_options import load_algorithm

    if names_a_plugin(algorithm):
        algorithm = load_algorithm(algorithm).name
    elif algorithm not in _core.algorithm_names():
        raise UsageError(
            f"algorithm {algorithm!r}: no such algorithm{near(algorithm, _core.algorithm_names())}"
        )
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            known = ", ".join(p["name"] for p in _core.algorithm_parameters(algorithm))
            raise UsageError(f"{name} = {value!r}: must be a number, a parameter of {algorithm}: {known}")
    return algorithm, {name: float(value) for name, value in parameters.items()}


def device_of(device: str, algorithm: str) -> str:
    """Device in the core: cpu or cuda:N. auto: a GPU where one has the algorithm. UsageError."""
    from nanet import _core
    from nanet.config import values
    from nanet.run.core_options import executor

    try:
        values.device(device)
    except ValueError as error:
        raise UsageError(f"device = {device!r}: {error}") from None
    if device == "auto" and algorithm not in _core.cuda_algorithms():
        return "cpu"
    return executor(device, key="device", remedy="leave device out")


def warn_of_failure(device: str, found: dict[str, Any]) -> None:
    """Takes the reason of a device error from the core's columns and makes it a warning."""
    if failed := found.pop("device_failed", ""):
        text = f"{device} failed: {failed}; the CPU found the rest of the rings, with the same bits"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def reconstruct_arrays(
    x: Any,
    y: Any,
    event: Any = None,
    algorithm: str = DEFAULT_ALGORITHM,
    *,
    threads: int = 0,
    device: str = "cpu",
    detector: str | Detector | None = None,
    **parameters: float,
) -> pa.Table:
    """Rings of hits at x, y (mm): a table in the columns of rings.parquet. UsageError.

    x, y: one-dimensional arrays (NumPy, Arrow, awkward, pandas), with the number of each hit's event in
    `event`, ascending; or lists of hits per event, with `event` numbering the events (default: 0, 1, ...).
    An event has at most 128 hits. burst is 0 and timestamp the event number, so that truth_table with the
    same numbers pairs. threads: of the CPU, 0 means all. device: cpu, cuda, cuda:N, or auto (a GPU if there
    is one). The result depends on neither. Memory beyond that of the arrays and of the table does not grow
    with their size.
    detector: sets default parameters, and the trial centres of pomh and domh; default: NA62's.
    """
    from nanet import _core

    algorithm, numbers = resolve(algorithm, parameters)
    (along_x, offsets), (along_y, others) = _positions("x", x), _positions("y", y)
    if (offsets is None) != (others is None) or (offsets is not None and not np.array_equal(offsets, others)):
        raise UsageError("x and y: must have the same form, with equally long lists")
    ids = None if event is None else _numbers(event)
    if offsets is None and ids is None:
        raise UsageError("event: give the event number of each hit, or x and y as lists per event")
    of_hit = ids if offsets is None else None
    number = None
    if offsets is not None and ids is not None:
        if len(ids) != len(offsets) - 1:
            raise UsageError(f"event: has {len(ids)} numbers for {len(offsets) - 1} events")
        number = _ascending(ids).astype(np.uint32)
    other = as_detector(detector)
    device = device_of(device, algorithm)
    try:
        found = _core.reconstruct_points(
            algorithm,
            along_x,
            along_y,
            of_hit,
            offsets,
            numbers,
            threads or len(host.cpus()),
            other.core() if other else None,
            number,
            device,
        )
    except (ValueError, RuntimeError) as error:
        raise UsageError(str(error)) from None
    warn_of_failure(device, found)
    return _as_rings(found)


def _positions(name: str, values: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions of all hits as floats, and the offsets of lists (int64). UsageError."""
    offsets = None
    if "awkward" in sys.modules and isinstance(values, sys.modules["awkward"].Array):
        values = sys.modules["awkward"].to_arrow(values, extensionarray=False)
    if isinstance(values, pa.ChunkedArray | pa.Array):
        kind = values.type
        if pa.types.is_fixed_size_list(kind):
            values = values.cast(pa.large_list(kind.value_type))
            kind = values.type
        nulls = values.null_count
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            import pyarrow.compute

            nulls += pyarrow.compute.list_flatten(values).null_count
            first, values = offsets_and_values(values)
            offsets = np.ascontiguousarray(first, dtype=np.int64)
        else:
            values = _plain(values)
        if nulls:
            raise UsageError(f"{name}: has empty places (null): fill or drop them first")
    of_lists = isinstance(values, list | tuple) and len(values) > 0
    if of_lists and (isinstance(values[0], list | tuple) or getattr(values[0], "ndim", 0)):
        values, offsets = _lists(name, values)
    given = np.asarray(values)
    if given.ndim == 2 and offsets is None:  # equally many hits in each event
        offsets = np.arange(given.shape[0] + 1, dtype=np.int64) * given.shape[1]
        given = given.reshape(-1)
    if given.ndim != 1 or given.dtype.kind not in "fiu":
        raise UsageError(f"{name}: must be numbers in one dimension, or lists of numbers per event")
    kind = np.float32 if given.dtype in (np.float32, np.float16) else np.float64
    return np.ascontiguousarray(given, dtype=kind), offsets


def _lists(name: str, values: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """All hits and offsets of a Python list with a list or array per event. UsageError."""
    try:
        sizes = [len(part) for part in values]
        flat = np.concatenate([np.asarray(part, np.float64) for part in values])
    except (TypeError, ValueError):
        flat = np.zeros((0, 0))
    if flat.ndim != 1:
        raise UsageError(f"{name}: must be numbers in one dimension, or lists of numbers per event")
    return flat, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _plain(values: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """A column of numbers as numpy."""
    return values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(zero_copy_only=False)


def _numbers(event: Any) -> np.ndarray:
    """Event numbers in a type of the core. UsageError."""
    if isinstance(event, pa.ChunkedArray | pa.Array):
        if event.null_count:
            raise UsageError("event: has empty places (null): fill or drop them first")
        event = _plain(event)
    given = np.asarray(event)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        if given.size:
            raise UsageError("event: must be whole numbers in one dimension")
        given = given.reshape(-1).astype(np.int64)
    return np.ascontiguousarray(given, dtype=given.dtype if given.dtype.itemsize >= 4 else np.int64)


def _ascending(ids: np.ndarray) -> np.ndarray:
    """Numbers of events; UsageError unless they ascend within 32 bits."""
    if ids.size and (ids.min() < 0 or ids.max() >= MOST_EVENTS or (ids[1:] <= ids[:-1]).any()):
        raise UsageError(f"event: must ascend without repeats, from 0 to {MOST_EVENTS - 1}")
    return ids


def _as_rings(found: Mapping[str, np.ndarray]) -> pa.Table:
    """Columns of the core as a table of rings, without copies."""
    rows = len(found["event"])
    empty = found["ring"] == ring_files.NO_RING
    missing = int(np.count_nonzero(empty))
    valid = pa.py_buffer(np.packbits(~empty, bitorder="little")) if missing else None
    zeros = pa.py_buffer(np.zeros(rows, dtype=np.uint16))  # of all columns that arrays do not have
    arrays = []
    for field in ring_files.SCHEMA:
        values = pa.py_buffer(found[field.name]) if field.name in found else zeros
        nulls = (valid, missing) if pa.types.is_floating(field.type) else (None, 0)
        arrays.append(pa.Array.from_buffers(field.type, rows, [nulls[0], values], nulls[1]))
    return pa.Table.from_arrays(arrays, schema=ring_files.SCHEMA)
