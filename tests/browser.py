# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for tests of pages, driven by the DevTools protocol."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

START_S = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """Path of the browser's program, None without one."""
    given = os.environ.get("NANET_CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page of the browser."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self._ws = ws
        self._number = 0
        self.problems: list[str] = []  # exceptions and errors logged by the page

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command of the protocol; returns its result."""
        self._number += 1
        number = self._number
        await self._ws.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = json.loads((await asyncio.wait_for(self._ws.receive(), START_S)).data)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description", details["text"]))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.problems.append(message["params"]["entry"]["text"])

    async def open(self, url: str, width: int = 1400, height: int = 1500, dark: bool = False) -> None:
        """Loads an address in a window of that size."""
        await self.call("Runtime.enable")
        await self.call("Log.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """Value of a JavaScript expression."""
        said = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, expression: str, seconds: float = 30.0) -> Any:
        """Waits until an expression is true; returns its value."""
        end = time.monotonic() + seconds
        while True:
            found = await self.value(expression)
            if found:
                return found
            assert time.monotonic() < end, f"never true: {expression}; {self.problems}"
            await asyncio.sleep(0.1)

    async def press(self, key: str, code: str = "") -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key)

    async def click(self, x: float, y: float) -> None:
        """Clicks the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )  # fmt: skip

    async def screenshot(self, path: Path) -> None:
        """Screenshot of the window as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Browser with a profile in the folder, closed at the end."""
    program = find()
    assert program is not None
    process = subprocess.Popen(
        [program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}/profile",
         "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
         "--disable-background-networking", "--disable-extensions", "about:blank"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        port = folder / "profile" / "DevToolsActivePort"
        end = time.monotonic() + START_S
        while not port.is_file() or len(port.read_text().split()) < 2:
            assert process.poll() is None and time.monotonic() < end, "the browser did not start"
            await asyncio.sleep(0.1)
        at = f"http://127.0.0.1:{port.read_text().split()[0]}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{at}/json/list") as answer:
                pages = [page for page in await answer.json(content_type=None) if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=1 << 28) as ws:
                yield Page(ws)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
