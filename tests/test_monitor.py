# SPDX-License-Identifier: Apache-2.0
"""Monitor of a running trigger: its numbers are the trigger's, and clients cannot affect the trigger."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parent))
from monitored import Running, feed_of, until
from nanet.config.values import page_endpoint
from nanet.monitor import channels, histograms, link, metrics
from nanet.monitor.state import State
from nanet.report.counters import inside
from nanet.report.output import packets_lost

from nanet import _core, errors


@pytest.mark.serial
def test_feed_metrics_and_log_are_the_triggers_numbers(running: Running) -> None:
    assert running.said[0] == f"monitor: {running.url}/\n"

    async def look() -> None:
        async with aiohttp.ClientSession() as session, feed_of(running.url) as wait:
            hello = await wait("hello")
            assert hello["about"]["config"].startswith("[trigger]")
            feeding = running.feeding("--duration", "4", "--fault", "drop=0.01,corrupt=0.01")
            events = [event for _ in range(4) for event in (await wait("events"))["events"]]
            for event in events:
                assert len(event["pm"]) == len(event["late_ns"])
                assert event["pm"] == sorted(set(event["pm"])) and all(pm < 1952 for pm in event["pm"])
                assert all(abs(late) < 8 for late in event["late_ns"])  # ns: of one event
                assert len(event["rings"]) <= 1  # math finds one at most
            assert any(event["rings"] for event in events)
            assert len({(event["frame"], event["time_ns"]) for event in events}) > 1
            physics = await wait("physics", lambda message: sum(message["pm_occupancy"]) > 1000)
            assert sum(physics["hits_per_event"]) == physics["sampled_events"]
            assert physics["channels"]["masked"] == [17, 900]
            while feeding.poll() is None:
                await asyncio.sleep(0.1)

            async def settled() -> bool:
                counts = []
                for _ in range(2):  # no more changes
                    await asyncio.sleep(1.5)
                    async with session.get(f"{running.url}/status.json") as answer:
                        now = (await answer.json())["trigger"]
                    counts.append([now[key] for key in ("packets_in", "frames_out", "events_built")])
                return counts[0] == counts[1] and now["frames_in"] == now["frames_out"] > 0

            await until(settled)
            async with session.get(f"{running.url}/metrics") as answer:
                assert answer.content_type == "text/plain"
                families = {f.name: f for f in text_string_to_metric_families(await answer.text())}
            async with session.get(f"{running.url}/health") as answer:
                assert answer.status == 200
                line = await answer.text()
            running.request_stop()
            last = await wait("state", lambda message: message["ended"])
            result = running.stop()
            # The feed has everything of the trigger's JSON except the host, equal.
            assert {**last["trigger"], "host": 0, "real_time": 0} == {**result, "host": 0, "real_time": 0}
            assert result["packets_in"] > 0 and sum(result["bad_packets"].values()) > 0
            assert last["closes"] is True
            assert set(last["rates"].values()) == {0.0}  # after the end
            assert all(board["hits_per_s"] == 0 for board in last["boards"])
            assert line == (
                f"degraded: {result['frames_answered']} frames answered, {result['frames_late']} late, "
                f"{packets_lost(result['lost'])} packets lost, {sum(result['bad_packets'].values())} bad\n"
            )
            check_metrics(families, result)
            assert hello["about"]["config_hash"] == result["config_hash"]

    asyncio.run(look())


def check_metrics(families: dict[str, Any], result: dict[str, Any]) -> None:
    for metric, lines in metrics.counters().items():
        for line in metrics.present(lines, result):  # recorded: with --record only
            if line["name"] == "account_checks":
                continue  # checks go on between scrape and result
            value = inside(result, line["family"])[line["name"]]
            labels = {metrics.LABELLED[metric][0]: metrics.label_value(line)} if len(lines) > 1 else {}
            assert value in [s.value for s in families[metric].samples if s.labels == labels], line
    for name, (key, _) in metrics.REFUSALS.items():
        by_reason = {sample.labels["reason"]: sample.value for sample in families[name].samples}
        assert by_reason == result[key]
    assert families["nanet_deadline_seconds"].samples[0].value == pytest.approx(result["deadline_us"] * 1e-6)
    counts = {
        s.labels["stage"]: s.value
        for s in families["nanet_latency_seconds"].samples
        if s.name.endswith("_count")
    }
    assert counts == {stage: values["n"] for stage, values in result["latency_us"].items()}
    rings = {int(s.labels["rings"]): s.value for s in families["nanet_events_by_rings"].samples}
    assert sum(number * value for number, value in rings.items()) == result["rings"]


def test_open_pages_do_not_affect_the_trigger(running: Running) -> None:
    async def crowd() -> None:
        idle, slow = [], []
        for _ in range(1000):
            idle.append(await asyncio.open_connection("127.0.0.1", running.page))
        for garbage in (
            b"\0" * 5000,
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /" + b"x" * 100_000,
            b"\x16\x03\x01\x02",
            b"\r\n" * 9,
        ):
            _, writer = await asyncio.open_connection("127.0.0.1", running.page)
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.transport.abort()
        async with aiohttp.ClientSession() as session:
            for method, path, status in (
                ("POST", "/", 405), ("PUT", "/metrics", 405), ("DELETE", "/status.json", 405),
                ("GET", "/nothing", 404), ("GET", "/static/..%2f__init__.py", 404),
                ("GET", "/static/vendor/..", 404), ("GET", "/feed", 400),
            ):  # fmt: skip
                async with session.request(method, running.url + path) as answer:
                    assert answer.status == status, (method, path)
            async with session.get(running.url, headers={"Host": "rebound.example"}) as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(
                    f"{running.url}/feed", headers={"Origin": "http://elsewhere.example"}
                )
            assert refused.value.status == 403
            # Pages that never read, up to the limit.
            handshake = (
                f"GET /feed HTTP/1.1\r\nHost: 127.0.0.1:{running.page}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "Sec-WebSocket-Version: 13\r\n\r\n"
            )
            for _ in range(64):
                reader, writer = await asyncio.open_connection("127.0.0.1", running.page, limit=1)
                writer.write(handshake.encode())
                slow.append((reader, writer))
            async with session.get(f"{running.url}/health") as answer:
                assert answer.status == 200

            async def full() -> bool:
                async with session.get(f"{running.url}/feed", headers={
                    "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                }) as answer:  # fmt: skip
                    return answer.status == 503

            await until(full)
            await asyncio.to_thread(running.feed, "--events", "20000")
            # Frames may be late on a loaded host: health is then "degraded".
            async with session.get(f"{running.url}/health") as answer:
                assert (await answer.text()).endswith(" 0 packets lost, 0 bad\n")
        for _, writer in idle + slow:
            writer.transport.abort()
        await asyncio.sleep(0.1)  # the loop closes them

    asyncio.run(crowd())
    result = running.stop()
    assert (
        result["events_built"] >= 20000 - 100
    )  # an event split at an edge counts twice, one without hits does not
    assert sum(result["lost"].values()) == 0
    assert result["account_closes"]


def test_a_killed_trigger_takes_its_monitor_along(running: Running) -> None:
    async def watch() -> None:
        async with feed_of(running.url) as wait:
            await wait("hello")
            running.trigger.kill()
            await wait("lost")

        async def gone() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", running.page)
            except OSError:
                return True
            writer.close()
            return False

        await until(gone)

    asyncio.run(watch())


@pytest.mark.parametrize(
    "given, said", [("8080x", "HOST:PORT"), ("127.0.0.1:99999", "65535"), ("192.0.2.1:8080", "--monitor")]
)
def test_wrong_addresses(nanet: Callable[..., Any], given: str, said: str) -> None:
    done = nanet("trigger", "--monitor", given, "--duration", "1", status=2)
    assert said in done.stderr and given in done.stderr


def test_loopback_by_default() -> None:
    assert page_endpoint("8080") == ("127.0.0.1", 8080)
    assert page_endpoint(":8080") == ("127.0.0.1", 8080)
    assert page_endpoint("0.0.0.0:1") == ("0.0.0.0", 1)
    assert page_endpoint("[::1]:80") == ("::1", 80)
    assert link.is_loopback("127.3.2.1") and link.is_loopback("::1") and not link.is_loopback("0.0.0.0")
    with pytest.raises(errors.UsageError, match="--monitor"):
        link._listen("nowhere.invalid:80")


def test_the_monitor_leaves_the_triggers_cpus_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        mine = os.sched_getaffinity(0)
        first = min(mine)
        link._make_ordinary(process.pid, {first})
        assert os.sched_getaffinity(process.pid) == (mine - {first} or mine)
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
        link._make_ordinary(process.pid, mine)  # no CPU would remain
        assert os.sched_getaffinity(process.pid) == mine
        process.kill()


def test_dead_and_hot_by_their_neighbours() -> None:
    random = np.random.default_rng(5)
    expected = 300 + 200 * np.cos(np.arange(1952) / 300)
    counts = random.poisson(expected)
    assert channels.judge(counts) == {"dead": [], "hot": [], "masked": []}
    counts[[17, 975, 976]] = 0
    counts[[400, 1951]] = 5000
    assert channels.judge(counts) == {"dead": [17, 975, 976], "hot": [400, 1951], "masked": []}
    masked = [17, 400, 500]
    assert channels.judge(counts, masked) == {"dead": [975, 976], "hot": [1951], "masked": masked}
    little = {"dead": [], "hot": [], "masked": []}  # for a judgement
    assert channels.judge(random.poisson(2.0, 1952)) == channels.judge(np.zeros(1952, int)) == little


def test_histograms_in_the_buckets_of_the_metric() -> None:
    edges = np.array([1.0, 10.0, 100.0])
    buckets = histograms.coarse({"total": (edges, np.array([2, 3, 4]))})["total"]
    assert buckets["n"] == 9 and buckets["sum_s"] == pytest.approx(432e-6)
    by_edge = dict(zip(histograms.EDGES_S, buckets["buckets"], strict=True))
    assert (by_edge[1e-6], by_edge[5e-6], by_edge[1e-5], by_edge[1.0]) == (2, 2, 5, 9)


def test_every_metric_is_documented_and_used_by_the_dashboard(root: Path) -> None:
    page = (root / "docs" / "monitor.md").read_text()
    documented = dict(re.findall(r"^\| `(nanet_\w+)` \| (\w+) \|", page, re.M))
    counters = re.findall(r"^\|`[\w.]+`\|`(nanet_\w+)`\|", (root / "docs" / "counters.md").read_text(), re.M)
    assert set(counters) == set(metrics.counters())
    for metric in counters:
        gauge = metric in metrics.GAUGES
        documented[metric if gauge else f"{metric}_total"] = "gauge" if gauge else "counter"
    state = State()
    names: dict[str, str] = {}
    of_run: dict[str, dict[tuple[str, ...], float]] = {}
    counts: dict[str, Any] = {}
    for counter in _core.counter_descriptions():
        at = counts
        for part in filter(None, counter["family"].split(".")):
            at = at.setdefault(part, {})
        at[counter["name"]] = 1
    snapshot = {
        **counts, "bad_packets": {"bad_board": 1}, "not_mgp": {"not_udp": 1},
        "algorithm": "math", "device": "cpu", "card": "socket", "gather": "frame", "deadline_us": 1e3,
        "timeout_us": 200.0, "elapsed_s": 1.0, "latency_us": {"total": {"max": 3.0}},
        "state": "burst", "burst": 300,
        "choke": {"on": True, "raised": 1, "fill": 0.5, "seconds": 1.5},
        "conditions": {"name": "abc", "masked": 3, "changes": 2, "refused": 1},
        "gpu_faults": 2.0, "gpu_recoveries": 1.0, "gpu_lost": 1.0, "gpu_fallback_s": 3.5,
        "device_failed": "gone",
        "final": {**counts["final"], "loop": {
            "answered": 20, "late": 0, "early": 0, "untimed": 0, "flushed": 0, "events_complete": 5,
            "events_incomplete": 0, "events_twice": 0, "events_untriggered": 0,
        }},
    }  # fmt: skip
    settings = [{"name": "scheduler", "state": "refused"}, {"name": "pinned CPUs", "state": "done"}]
    state.take({"kind": "about", "realtime_settings": settings})
    state.take({"kind": "snapshot", "t": 1.0, "snapshot": snapshot})
    occupancy = {"masked": [3], "pm_occupancy": [5] * 1952, "rings_per_event": [1, 2, 3, 4, 5]}
    stages = histograms.coarse({"total": (np.array([1.0]), np.array([1]))})
    state.take({"kind": "physics", "t": 1.0, "physics": occupancy, "stages": stages})
    for family in metrics.TriggerCollector(state).collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        names[family.name + suffix] = {"info": "gauge"}.get(family.type, family.type)
        of_run[family.name] = {tuple(s.labels.values()): s.value for s in family.samples}
    assert names == documented
    of_settings = {("scheduler", "refused"): 1.0, ("pinned CPUs", "done"): 1.0}
    assert of_run["nanet_realtime_setting"] == of_settings
    assert of_run["nanet_run_state"] == {(name,): float(name == "burst") for name in metrics.STATES}
    for name, value in (("nanet_burst", 300), ("nanet_choke", 1), ("nanet_choke_seconds", 1.5),
                        ("nanet_channels_masked", 3), ("nanet_conditions_refused", 1),
                        ("nanet_gpu_faults", 2), ("nanet_gpu_lost", 1),
                        ("nanet_gpu_fallback_seconds", 3.5)):  # fmt: skip
        assert of_run[name] == {(): value}
    state.snapshot["account_violations"] = 0
    assert state.health() == (False, "not ok: the device failed: gone")
    state.snapshot["gpu_lost"] = 0.0  # recovered
    assert state.health()[1].endswith(", choke raised")
    assert state.health()[0] and state.health()[1].startswith("degraded: ") and state.feed()["degraded"]
    calm = {**snapshot, "frames_late": 0, "lost": {"missing": 0}, "gpu_lost": 0.0, "account_violations": 0}
    state.take({"kind": "snapshot", "t": 2.0, "snapshot": calm})
    assert state.health()[1].startswith("ok: ") and not state.feed()["degraded"]
    assert state.rates["frames_late"] == -1
    state.take({"kind": "result", "t": 2.01, "snapshot": {**calm, "events_built": 1000}})
    assert set(state.rates.values()) == {0.0}
    dashboard = json.loads((root / "deploy" / "grafana" / "nanet.json").read_text())
    asked = {
        name for panel in dashboard["panels"] for target in panel.get("targets", ())
        for name in re.findall(r"nanet_\w+", target["expr"])
    }  # fmt: skip
    assert asked
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= set(names)
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(places) == len(set(places)) and len({panel["id"] for panel in dashboard["panels"]}) == len(
        places
    )


def test_states_have_one_set_of_names(root: Path) -> None:
    source = (root / "src" / "nanet" / "trigger" / "live" / "trigger.hpp").read_text()
    names = re.search(r"state_names = \{(.*?)\};", source, re.S)
    assert names and tuple(re.findall(r'"(\w+)"', names[1])) == metrics.STATES
    documented = (root / "docs" / "counters.md").read_text().split("| `state` |")[1].split("\n")[0]
    assert tuple(re.findall(r"`(\w+)`", documented)) == metrics.STATES


def test_what_is_shipped_of_others(root: Path) -> None:
    static = root / "python" / "nanet" / "monitor" / "static"
    source = (static / "vendor" / "uPlot.esm.js").read_text()
    version = re.search(r"uPlot \(v([\d.]+)\)", source[:400]) or re.search(r"\(v([\d.]+)\)", source[:400])
    assert f"| uPlot | {version[1]} |" in (root / "docs" / "dependencies.md").read_text()
    licence = (static / "licences.txt").read_text()
    assert f"uPlot {version[1]}" in licence and "Permission is hereby granted" in licence
    # No external resources.
    for file in static.iterdir():
        if file.suffix in (".html", ".js", ".css"):
            assert not re.search(
                r"""(src|href|from|import|url)\s*[=(]?\s*["'(]?https?:""", file.read_text()
            ), file


def test_events_are_sent_only_on_request() -> None:
    assert _core.SharedEventRing.bytes % 8 == 0 and _core.SharedEventRing.bytes < 1 << 17
