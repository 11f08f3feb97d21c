# SPDX-License-Identifier: Apache-2.0
"""XDP card between network namespaces: the account of a capture equals the socket card's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nanet.cli.app import main
from nanet.run.namespaces import End, Namespaces, available

from nanet.bench import memif, stack

BOARDS, TRIGGER = "boards", "trigger"


@pytest.fixture(scope="module")
def net() -> Iterator[Namespaces]:
    """Two namespaces joined by a veth pair: 10.77.0.1 (boards, L0TP) and 10.77.0.2 (trigger)."""
    if why := available():
        pytest.skip(why)
    try:
        namespaces = Namespaces((End(BOARDS, "10.77.0.1"), End(TRIGGER, "10.77.0.2"))).__enter__()
    except RuntimeError as error:
        pytest.skip(f"no network namespaces here: {error}")
    yield namespaces
    namespaces.__exit__(None, None, None)


def nanet(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nanet", *arguments]


def chain(net: Namespaces, tmp_path: Path, pcap: Path, card: str) -> dict[str, dict]:
    """Sends a capture from one namespace through a trigger in the other; the JSON of both receivers."""
    files = {name: tmp_path / f"{card}-{name}.json" for name in ("trigger", "l0tp")}
    l0tp = net.start(
        BOARDS, nanet("l0tp", "--listen", "10.77.0.1:58914", "--json", str(files["l0tp"])), pipe=True
    )
    arguments = (
        "--listen",
        "10.77.0.2:58913",
        "--send",
        "10.77.0.1:58914",
        "--card",
        card,
        "--algorithm",
        "math",
    )
    trigger = net.start(
        TRIGGER, nanet("trigger", *arguments, "--device", "cpu", "--json", str(files["trigger"])), pipe=True
    )
    try:
        assert trigger.stdout is not None
        assert trigger.stdout.readline().startswith("nanet trigger:")
        time.sleep(0.2)
        readout = nanet("readout", "--pcap", str(pcap), "--to", "10.77.0.2:58913", "--speed", "0.0005")
        sender = net.start(BOARDS, readout, pipe=True)
        sender.communicate(timeout=60)
        assert sender.returncode == 0
        time.sleep(1.5)
    finally:
        for program in (trigger, l0tp):
            program.terminate()
        for program in (trigger, l0tp):
            program.communicate(timeout=30)
    return {name: json.loads(file.read_text()) for name, file in files.items()}


VARIES = {
    "card", "card_figures", "elapsed_s", "events_per_s", "latency_us", "host", "realtime_settings",
    "account_checks", "not_mgp", "config_hash", "choke",
}  # fmt: skip


@pytest.mark.serial
def test_the_account_equals_the_socket_cards(net: Namespaces, tmp_path: Path) -> None:
    pcap = tmp_path / "run.pcap"
    assert main(["generate", "--events", "3000", "--seed", "5", "--out", str(pcap)]) == 0
    runs = {card: chain(net, tmp_path, pcap, card) for card in ("socket", "xdp")}
    accounts = [
        {key: value for key, value in run["trigger"].items() if key not in VARIES} for run in runs.values()
    ]
    assert runs["xdp"]["trigger"]["card"] == "xdp"
    assert accounts[0]["packets_used"] > 20 and accounts[0]["frames_late"] == 0
    assert accounts[0] == accounts[1]
    answers = [{key: run["l0tp"][key] for key in ("frames", "primitives")} for run in runs.values()]
    assert answers[0]["primitives"] > 2000
    assert answers[0] == answers[1]
    assert not any(runs["xdp"]["trigger"]["not_mgp"].values())


@pytest.mark.complete
@pytest.mark.serial
def test_trouble_names_interface_and_remedy(net: Namespaces) -> None:
    def refused(*options: str) -> str:
        done = net.start(TRIGGER, nanet("trigger", "--card", "xdp", "--duration", "0.1", *options), pipe=True)
        _, errors = done.communicate(timeout=60)
        assert done.returncode == 2
        return errors

    text = refused("--listen", "10.77.0.9:58913")
    assert "10.77.0.9 is no address of an interface" in text and "10.77.0.2 (boards)" in text
    assert "card_threads = 3" in refused("--listen", "10.77.0.2:58913", "--card-threads", "3")
    arguments = ("trigger", "--card", "xdp", "--listen", "10.77.0.2:58913", "--device", "cpu")
    holder = net.start(TRIGGER, nanet(*arguments), pipe=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        text = refused("--listen", "10.77.0.2:58999")
        assert "queue 0" in text and "another program" in text
    finally:
        holder.terminate()
        holder.communicate(timeout=30)
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all",
         *nanet("trigger", "--card", "xdp", "--listen", "127.0.0.1:58950", "--duration", "0.1")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "CAP_NET_RAW" in done.stderr and "--card socket" in done.stderr


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["card", "xdp_card"])
def test_injected_frames_are_used(net: Namespaces, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(stack, "RECEIVE_RATE", 20e3)
    row = stack._receive_cost(net, kind, "as from a NIC", 0.2)
    assert 100 < row["received"] <= row["sent"] + 4  # four begin-of-burst markers
    assert row["cpu_us"] == pytest.approx(row["kernel_us"] + row["program_us"]) and row["kernel_us"] > 0


@pytest.mark.complete
@pytest.mark.serial
def test_bench_stack_has_a_row_for_every_path(net: Namespaces, tmp_path: Path) -> None:
    out = tmp_path / "stack.json"
    arguments = ["--seconds", "0.1", "--runs", "1", "--plots", str(tmp_path), "--json", str(out)]
    assert main(["bench", "stack", *arguments]) == 0
    result = json.loads(out.read_text())
    paths = [row for row in result["rows"] if "path" in row]
    assert len(paths) == 32 + (0 if memif.missing() else 4) and all(row["lost"] == 0 for row in paths)
    assert (tmp_path / "stack-loaded.svg").exists()
    assert {"xdp_over_socket_cpu", "xdp_over_socket_cpu_veth", "realtime_p99_9_gain"} <= set(
        result["figures"]
    )


@pytest.mark.complete
@pytest.mark.serial
def test_demo_in_namespaces_loses_nothing(net: Namespaces, tmp_path: Path) -> None:
    out = tmp_path / "demo.json"
    arguments = [
        "demo",
        "--network",
        "--card",
        "xdp",
        "--algorithm",
        "math",
        "--duration",
        "1",
        "--speed",
        "0.002",
    ]
    assert main([*arguments, "--report", "", "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["card"] == "xdp" and result["account_closes"]
    assert result["packets_in"] > 100 and not any(result["lost"].values())
    assert result["l0tp"]["frames"] == result["frames_out"]
