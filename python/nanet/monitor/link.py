# SPDX-License-Identifier: Apache-2.0
"""Trigger's end of the monitor: starts the monitor process and sends it snapshots of the counters."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from nanet.config.values import page_endpoint
from nanet.errors import UsageError, describe_os_error
from nanet.monitor.histograms import coarse
from nanet.report.output import plain

WATCHED_S, UNWATCHED_S = 0.1, 1.0  # between two snapshots, with and without open pages
PHYSICS_S = 1.0  # between two copies of histograms and occupancy
START_S = 30.0
END_S = 5.0
SEND_BYTES = 1 << 20


def is_loopback(host: str) -> bool:
    """Whether an address or name is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(text: str) -> None:
    """UsageError for a page address that is not one of this machine; "" is none. Its port may be in use."""
    if text:
        _listen(text, port=0).close()


def _listen(text: str, *, port: int | None = None) -> socket.socket:
    host, given = page_endpoint(text)
    port = given if port is None else port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"--monitor {describe_os_error(error, text)}; give an address of this machine and a free port"
        ) from None


def _make_ordinary(process: int, keep_off: set[int]) -> None:
    """Resets the child to normal priority, and to CPUs not reserved for the trigger."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(process, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(process, (os.sched_getaffinity(0) - keep_off) or os.sched_getaffinity(0))


class Monitor:
    """Context manager that runs the monitor process while the trigger runs.

    about: static information for the page: configuration, its hash, version and others. keep_off: CPUs of
    the trigger's threads, which the monitor avoids.
    """

    def __init__(self, listen: str, about: dict[str, Any], keep_off: Iterable[int] = ()) -> None:
        from nanet import _core

        self._server = _listen(listen)
        host, port = self._server.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        self._keep_off = set(keep_off)
        self._about = {**about, "loopback": is_loopback(host), "url": self.url}
        self.event_ring = os.memfd_create("nanet-events", os.MFD_CLOEXEC)
        os.ftruncate(self.event_ring, _core.SharedEventRing.bytes)
        self._link, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._link, self._theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        self._process: subprocess.Popen[bytes] | None = None
        self._watchers = 0
        self._next = self._next_physics = 0.0
        self.dropped = 0  # messages dropped because the monitor was too slow

    def __enter__(self) -> Monitor:
        kept = [self._server.fileno(), self._theirs.fileno(), self.event_ring]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nanet.monitor", *map(str, kept)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=kept,
        )  # fmt: skip
        _make_ordinary(self._process.pid, self._keep_off)
        self._server.close()
        self._theirs.close()
        self._send({"kind": "about", **self._about})
        # Its start occupies a CPU for a while: do it before the first packet.
        select.select([self._link], [], [], START_S)
        self._hear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()
        os.close(self.event_ring)
        if self._process is not None:
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def about(self, **more: Any) -> None:
        """Adds static information to the page."""
        self._about.update(more)
        self._send({"kind": "about", **self._about})

    def update(self, core: Any, to_result: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
        """Sends a snapshot if one is due: every 0.1 s with an open page, else every second.

        to_result: converts the core's snapshot to a result.
        """
        now = time.monotonic()
        before = self._watchers
        self._hear()
        if now < self._next and not self._watchers > before:
            return
        self._next = now + (WATCHED_S if self._watchers else UNWATCHED_S)
        self._send({"kind": "snapshot", "t": now, "snapshot": to_result(core.snapshot())})
        if now >= self._next_physics:
            self._next_physics = now + PHYSICS_S
            self._physics(core, now)

    def publish(self, snapshot: Callable[[], dict[str, Any]], *, last: bool = False) -> None:
        """Sends a snapshot of another program than the trigger, if one is due; last: at its end."""
        now = time.monotonic()
        before = self._watchers
        self._hear()
        if last:
            self._link.settimeout(1.0)
        elif now < self._next and not self._watchers > before:
            return
        self._next = now + (WATCHED_S if self._watchers else UNWATCHED_S)
        self._send({"kind": "result" if last else "snapshot", "t": now, "snapshot": snapshot()})

    def finish(self, core: Any, result: dict[str, Any]) -> None:
        """Sends the final result."""
        self._link.settimeout(1.0)  # the run has ended: blocking is harmless
        self._physics(core, time.monotonic())
        self._send({"kind": "result", "t": time.monotonic(), "snapshot": result})

    def _physics(self, core: Any, now: float) -> None:
        physics = core.monitor()
        events = physics.pop("events")
        # A GPU holds separate event samples.
        kept = events[-16:] if self._watchers and self._gpu(core) else []
        stages = coarse(core.histograms())
        self._send({"kind": "physics", "t": now, "physics": physics, "events": kept, "stages": stages})

    @staticmethod
    def _gpu(core: Any) -> bool:
        return core.snapshot()["device"] != "cpu"

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while said := self._link.recv(64, socket.MSG_DONTWAIT):
                self._watchers = int(said)

    def _send(self, message: dict[str, Any]) -> None:
        """Sends the whole message or nothing: a slow or closed monitor must not delay the trigger."""
        data = json.dumps(plain(message), allow_nan=False, separators=(",", ":")).encode()
        try:
            self._link.send(data, 0 if self._link.gettimeout() else socket.MSG_DONTWAIT)
        except OSError:
            self.dropped += 1
