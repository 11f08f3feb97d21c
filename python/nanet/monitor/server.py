# SPDX-License-Identifier: Apache-2.0
"""Web server of the monitor: page, feed, metrics and health; read-only.

A client receives the latest message of each kind once it has taken the previous one. Older messages are
dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import json
import os
import socket
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from aiohttp import WSMsgType, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from nanet.detector import load_or_default
from nanet.monitor.metrics import TriggerCollector
from nanet.monitor.state import State
from nanet.monitor.torus import TorusCollector, TorusState
from nanet.report.counters import for_page

MAX_WATCHERS = 64
EVENTS_PER_UPDATE = 4
SLOW_S = 10.0  # a client that takes nothing for this time is disconnected
LAST_WORDS_S = 0.5
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Watcher:
    """Pending messages of one page: at most one of each kind."""

    def __init__(self) -> None:
        self.pending: dict[str, str] = {}
        self.ready = asyncio.Event()

    def offer(self, kind: str, text: str) -> None:
        """Replaces the pending message of the same kind."""
        self.pending[kind] = text
        self.ready.set()

    async def next(self) -> list[str]:
        """Waits for a pending message."""
        await self.ready.wait()
        self.ready.clear()
        texts = list(self.pending.values())
        self.pending.clear()
        return texts


class Server:
    """State, routes and open pages of the monitor."""

    def __init__(self, event_ring: Any, on_watchers: Callable[[int], None] = lambda watchers: None) -> None:
        """event_ring: event samples; on_watchers: called with the number of open pages when it changes."""
        self.state: State | TorusState = State()
        self.event_ring = event_ring
        self.on_watchers = on_watchers
        self.watchers: set[Watcher] = set()
        self.over = asyncio.Event()
        self._collector: TriggerCollector | TorusCollector = TriggerCollector(self.state)
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)

    def take(self, data: bytes) -> None:
        """Takes a message of the trigger: updates the state, and passes it to the pages."""
        message = json.loads(data)
        if message.get("shows") == "torus" and isinstance(self.state, State):
            self._show_torus()
        kind = self.state.take(message)
        self._collector.watchers = len(self.watchers)
        if not self.watchers:
            return
        if kind in ("snapshot", "result"):
            self._offer("state", self.state.feed())
            if not self.state.samples_events:
                return
            events = self.event_ring.take()
            self.event_ring.request(EVENTS_PER_UPDATE)
            if events:
                self._offer("events", {"type": "events", "events": events[-EVENTS_PER_UPDATE:]})
        elif kind == "physics":
            self._offer("physics", self.state.physics_feed())
            if message["events"]:
                self._offer("events", {"type": "events", "events": message["events"]})

    def _show_torus(self) -> None:
        self.state = TorusState()
        self._registry.unregister(self._collector)
        self._collector = TorusCollector(self.state)
        self._registry.register(self._collector)

    def _offer(self, kind: str, message: dict[str, Any]) -> None:
        text = json.dumps(message, separators=(",", ":"))
        for watcher in self.watchers:
            watcher.offer(kind, text)

    def application(self) -> web.Application:
        """Routes of the server, all GET."""
        app = web.Application(middlewares=[self._guard], client_max_size=1024)
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{name:[A-Za-z0-9.]+}", self._static)
        app.router.add_get("/static/vendor/{name:[A-Za-z0-9.]+}", self._vendor)
        app.router.add_get("/feed", self._feed)
        app.router.add_get("/geometry.json", self._geometry)
        app.router.add_get("/status.json", self._status)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # A page of another site must not read this one through a name that resolves to 127.0.0.1 (DNS
        # rebinding).
        if self.state.about.get("loopback", True) and not _local_name(request.host):
            raise web.HTTPForbidden(text="this monitor answers to addresses of this machine only\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _file(self, name: str, request: web.Request) -> web.Response:
        suffix = name[name.rfind(".") :]
        path = resources.files("nanet.monitor") / "static" / name
        if suffix not in TYPES or not path.is_file():
            raise web.HTTPNotFound
        return web.Response(body=path.read_bytes(), content_type=TYPES[suffix], charset="utf-8")

    async def _page(self, request: web.Request) -> web.Response:
        return await self._file(self.state.page, request)

    async def _static(self, request: web.Request) -> web.Response:
        return await self._file(request.match_info["name"], request)

    async def _vendor(self, request: web.Request) -> web.Response:
        return await self._file(f"vendor/{request.match_info['name']}", request)

    async def _geometry(self, request: web.Request) -> web.Response:
        return web.json_response(text=_geometry(self.state.detector))

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response({**self.state.feed(), "about": self.state.about})

    async def _health(self, request: web.Request) -> web.Response:
        ok, line = self.state.health()
        return web.Response(text=line + "\n", status=200 if ok else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _feed(self, request: web.Request) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="another page's feed\n")
        if len(self.watchers) >= MAX_WATCHERS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_WATCHERS} pages are open already\n")
        ws = web.WebSocketResponse(heartbeat=20.0, max_msg_size=1024, compress=False, timeout=1.0)
        await ws.prepare(request)
        watcher = Watcher()
        hello = {
            "type": "hello",
            "about": self.state.about,
            "counters": for_page(),
            "history": list(self.state.history),
        }
        watcher.offer("hello", json.dumps(hello))
        if self.state.snapshot:
            watcher.offer("state", json.dumps(self.state.feed()))
        if self.state.physics:
            watcher.offer("physics", json.dumps(self.state.physics_feed()))
        self.watchers.add(watcher)
        self.on_watchers(len(self.watchers))
        sending = asyncio.create_task(_send(ws, watcher))
        try:
            async for message in ws:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break  # messages from a page are ignored
        finally:
            self.watchers.discard(watcher)
            self.on_watchers(len(self.watchers))
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await sending
        return ws


async def _send(ws: web.WebSocketResponse, watcher: Watcher) -> None:
    try:
        while True:
            for text in await watcher.next():
                await asyncio.wait_for(ws.send_str(text), SLOW_S)
    except (TimeoutError, ConnectionError):
        if ws._req is not None and ws._req.transport is not None:
            ws._req.transport.abort()


def _local_name(host: str) -> bool:
    """Whether the Host header names this machine by an address or as localhost."""
    name = host
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        name = host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@functools.cache
def _geometry(file: str) -> str:
    """Positions of the PMs (mm) on their disks and in the common plane, disks, boards, limits of drawings.

    file: of the detector; "": NA62's.
    """
    detector = load_or_default(file)
    return json.dumps(
        {
            "disk": detector.position.round(3).tolist(),
            "common": detector.common.round(3).tolist(),
            "disk_of": detector.disk.tolist(),
            "disks": detector.disks,
            "boards": detector.first_of_boards(),
            "pitch": detector.display.pitch_mm,
            "x": detector.display.x_mm,
            "y": detector.display.y_mm,
        }
    )


async def serve(listening: socket.socket, link: socket.socket, ring_fd: int) -> None:
    """Serves messages of the link on a listening socket, until the other end of the link is closed."""
    from nanet import _core

    event_ring = _core.SharedEventRing(ring_fd)
    os.close(ring_fd)

    def on_watchers(watchers: int) -> None:
        with contextlib.suppress(OSError):
            link.send(str(watchers).encode())

    server = Server(event_ring, on_watchers)
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=15.0,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    await web.SockSite(runner, listening, backlog=1024).start()
    loop = asyncio.get_running_loop()
    link.setblocking(False)
    await loop.sock_sendall(link, b"0")  # ready
    try:
        while data := await loop.sock_recv(link, 1 << 22):
            server.take(data)
    except OSError:
        pass
    if not server.state.ended:
        server._offer("state", {"type": "lost"})
    await asyncio.sleep(LAST_WORDS_S)
    await runner.cleanup()
