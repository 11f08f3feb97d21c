# SPDX-License-Identifier: Apache-2.0
"""Ring finder of a user: a Python function FILE.py:FUNCTION beside the algorithms of nanet.

def find(x, y, first):  # hits of all events in mm; event i has x[first[i]:first[i + 1]]
    return {"event": ..., "x": ..., "y": ..., "r": ..., "n_hits": ...}  # a value per ring; chi2_ndf optional
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nanet.detector import Detector
from nanet.errors import UsageError, describe_os_error

if TYPE_CHECKING:
    from nanet.quality.evaluate import Events

Finder = Callable[[np.ndarray, np.ndarray, np.ndarray], Mapping[str, Any]]
COLUMNS = ("event", "x", "y", "r", "n_hits")


def is_function(given: str) -> bool:
    """Whether a name of --algorithms is a Python function."""
    return ".py:" in given


def name_of(given: str) -> str:
    """Name of the function in tables."""
    return given.rpartition(":")[2]


def load(given: str) -> Finder:
    """Function of FILE.py:FUNCTION; runs the file. UsageError."""
    file, _, name = given.rpartition(":")
    try:
        text = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"--algorithms {describe_os_error(error, file)}") from None
    module = types.ModuleType(f"nanet_finder_{Path(file).stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses and pickle look it up
    folder = os.path.dirname(os.path.abspath(file))
    try:
        with _first_on_the_path(folder):  # the file's own imports, as in `python FILE.py`
            exec(compile(text, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise UsageError(_described(file, file, error)) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"--algorithms {given}: the file defines no function {name}")
    return function


@contextlib.contextmanager
def _first_on_the_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _described(given: str, file: str, error: BaseException) -> str:
    """An error of the user's code, with the last line of the file that led to it."""
    lines = [where.lineno for where in traceback.extract_tb(error.__traceback__) if where.filename == file]
    at = f", line {lines[-1]}" if lines else ""
    return f"--algorithms {given}{at}: {type(error).__name__}: {error}"


def run(capture: str, given: str, detector: Detector | None = None) -> Events:
    """Events of a capture with the rings of a function. UsageError for an error in it, or a wrong result.

    detector: of the capture; default: NA62's.
    """
    from nanet import _core
    from nanet.files.captures import read_events
    from nanet.files.own_rings import ring_table
    from nanet.files.rings import NO_RING
    from nanet.files.tables import offsets_and_values
    from nanet.quality.evaluate import events_of

    find, file = load(given), given.rpartition(":")[0]
    events = read_events(capture, detector=detector)
    first, pm = offsets_and_values(events["pm"])
    x, y = (detector.common if detector else _core.pm_positions_common())[pm].T
    try:
        with _first_on_the_path(os.path.dirname(os.path.abspath(file))):
            found = dict(find(x.copy(), y.copy(), first.astype(np.int64)))
    except (Exception, SystemExit) as error:
        raise UsageError(_described(given, file, error)) from error
    missing = [name for name in COLUMNS if name not in found]
    if missing:
        raise UsageError(
            f"--algorithms {given}: the result has no {missing[0]}; it needs {', '.join(COLUMNS)}"
        )
    try:
        table = ring_table(events, *(found[name] for name in COLUMNS), found.get("chi2_ndf"))
    except UsageError as error:
        raise UsageError(f"--algorithms {given}: {error}") from None
    return events_of({name: table[name].to_numpy() for name in table.column_names}, NO_RING)
