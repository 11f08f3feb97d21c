# SPDX-License-Identifier: Apache-2.0
"""`nanet bench monitor`: cost of the monitor for the trigger, in pairs of runs with and without it.

Loads: one packet at a time, and the chain of boards, trigger and L0TP. Runs with the monitor have clients
that take every update. The runs are otherwise identical.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.chain import ChainResult, Programs, run_chain, wait_for_port
from nanet.bench.latency import BUSY_DEADLINE_US, DEADLINE_US, EVENTS, pins
from nanet.bench.trigger import kept_free, links, own_cores, trigger_options, when_due
from nanet.run import host
from nanet.run.ports import free_ports, free_tcp_port

SECONDS = 10.0
WATCHERS = 3
SPEED = 0.01  # for few cores; far below capacity, so that queues do not dominate the latency
LEVELS = ("p50", "p99", "p99_9")


class Watchers:
    """Reads the page's feed in a thread, like WATCHERS browsers; a context manager."""

    def __init__(self, port: int) -> None:
        self.updates = self.bytes = self.events = 0
        self._first = self._last = 0.0  # arrival times of updates
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

    @property
    def updates_per_s(self) -> float:
        """Updates per second of each client, from the first update to the last."""
        return (self.updates / WATCHERS - 1) / max(self._last - self._first, 1e-9) if self.updates else 0.0

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
                            if said["type"] == "state":
                                self.updates += 1
                                self._last = time.monotonic()
                                self._first = self._first or self._last
                            self.events += len(said.get("events", ())) if said["type"] == "events" else 0
                await asyncio.sleep(0.2)


def run(settings: Settings, sheet: Sheet) -> None:
    """Pairs of runs: latency without and with the monitor, and the updates taken."""
    rows = sheet.rows
    for load, measure in (("chain", chain), ("packets", packets)):
        for pair in range(settings.runs):
            for watched in (
                (False, True) if pair % 2 == 0 else (True, False)
            ):  # alternating order: a drift affects both
                name = "on" if watched else "off"
                sheet(f"{load}, pair {pair + 1} of {settings.runs}, monitor {name}")
                rows.append({"load": load, "pair": pair + 1, "monitor": name, **measure(settings, watched)})
        sheet.figures.update(compare(load, [row for row in rows if row["load"] == load]))
    sheet.figures["updates_per_s"] = median(
        [row["updates_per_s"] for row in rows if row["monitor"] == "on" and row["load"] == "chain"]
    )


def compare(load: str, rows: list[Row]) -> dict[str, float]:
    """Medians without and with the monitor; differences within pairs, and the noise of either kind."""
    figures = {}
    for level in LEVELS:
        of = {name: [row[f"{level}_us"] for row in rows if row["monitor"] == name] for name in ("off", "on")}
        for name, values in of.items():
            figures[f"{load}_{name}_{level}_us"] = median(values)
            figures[f"{load}_{name}_{level}_spread_us"] = spread(values)
        by_pair = sorted(rows, key=lambda row: (row["monitor"], row["pair"]))
        half = len(by_pair) // 2
        figures[f"{load}_difference_{level}_us"] = median(
            [
                on[f"{level}_us"] - off[f"{level}_us"]
                for off, on in zip(by_pair[:half], by_pair[half:], strict=True)
            ]
        )
    return figures


def packets(settings: Settings, watched: bool) -> Row:
    """One packet at a time through a trigger, as in `bench latency`: a row."""
    from nanet import _core

    # With few cores two polling threads would wait for each other and everything else.
    sender, responder = pins() if own_cores(settings) else (-1, -1)
    deadline = DEADLINE_US if own_cores(settings) else BUSY_DEADLINE_US
    ping = _core.Ping()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        programs = stack.enter_context(Programs(folder))
        stack.enter_context(host.apart({sender}))
        (mgp,), port = free_ports(1), free_tcp_port()
        trigger = programs.start(
            "trigger", "--listen", f"127.0.0.1:{mgp}", "--send", f"127.0.0.1:{ping.reply_port}",
            "--boards", "merged", "--device", settings.device, "--algorithm", settings.algorithm,
            *(["--busy", "yes", "--pin", str(responder)] if responder >= 0 else []),
            "--timeout-us", f"{deadline / 2:g}", "--deadline-us", f"{deadline:g}",
            *(["--monitor", f"127.0.0.1:{port}"] if watched else []),
        )  # fmt: skip
        wait_for_port(mgp, trigger)
        stack.enter_context(host.apart({responder}))
        watchers = stack.enter_context(Watchers(port)) if watched else None
        measured = round_trips(ping, f"127.0.0.1:{mgp}", settings.samples, sender, trigger)
        row = taken(watchers)
    levels = {f"{level}_us": measured[f"{level}_us"] for level in LEVELS}
    return {**levels, "n": measured["samples"], "losses": measured["lost"] + measured["wrong"], **row}


def round_trips(ping: Any, to: str, samples: int, cpu: int, trigger: subprocess.Popen[str]) -> dict[str, Any]:
    """Result of `Ping.run`, called in a thread so that signals are handled. wrong: includes late answers."""
    found: list[dict[str, Any]] = []

    def measure() -> None:
        found.append(ping.run(to, False, samples, EVENTS, cpu=cpu))

    thread = threading.Thread(target=measure, name="round trips", daemon=True)
    thread.start()
    while thread.is_alive():
        if trigger.poll() is not None:
            raise RuntimeError("the trigger ended too early")
        thread.join(0.1)
    return found[0]


def chain(settings: Settings, watched: bool) -> Row:
    """Boards, trigger and L0TP: a row."""
    seconds = settings.seconds or SECONDS
    port = free_tcp_port()
    page = ["--monitor", f"127.0.0.1:{port}"] if watched else []
    with Watchers(port) if watched else contextlib.nullcontext() as watchers:
        result = chain_here(settings, seconds, page)
    total = result.trigger["latency_us"]["total"]
    return {
        **{f"{level}_us": total[level] for level in LEVELS},
        "n": total["n"],
        "losses": sum(result.losses.values()),
        **taken(watchers),
    }


def speed_here(settings: Settings) -> float:
    """Speed: the detector's on a host with enough cores."""
    return 1.0 if own_cores(settings) else SPEED


def boards_here(settings: Settings) -> list[str]:
    """Options of `nanet readout` at that speed."""
    if not own_cores(settings):
        return []
    return when_due(settings)


def chain_here(settings: Settings, seconds: float, more: list[str]) -> ChainResult:
    """The chain at a rate that this host sustains; more: options of the trigger."""
    speed = speed_here(settings)
    return run_chain(
        seconds,
        speed,
        pad=speed == 1.0,
        rate=settings.rate,
        trigger_options=[*trigger_options(settings), *more],
        board_options=boards_here(settings),
        keep_off=kept_free(settings),
        links=links(settings),
    )


def taken(watchers: Watchers | None) -> Row:
    """Updates taken by the clients, if any."""
    return {
        "updates_per_s": watchers.updates_per_s if watchers else 0.0,
        "events_shown": watchers.events if watchers else 0,
        "MB": round(watchers.bytes / 1e6, 1) if watchers else 0.0,
    }


def spread(values: list[float]) -> float:
    """Largest minus smallest value: the noise between runs of one kind."""
    return max(values) - min(values)
