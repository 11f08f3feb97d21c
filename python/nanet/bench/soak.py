# SPDX-License-Identifier: Apache-2.0
"""`nanet bench soak`: growth of memory and effects on a trigger whose monitor is under load for minutes.

Clients: readers that take every update, many idle connections, pages that never read, and senders of
malformed data. Memory is the resident memory of trigger and monitor.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import resource
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.chain import Programs, wait_for_port
from nanet.bench.monitor import boards_here
from nanet.bench.trigger import kept_free, links, own_cores, trigger_options
from nanet.report.output import packets_lost
from nanet.run import host
from nanet.run.ports import free_ports, free_tcp_port

SECONDS = 600.0
SPEED = 0.002  # on a host with few cores: a rate that any host sustains with these clients
START_S = 60.0
EVERY_S = 10.0  # between two samples
READERS, IDLE, SLOW = 3, 1000, 16
SLOW_S, GARBAGE_S = 60.0, 0.05  # time without reading of a page; between two malformed requests
HANDSHAKE = (
    b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
GARBAGE = (
    b"\0" * 5000,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"x" * 100_000,
    b"\x16\x03\x01\x02\x00",
    b"\r\n" * 9,
    b"POST /feed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n" + b"y" * 5000,
    b"GET /static/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    HANDSHAKE + b"\xff" * 3000,  # an invalid frame follows
    HANDSHAKE[:40],
)


class Crowd:
    """All clients, in one thread; a context manager."""

    def __init__(self, port: int) -> None:
        self.updates = self.garbage = self.slow = self.idle_let_go = 0
        self.trigger: dict[str, Any] = {}  # latest numbers
        self.idle: list[socket.socket] = []
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._all.cancel)
        self._thread.join(10.0)

    def _run(self) -> None:
        self._all = self._loop.create_task(self._everyone())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all)
        self._loop.close()

    async def _everyone(self) -> None:
        slow = [self._slow() for _ in range(SLOW)]
        await asyncio.gather(
            *(self._read() for _ in range(READERS)), *slow, self._say_nothing(), self._rave()
        )

    async def _connect(self) -> socket.socket:
        while True:
            with contextlib.suppress(OSError):
                client = socket.socket()
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await asyncio.wait_for(self._loop.sock_connect(client, ("127.0.0.1", self._port)), 5.0)
                return client
            await asyncio.sleep(0.5)

    async def _read(self) -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    url = f"http://127.0.0.1:{self._port}/feed"
                    async with session.ws_connect(url, max_msg_size=1 << 24) as ws:
                        async for message in ws:
                            if message.type == aiohttp.WSMsgType.TEXT:
                                self._heard(json.loads(message.data))
                await asyncio.sleep(0.2)

    def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "state" and "frames_late" in message.get("trigger", ()):
            self.updates += 1
            self.trigger = message["trigger"]

    async def _slow(self) -> None:
        """A page that never reads; sent data waits, so it does not notice that it was disconnected."""
        while True:
            with await self._connect() as client, contextlib.suppress(OSError):
                await self._loop.sock_sendall(client, HANDSHAKE)
                await asyncio.sleep(SLOW_S)
            self.slow += 1

    async def _say_nothing(self) -> None:
        while True:
            for client in [client for client in self.idle if let_go(client)]:
                client.close()
                self.idle.remove(client)
                self.idle_let_go += 1
            while len(self.idle) < IDLE:
                self.idle.append(await self._connect())
            await asyncio.sleep(1.0)

    async def _rave(self) -> None:
        for said in itertools.cycle(GARBAGE):
            with await self._connect() as client:
                with contextlib.suppress(OSError):
                    await asyncio.wait_for(self._loop.sock_sendall(client, said), 1.0)
                await asyncio.sleep(GARBAGE_S)
            self.garbage += 1


def let_go(client: socket.socket) -> bool:
    """Whether the other end has closed the connection."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


def run(settings: Settings, sheet: Sheet) -> None:
    """One row every ten seconds; figures: median memory in the second and last quarter, updates."""
    seconds = settings.seconds or SECONDS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1 << 16), most))
    with contextlib.ExitStack() as stack:
        programs = stack.enter_context(Programs(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        mtp, *mgp = free_ports(1 + links(settings))
        page = free_tcp_port()
        listen = ",".join(f"127.0.0.1:{port}" for port in mgp)
        options = [*trigger_options(settings), "--monitor", str(page)]
        full = bool(own_cores(settings))
        speed = 1.0 if full else SPEED
        boards = ["--pad", *boards_here(settings)] if full else []
        trigger = programs.start("trigger", "--listen", listen, "--send", f"127.0.0.1:{mtp}", *options)
        stack.enter_context(host.apart(kept_free(settings)))
        l0tp = programs.start("l0tp", "--listen", f"127.0.0.1:{mtp}")
        wait_for_port(mtp, l0tp)
        wait_until_well(page, trigger)
        sheet(
            f"http://127.0.0.1:{page}/ for {seconds:g} s at {settings.rate * speed / 1e6:g} MHz: "
            f"{IDLE} idle clients, {SLOW} slow, garbage"
        )
        # Boards that send until stopped, with bursts as in the experiment.
        paced = ["--rate", str(settings.rate), "--speed", str(speed), "--duration", str(seconds + 60)]
        programs.start("readout", "--to", listen, *paced, *boards)
        with Crowd(page) as crowd:
            look(crowd, trigger.pid, seconds, sheet)
        trigger.send_signal(signal.SIGTERM)
        trigger.wait(30)
        result = programs.result("trigger")
    if not result["events_built"]:
        raise RuntimeError("the trigger received no packets")
    if not result["account_closes"]:
        raise RuntimeError("the trigger's account does not close")
    sheet.figures |= {
        "events": result["events_built"],
        "lost": float(packets_lost(result["lost"])),
        "late": float(result["frames_late"]),
        "bad": float(sum(result["bad_packets"].values())),
        "p50_us": result["latency_us"]["total"]["p50"],
        "p99_9_us": result["latency_us"]["total"]["p99_9"],
    }


def wait_until_well(page: int, trigger: subprocess.Popen[str]) -> None:
    """Waits until the monitor reports a healthy trigger. RuntimeError after a timeout."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and trigger.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{page}/health", timeout=5.0):
            return
        time.sleep(0.1)
    raise RuntimeError("the monitor did not report a healthy trigger")


def look(crowd: Crowd, trigger: int, seconds: float, sheet: Sheet) -> None:
    """Samples memory and the clients' updates until the end of the run."""
    began = time.monotonic()
    before = (began, 0)
    rows: list[Row] = []
    while time.monotonic() < began + seconds:
        time.sleep(min(EVERY_S, seconds / 5))
        now, updates = time.monotonic(), crowd.updates
        row: Row = {
            "seconds": round(now - began, 1),
            "trigger_kB": memory_kb(trigger),
            "monitor_kB": memory_kb(monitor_of(trigger)),
            "monitor_files": len(list(Path(f"/proc/{monitor_of(trigger)}/fd").iterdir())),
            "idle_clients": len(crowd.idle),
            "updates_per_s": (updates - before[1]) / (now - before[0]) / READERS,
            "garbage": crowd.garbage,
            "frames": crowd.trigger.get("frames_out", 0),
            "late": crowd.trigger.get("frames_late", 0),
            "lost": packets_lost(crowd.trigger.get("lost", {})),
        }
        before = (now, updates)
        rows.append(row)
        sheet.rows.append(row)
        sheet(
            f"trigger {row['trigger_kB']} kB, monitor {row['monitor_kB']} kB, {row['updates_per_s']:.1f} /s"
        )
    for name in ("trigger", "monitor"):
        early = [row[f"{name}_kB"] for row in rows if 0.2 < row["seconds"] / seconds < 0.45]
        late = [row[f"{name}_kB"] for row in rows if row["seconds"] / seconds > 0.75]
        sheet.figures[f"{name}_early_kB"] = median(early)
        sheet.figures[f"{name}_late_kB"] = median(late)
    sheet.figures["updates_per_s"] = crowd.updates / READERS / (before[0] - began)
    sheet.figures["garbage_requests"] = crowd.garbage
    sheet.figures["slow_clients"] = crowd.slow + SLOW
    sheet.figures["idle_clients_let_go"] = crowd.idle_let_go


def memory_kb(process: int) -> int:
    """Resident memory of a process (kB)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def monitor_of(trigger: int) -> int:
    """Process ID of a trigger's monitor, its only child. RuntimeError if there is none."""
    children = Path(f"/proc/{trigger}/task/{trigger}/children").read_text().split()
    if len(children) != 1:
        raise RuntimeError(f"the trigger has {len(children)} children; one was expected, its monitor")
    return int(children[0])
