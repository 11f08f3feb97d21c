# SPDX-License-Identifier: Apache-2.0
"""Support for long-running programs: stop signals, status lines."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

from nanet.errors import UsageError, describe_os_error
from nanet.report.output import plain

STATUS_S = 0.25


class StopFlag:
    """Stop signals received."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Signal handler."""
        self.signals.append(number)


@contextmanager
def stop_signals() -> Iterator[StopFlag]:
    """SIGINT and SIGTERM set a flag; a second signal has its default effect."""
    flag = StopFlag()

    def first(number: int, frame: FrameType | None) -> None:
        flag(number, frame)
        signal.signal(number, before[number])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, first)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt once; a second signal has its default effect."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def first(number: int, frame: FrameType | None) -> None:
        for one, handler in before.items():
            signal.signal(one, handler)
        raise KeyboardInterrupt

    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusWriter:
    """Writes lines of JSON at intervals of STATUS_S; stops when the reader has closed the file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._next = 0.0
        self._open = True

    def due(self) -> bool:
        """Whether the next line is due."""
        return self._open and time.monotonic() >= self._next

    def write(self, what: dict[str, Any]) -> None:
        """Writes one line, with the time (CLOCK_MONOTONIC) as `t`."""
        self._next = time.monotonic() + STATUS_S
        if not self._open:
            return
        try:
            self._file.write(json.dumps(plain({"t": time.monotonic(), **what}), allow_nan=False) + "\n")
            self._file.flush()
        except OSError:
            self._open = False


@contextmanager
def status_writer(path: str | None) -> Iterator[StatusWriter | None]:
    """Writer of the status file, None without one; the file may be a pipe (/dev/fd/N)."""
    if path is None:
        yield None
        return
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UsageError(
            f"--status {describe_os_error(error)}; give a file or pipe that can be written"
        ) from None
    try:
        yield StatusWriter(file)
    finally:
        with suppress(OSError):
            file.close()
