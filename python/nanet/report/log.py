# SPDX-License-Identifier: Apache-2.0
"""Log of a run as lines of JSON (`nanet --log FILE`), and the amount of output (`-v`, `-q`).

A line has `time` (UTC), `level` (debug, info, warning, error) and `event` (start, configuration, message,
result, error, end), with further keys by event.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import IO, Any

from nanet.errors import UsageError, describe_os_error

_file: IO[str] | None = None
verbose = False
quiet = False


def configure(path: str | None, *, more: bool, less: bool) -> None:
    """Opens the file, to which lines are appended. more, less: -v and -q. UsageError."""
    global _file, verbose, quiet
    verbose, quiet = more, less
    if more and less:
        raise UsageError("-v and -q exclude each other: give one of them")
    if path is not None:
        try:
            _file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"--log {describe_os_error(error)}; give a file that can be written") from None


def line(level: str, event: str, **values: Any) -> None:
    """Writes a line, if there is a log; with -v also shows a line of level debug on standard error.

    values: of types that strict JSON has.
    """
    if level == "debug" and verbose:
        print(f"nanet: {event}", *values.values(), sep="\n", file=sys.stderr)
    if _file is None:
        return
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    text = json.dumps({"time": time, "level": level, "event": event, **values}, allow_nan=False)
    try:
        _file.write(text + "\n")
    except OSError as error:
        close()
        print(f"nanet: --log {describe_os_error(error)}: the log ends here", file=sys.stderr)


def is_open() -> bool:
    """Whether there is a log."""
    return _file is not None


def close() -> None:
    """Closes the log and resets the amount of output."""
    global _file, verbose, quiet
    verbose = quiet = False
    if _file is not None:
        _file.close()
        _file = None
