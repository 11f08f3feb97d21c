# SPDX-License-Identifier: Apache-2.0
"""`nanet bench monitor`: what the monitor costs the trigger: the same chain with it and without, in turns.

With it, pages' worth of watchers take every update. Both kinds of runs are told apart by nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from types import TracebackType

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.chain import run_chain

SECONDS = 10.0
WATCHERS = 3
SPEED = 0.01  # of a machine with few cores; a rate far from what it can carry, so that latency is not queues
LEVELS = ("p50", "p99", "p99_9")


class Watchers:
    """Takes the page's feed in a thread, as WATCHERS browsers would; a context manager."""

    def __init__(self, port: int) -> None:
        self.updates = self.bytes = self.events = 0
        self._url = f"http://127.0.0.1:{port}/feed"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="watchers", daemon=True)

    def __enter__(self) -> Watchers:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._all.cancel)
        self._thread.join(10.0)

    def _run(self) -> None:
        self._all = self._loop.create_task(self._watch())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all)
        self._loop.close()

    async def _watch(self) -> None:
        await asyncio.gather(*(self._one() for _ in range(WATCHERS)))

    async def _one(self) -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with session.ws_connect(self._url, max_msg_size=1 << 24) as ws:
                        async for message in ws:
                            if message.type != aiohttp.WSMsgType.TEXT:
                                continue
                            said = json.loads(message.data)
                            self.bytes += len(message.data)
                            self.updates += said["type"] == "state"
                            self.events += len(said.get("events", ())) if said["type"] == "events" else 0
                await asyncio.sleep(0.2)


def run(settings: Settings, sheet: Sheet) -> None:
    """Pairs of runs: latency without and with the monitor, and what its watchers took meanwhile."""
    seconds = settings.seconds or SECONDS
    options = ["--device", settings.device, "--algorithm", settings.algorithm]
    rows = sheet.rows
    for pair in range(settings.runs):
        for watched in (False, True) if pair % 2 == 0 else (True, False):  # a drift hits both alike
            sheet(f"pair {pair + 1} of {settings.runs}, monitor {'on' if watched else 'off'}")
            rows.append({"pair": pair + 1, **one(seconds, settings.rate, options, watched)})
    figures = sheet.figures
    for name in ("off", "on"):
        mine = [row for row in rows if row["monitor"] == name]
        for level in LEVELS:
            figures[f"{name}_{level}_us"] = median([row[f"{level}_us"] for row in mine])
            figures[f"{name}_{level}_spread_us"] = spread([row[f"{level}_us"] for row in mine])
    figures["updates_per_s"] = median([row["updates"] for row in rows if row["monitor"] == "on"]) / (
        WATCHERS * seconds
    )


def one(seconds: float, rate: float, options: list[str], watched: bool) -> Row:
    """One run of the chain: a row."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    page = ["--monitor", f"127.0.0.1:{port}"] if watched else []
    with Watchers(port) if watched else contextlib.nullcontext() as watchers:
        result = run_chain(seconds, SPEED, pad=False, rate=rate, trigger_options=[*options, *page])
    total = result.trigger["latency_us"]["total"]
    return {
        "monitor": "on" if watched else "off",
        **{f"{level}_us": total[level] for level in LEVELS},
        "n": total["n"],
        "losses": sum(result.losses.values()),
        "updates": watchers.updates if watchers else 0,
        "events_shown": watchers.events if watchers else 0,
        "MB": round(watchers.bytes / 1e6, 1) if watchers else 0.0,
    }


def spread(values: list[float]) -> float:
    """Largest minus smallest: the noise between runs of one kind."""
    return max(values) - min(values)
