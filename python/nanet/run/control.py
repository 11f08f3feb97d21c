# SPDX-License-Identifier: Apache-2.0
"""Run control between bursts: reloads conditions and writes burst reports."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import IO, Any

from nanet.config.conditions import PM_COUNT, Watch
from nanet.config.sections import Trigger
from nanet.errors import UsageError, describe_os_error
from nanet.report.output import plain

WATCH_S = 0.5


class RunControl:
    """Called periodically by the loop that waits for the core; never in a packet's path."""

    def __init__(
        self,
        core: Any,
        section: Trigger,
        err: Any,
        config_hash: str,
        channels: int = PM_COUNT,
        loop: str | None = None,
    ) -> None:
        """err: console for warnings during the run; channels: of the detector; loop: JSON file of a loop.

        UsageError if the file of burst reports cannot be written.
        """
        self._core = core
        self._err = err
        self._config_hash = config_hash
        self._watch = Watch(section.conditions, channels) if section.conditions else None
        self._loop = Path(loop) if loop else None
        self._next = 0.0
        self._file: IO[str] | None = None
        self.conditions_refused = 0
        path = section.burst_report
        if path:
            try:
                self._file = open(path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
            except OSError as error:
                text = f"--burst-report {describe_os_error(error)}; give a file that can be written"
                raise UsageError(text) from None

    def look(self) -> list[dict[str, Any]]:
        """Passes new conditions to the core; writes and returns the reports of finished bursts."""
        if self._watch and time.monotonic() >= self._next:
            self._next = time.monotonic() + WATCH_S
            self._reload(self._watch)
        reports = [{"time": time.time(), **self._with_hash(report)} for report in self._core.take_bursts()]
        for report in reports:
            self._write(report)
        return reports

    def _with_hash(self, report: dict[str, Any]) -> dict[str, Any]:
        return {**report, "config_hash": self._config_hash}

    def _reload(self, watch: Watch) -> None:
        try:
            changed = watch.changed()
        except UsageError as error:
            self.conditions_refused += 1
            self._err.print(f"conditions unchanged: {error}", style="yellow", markup=False)
            return
        if changed is not None:
            self._core.offer_conditions(changed.core())

    def _write(self, report: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(plain(report), allow_nan=False) + "\n")
        except OSError as error:
            self._err.print(f"--burst-report: {describe_os_error(error)}: no further lines", style="yellow")
            self._file = None

    def result(self, result: dict[str, Any]) -> dict[str, Any]:
        """The core's result or snapshot with configuration hash, refused conditions, account of the loop."""
        out = {**result, "config_hash": self._config_hash}
        if self._watch:
            out["conditions"] = {**out["conditions"], "refused": self.conditions_refused}
        if self._loop and "final" in out:
            with contextlib.suppress(OSError, ValueError):  # not written yet
                out["final"] = {**out["final"], "loop": json.loads(self._loop.read_text("utf-8")) or None}
        return out

    def close(self) -> None:
        """Writes the last reports and closes the file."""
        self.look()
        if self._file:
            self._file.close()
