# SPDX-License-Identifier: Apache-2.0
"""Monitor page in a browser."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import browser
from monitored import Running
from nanet.report.counters import of_card_trigger
from nanet.report.final import CARD_OUTCOMES


@pytest.mark.skipif(browser.find() is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_in_a_browser(running: Running, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser.browser(tmp_path) as page:
            feeding = running.feeding("--duration", "60")
            try:
                await page.open(running.url)
                await page.until("window.nanet?.page.state?.trigger?.frames_out > 50 && nanet.page.physics")
                await page.until("!document.querySelector('#event-text').textContent.startsWith('No event')")
                assert await page.value("document.querySelector('#banner').hidden")
                # Keyboard: pause, step, selection of hits.
                await page.press(" ", "Space")
                assert await page.value("document.querySelector('#pause').textContent") == "continue"
                await page.until("nanet.display.events.length > 2")
                shown = "document.querySelector('#event-text').textContent"
                says = (
                    f"{shown}.startsWith(`Frame ${{nanet.display.events[nanet.display.at].frame}},`)"
                    f" && {shown}.includes(`Shown ${{nanet.display.at + 1}} of`)"
                )
                await page.until(says)
                # The event stays while paused; more may be kept beside it.
                event = f"{shown}.replace(/ of \\d+ kept/, '')"
                first = await page.value(event)
                await asyncio.sleep(1.0)
                assert await page.value(event) == first
                for key, by in (("ArrowLeft", -1), ("ArrowRight", 1), ("ArrowLeft", -1)):
                    at = await page.value("nanet.display.at")
                    last = await page.value("nanet.display.events.length") - 1
                    await page.press(key)
                    assert await page.value("nanet.display.at") in (
                        max(0, at + by),
                        min(last, at + by),
                        at + by,
                    )
                    await page.until(says)
                await page.value("document.querySelector('#display').focus()")
                await page.press("ArrowDown")
                await page.until("document.querySelector('#picked').textContent.includes('photomultiplier')")
                assert re.search(r"\d ns", await page.value("document.querySelector('#picked').textContent"))
                # Every frame shows its numbers, and the canvases are not empty.
                for canvas in ("display", "latency", "centres", "occupancy"):
                    assert await page.value(
                        f"(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v))"
                        f"(document.querySelector('#{canvas}'))"
                    ), canvas
                assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            finally:
                feeding.terminate()
                feeding.wait()
            await asyncio.sleep(1.0)
            result = running.stop()
            await page.until("nanet.page.state.ended && !nanet.page.dirty.size")
            cells = await page.value(
                "Object.fromEntries([...document.querySelectorAll('[data-key]')]"
                ".map(e => [e.dataset.key, e.textContent]))"
            )
            checked = 0
            for key, text in cells.items():
                value: Any = result["latency_us"] if key.split(".")[0] in result["latency_us"] else result
                for part in key.split("."):
                    value = value[part]
                if isinstance(value, str):
                    assert text == value, key
                    checked += 1
                elif isinstance(value, int):
                    assert int(re.sub(r"\D", "", text)) == value, key
                    checked += 1
                else:
                    number, unit = text.split(" ")
                    us = float(number) * {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
                    assert us == pytest.approx(value, rel=6e-3, abs=0.051), key
                    checked += 1
            assert checked > 45
            assert cells["state"] == "stopped" and cells["conditions.masked"] == "2"
            assert await page.value("document.querySelector('#hash').textContent") == result["config_hash"]
            assert "ended" in await page.value("document.querySelector('#banner').textContent")
            settings = await page.value("document.querySelector('#realtime').textContent")
            assert all(one["found"] in settings for one in result["realtime_settings"])
            assert all(one["remedy"] in settings for one in result["realtime_settings"])
            # On a phone, in dark mode.
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True
            )
            await asyncio.sleep(0.5)
            assert await page.value("document.documentElement.scrollWidth <= 360")
            allowed = ("WebSocket connection", "ERR_CONNECTION_REFUSED")
            assert not [text for text in page.problems if not any(word in text for word in allowed)]

    asyncio.run(look())


@pytest.mark.skipif(browser.find() is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_reports_the_loss_of_the_trigger(running: Running, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser.browser(tmp_path) as page:
            await page.open(running.url)
            await page.until("window.nanet?.page.state?.trigger?.latency_us")
            running.trigger.kill()
            await page.until("!document.querySelector('#banner').hidden")
            assert "Lost the trigger" in await page.value("document.querySelector('#banner').textContent")
            assert await page.value("document.body.classList.contains('stale')")

    asyncio.run(look())


@pytest.mark.skipif(browser.find() is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_shows_a_final_trigger(running: Running, tmp_path: Path) -> None:
    """Rows of a card that releases the triggers: its faults, and words where no trigger was measured."""
    card = dict.fromkeys((*CARD_OUTCOMES, *of_card_trigger(faults=True)), 0) | {"missed": 3}
    loop = {
        "latency_us": 200.0, "slack_us": {"n": 0, "p50": 0.0, "min": None}, "late": 0, "answered_share": None,
        "events_complete": 0, "events_twice": 0,
    }  # fmt: skip
    final = {"triggers": 0, "primitives": 0, "joined": 0, "dead": 0, "card": card, "loop": loop}

    async def look() -> None:
        async with browser.browser(tmp_path) as page:
            await page.open(running.url)
            await page.until("window.nanet?.page.state?.trigger?.latency_us")
            running.stop()
            await page.until("nanet.page.state.ended && !nanet.page.dirty.size")
            value = json.dumps(final)
            await page.value(f"nanet.page.state.trigger.final = {value}; nanet.page.dirty.add('state'); 0")
            await page.until("""!!document.querySelector('[data-key="final.card.missed"]')""")
            for name in of_card_trigger(faults=True):
                at = f"""document.querySelector('[data-key="final.card.{name}"]')"""
                assert await page.value(f"{at}.textContent") == str(card[name])
                assert await page.value(f"{at}.className") == ("bad" if card[name] else "")
            shown = await page.value("document.querySelector('#run-table').innerText")
            assert re.search(r"slack, median and least\s+no trigger", shown)
            assert re.search(r"answered by the boards\s+no trigger", shown)

    asyncio.run(look())
