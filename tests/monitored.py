# SPDX-License-Identifier: Apache-2.0
"""Trigger with a monitor, and clients of its feed."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parent))


class Running:
    """A trigger with its monitor, and boards to feed it."""

    def __init__(self, program: str, folder: Path, ports: list[int]) -> None:
        self.program, self.folder = program, folder
        self.listen, self.send, self.page = ports
        self.url = f"http://127.0.0.1:{self.page}"
        (folder / "conditions.toml").write_text("mask = [17, 900]")
        self.trigger = subprocess.Popen(
            [program, "trigger", "--listen", f"127.0.0.1:{self.listen}", "--send", f"127.0.0.1:{self.send}",
             "--algorithm", "math", "--monitor", str(self.page), "--conditions", "conditions.toml",
             "--downscale", "0=2", "--json", "trigger.json"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = [self.trigger.stdout.readline(), self.trigger.stdout.readline()]
        self.stopping = False

    def feed(self, *more: str, speed: float = 0.0005) -> None:
        """Sends events until all are sent."""
        subprocess.run(
            [self.program, "readout", "--to", f"127.0.0.1:{self.listen}", "--speed", str(speed), *more],
            cwd=self.folder, check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def feeding(self, *more: str, speed: float = 0.0005) -> subprocess.Popen[bytes]:
        """Feeds in parallel to the body."""
        return subprocess.Popen(
            [self.program, "readout", "--to", f"127.0.0.1:{self.listen}", "--speed", str(speed), *more],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def request_stop(self) -> None:
        """Stops the trigger, once: a second signal would kill it."""
        if not self.stopping:
            self.trigger.send_signal(signal.SIGTERM)
        self.stopping = True

    def stop(self) -> dict[str, Any]:
        """Stops the trigger; returns its result."""
        self.request_stop()
        _, err = self.trigger.communicate(timeout=60)
        assert self.trigger.returncode == 0, err
        assert "Traceback" not in err
        return json.loads((self.folder / "trigger.json").read_text())


async def until(what: Callable[[], Awaitable[Any]], seconds: float = 30.0) -> Any:
    """Waits for a true value; returns it."""
    end = time.monotonic() + seconds
    while not (found := await what()):
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    return found


@contextlib.asynccontextmanager
async def feed_of(url: str) -> AsyncIterator[Callable[[str, Callable[[Any], Any]], Awaitable[Any]]]:
    """Feed of the page; gives wait(type, condition) -> the first message of that type that meets it."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/feed", max_msg_size=1 << 24) as ws,
    ):

        async def wait(kind: str, condition: Callable[[Any], Any] = lambda message: True) -> Any:
            async with asyncio.timeout(30):
                async for said in ws:
                    message = json.loads(said.data)
                    if message["type"] == kind and condition(message):
                        return message
            raise AssertionError(f"the feed ended without {kind}")

        yield wait
