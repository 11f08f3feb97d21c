# SPDX-License-Identifier: Apache-2.0
"""Monitor page of a running trigger."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nanet.config.file import Config
from nanet.config.sections import Card, DetectorFile, Monitor, RealTime, Trigger

if TYPE_CHECKING:
    from rich.console import Console

    from nanet.monitor.link import Monitor as Page


def config_hash(config: Config) -> str:
    """SHA-256 of the trigger's configuration: the TOML of its sections and algorithms."""
    return hashlib.sha256(config.toml(Trigger, Card).encode()).hexdigest()


class Watching:
    """Context manager around the trigger; opens the monitor page, and adds `event_ring` to the settings."""

    def __init__(self, config: Config, settings: dict[str, Any], out: Console) -> None:
        self.hash = config_hash(config)
        self.page: Page | None = None
        self._config = config
        self._settings = settings
        self._out = out
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Watching:
        asked = self._config[Monitor]
        with contextlib.ExitStack() as stack:
            if asked.monitor:
                from nanet.monitor.link import Monitor as Page

                self.page = stack.enter_context(Page(asked.monitor, self._about(), self._settings["pin"]))
                self._settings["event_ring"] = self.page.event_ring
                self._out.print(f"monitor: {self.page.url}", highlight=False, markup=False, soft_wrap=True)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def about(self, **more: Any) -> None:
        """Passes static information of the run to the page."""
        if self.page:
            self.page.about(**more)

    def update(self, core: Any, to_result: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Passes counters to the page; called by the thread that waits for the trigger.

        to_result: converts the core's snapshot to a result (RunControl.result).
        """
        if self.page:
            self.page.update(core, to_result)

    def finish(self, core: Any, result: dict[str, Any]) -> None:
        """Passes the trigger's final result to the page."""
        if self.page:
            self.page.finish(core, result)

    def _about(self) -> dict[str, Any]:
        from nanet import __version__
        from nanet.run import host

        return {
            "config": self._config.toml(Trigger, Card, DetectorFile, RealTime),
            "config_hash": self.hash,
            "command": shlex.join(["nanet", *sys.argv[1:]]),
            "version": __version__,
            "started": time.time(),
            "host": host.describe(),
            "listen": self._settings["listen"],
            "send": self._settings["send"],
            **self._detector(),
        }

    def _detector(self) -> dict[str, Any]:
        """Detector for the page, if it is not NA62's: its file, which the monitor reads, and its boards."""
        core, file = self._settings["detector"], self._config[DetectorFile].detector
        if not core:
            return {}
        return {"detector": {"file": file, "name": core["name"], "boards": core["boards"]}}
