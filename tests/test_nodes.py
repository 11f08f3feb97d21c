# SPDX-License-Identifier: Apache-2.0
"""Several trigger nodes: dealing, merging, a node killed and restarted, and the account of the farm."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nanet.config.file import load
from nanet.config.sections import Card, Demo, Trigger
from nanet.errors import UsageError
from nanet.report import farm, output
from nanet.run.demo import Chain
from nanet.run.namespaces import available

SPEED = 0.0005  # some 80 frames per second
PATIENCE_S = 90.0


@contextlib.contextmanager
def running_farm(nodes: int, **demo: Any) -> Iterator[Chain]:
    """A chain of so many nodes whose boards send until they are stopped."""
    config = load(None)
    config.set(Demo, nodes=nodes, duration=600.0, speed=SPEED, report="", monitor="", **demo)
    config.set(Trigger, device="cpu", algorithm="math")
    config.set(Card, busy="no")
    with contextlib.ExitStack() as stack:
        try:
            chain = stack.enter_context(Chain(config))
        except RuntimeError as error:
            pytest.skip(f"no network namespaces here: {error}")
        chain.make_truth()
        chain.start(SPEED)
        yield chain


def wait(chain: Chain, reached: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """L0TP's account by node, once `reached`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert chain.l0tp is not None and chain.l0tp.running()
        nodes = chain.l0tp.snapshot.get("nodes")
        if nodes and reached(nodes):
            return nodes
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE_S} s: {nodes}")


def stop(chain: Chain) -> Any:
    """Stops the boards, then the others; the outcome."""
    assert chain.readout is not None
    chain.readout.process.send_signal(signal.SIGTERM)
    chain.readout.wait()
    return chain.finish()


@pytest.mark.serial
@pytest.mark.skipif(bool(available()), reason="network namespaces need root and ip")
@pytest.mark.parametrize(
    "nodes", [pytest.param(1, marks=pytest.mark.complete), pytest.param(2, marks=pytest.mark.complete), 3]
)
def test_a_node_is_killed_and_comes_back(nodes: int) -> None:
    dead = nodes - 1
    with running_farm(nodes, network=True) as chain:
        wait(chain, lambda now: all(node["frames"] > 5 for node in now))
        chain.kill_node(dead)
        if nodes > 1:
            at_death = wait(chain, lambda now: now[dead]["silent"])
            wait(
                chain,
                lambda now: all(
                    node["frames"] > at_death[node["node"]]["frames"] + 10
                    for node in now
                    if node["node"] != dead
                ),
            )  # the others go on
        else:
            time.sleep(0.2)
        answered = wait(chain, lambda now: True)[dead]["frames"]
        chain.restart_node(dead)
        wait(chain, lambda now: now[dead]["frames"] > answered + 5 and not now[dead]["silent"])
        outcome = stop(chain)
        said = "".join(path.read_text() for path in chain.folder.glob("l0tp-*.log"))

    account = outcome.farm
    assert account["closes"], account
    assert account["frames_sent"] == outcome.readout["frames_sent"]
    assert [row["node"] for row in account["nodes"]] == list(range(nodes))
    for row in account["nodes"]:
        assert row["frames_sent"] == row["frames_answered"] + row["frames_missing"]
        k = row["node"]
        result = outcome.nodes[k]
        assert output.account_closes(result)
        assert result["lost"]["other_node"] == 0 and result["lost"]["missing"] == 0
        if k == dead:
            assert row["frames_missing"] > 0
            assert row["send_errors"].get("refused", 0) > 0  # port unreachable, seen by the boards
        else:
            assert row["frames_missing"] == 0
            assert result["frames_in"] == result["frames_out"] == row["frames_sent"]
    if nodes > 1:
        assert account["nodes"][dead]["silences"] >= 1 and account["nodes"][dead]["returns"] >= 1
        assert f"node {dead} is silent" in said and f"node {dead} is back" in said
    assert not any(node["misdealt"] for node in outcome.l0tp["nodes"])


@pytest.mark.complete
@pytest.mark.parametrize("nodes", [2, 3])
def test_demo_deals_to_several_nodes(nanet, tmp_path: Path, nodes: int) -> None:
    done = nanet(
        "demo", "--nodes", str(nodes), "--speed", str(SPEED), "--duration", "1", "--algorithm", "math",
        "--report", "out", "--monitor", "", "--json", "demo.json", timeout=120,
    )  # fmt: skip
    result = json.loads((tmp_path / "demo.json").read_text())
    assert output.account_closes(result)
    assert result["farm"]["closes"] and len(result["farm"]["nodes"]) == len(result["nodes"]) == nodes
    assert result["frames_out"] == result["l0tp"]["frames"] == result["readout"]["frames_sent"]
    assert result["frames_out"] == sum(node["frames_out"] for node in result["nodes"])
    assert result["l0tp"]["frames_missing"] == 0
    assert result["lost"]["missing"] == 0 and result["frames_incomplete"] == 0
    assert result["l0tp"]["primitives"] == result["primitives_out"]
    assert f"node {nodes - 1}:" in done.stdout and "the account closes" in done.stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["readout", "--to", "127.0.0.1:9", "--to", "x"], ["readout.to", "'x'", "HOST:PORT"]),
        (["readout", "--pcap", "x.pcap", "--to", "127.0.0.1:9", "--to", "127.0.0.1:10"],
         ["x.pcap", "one node"]),
        (["trigger", "--node", "3/3"], ["card.node", "3/3", "0 to K - 1"]),
        (["trigger", "--node", "0/2", "--card", "gateware"], ["card.node", "0/2", "--card socket"]),
        (["l0tp", "--nodes", "65"], ["l0tp.nodes", "65", "1 to 64"]),
        (["l0tp", "--node-silence", "0"], ["l0tp.node_silence", "0.001"]),
        (["demo", "--nodes", "17"], ["demo.nodes", "17", "1 to 16"]),
    ],
)  # fmt: skip
def test_wrong_nodes_are_refused(nanet, tmp_path: Path, arguments: list[str], said: list[str]) -> None:
    (tmp_path / "x.pcap").write_bytes(b"")
    done = nanet(*arguments, status=2, timeout=30)
    for part in said:
        assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_nodes_may_stand_in_one_string(tmp_path: Path) -> None:
    from nanet.config.values import node_share, nodes

    assert nodes("a:1,b:2;c:3") == [[("a", 1), ("b", 2)], [("c", 3)]]
    assert node_share("") == [0, 1] and node_share("2/3") == [2, 3]
    with pytest.raises(ValueError, match="k/K"):
        node_share("1")
    path = tmp_path / "run.toml"
    path.write_text("[readout]\nto = 'a:1; x'\n")
    with pytest.raises(UsageError, match="'x'"):
        load(str(path))


def node(k: int, **changed: Any) -> dict[str, Any]:
    return {
        "node": k, "from": "10.0.0.1:5", "frames": 10, "frames_late": 1, "frames_missing": 0,
        "frames_silent": 0, "silent": False, "silences": 0, "returns": 0, "last_frame": 9, **changed,
    }  # fmt: skip


def test_farm_account_notices_every_difference() -> None:
    sent = {
        "frames_sent": 20,
        "nodes": [{"node": k, "to": "h:1", "frames_sent": 10, "send_errors": {}} for k in (0, 1)],
    }
    account = farm.farm_account(sent, {"nodes": [node(0), node(1, frames=7, frames_missing=3)]})
    assert account["closes"] and account["frames_answered"] == 17 and account["frames_missing"] == 3
    assert not farm.farm_account(sent, {"nodes": [node(0), node(1, frames=9)]})["closes"]
    assert not farm.farm_account(sent, {"nodes": [node(0, frames=9), node(1, frames=11)]})["closes"]
    assert not farm.farm_account({**sent, "frames_sent": 21}, {"nodes": [node(0), node(1)]})["closes"]


def test_silence_and_return_of_a_node_are_sentences() -> None:
    before = [node(0), node(1, last_frame=None)]
    assert farm.node_changes(before, before) == []
    now = [node(0, silences=1), node(1, silences=1, returns=1, last_frame=31)]
    assert farm.node_changes(before, now) == [
        "node 0 is silent: its last frame is 9",
        "node 1 is silent: it has never answered",
        "node 1 is back, at frame 31",
    ]


def test_totals_are_sums_and_largest_latencies() -> None:
    def result(events: int, p50: float) -> dict[str, Any]:
        return {
            "events_built": events, "bursts": 3, "lost": {"late": events}, "account_closes": True,
            "device": "cpu", "latency_us": {"total": {"p50": p50, "n": 5}}, "elapsed_s": p50,
            "timeout_us": 20.0,
        }  # fmt: skip

    assert farm.totals([result(1, 2.0)]) == result(1, 2.0)
    total = farm.totals([result(1, 2.0), result(10, 1.0)])
    assert total["events_built"] == total["lost"]["late"] == 11
    assert total["bursts"] == 3
    assert total["latency_us"]["total"] == {"p50": 2.0, "n": 10}
    assert total["timeout_us"] == 20.0 and total["elapsed_s"] == 2.0 and total["account_closes"]
    merged = farm.merged_histograms(
        [{"total": {"edges_us": [1.0, 2.0], "counts": [1, 2]}}, {"total": {"edges_us": [2.0], "counts": [5]}}]
    )
    assert merged == {"total": {"edges_us": [1.0, 2.0], "counts": [1, 7]}}
