# SPDX-License-Identifier: Apache-2.0
"""XDP card between network namespaces: the account of a capture equals the socket card's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nanet.cli.app import main

BOARDS, TRIGGER = "nanet-boards", "nanet-trigger"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    """Two namespaces joined by a veth pair: 10.77.0.1 (boards, L0TP) and 10.77.0.2 (trigger)."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    try:
        for name in (BOARDS, TRIGGER):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            "boards",
            "netns",
            BOARDS,
            "type",
            "veth",
            "peer",
            "name",
            "trigger",
            "netns",
            TRIGGER,
        )
        for name, device, address in (
            (BOARDS, "boards", "10.77.0.1/24"),
            (TRIGGER, "trigger", "10.77.0.2/24"),
        ):
            ip("-n", name, "addr", "add", address, "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    yield
    for name in (BOARDS, TRIGGER):
        ip("netns", "del", name)


def command(name: str, *arguments: str) -> list[str]:
    return ["ip", "netns", "exec", name, sys.executable, "-m", "nanet", *arguments]


def chain(tmp_path: Path, pcap: Path, card: str, *options: str) -> dict[str, dict]:
    """Sends a capture from one namespace through a trigger in the other; the JSON of all three programs."""
    files = {name: tmp_path / f"{card}-{name}.json" for name in ("trigger", "l0tp")}
    l0tp = subprocess.Popen(
        command(BOARDS, "l0tp", "--listen", "10.77.0.1:58914", "--json", str(files["l0tp"])),
        stdout=subprocess.DEVNULL,
    )
    trigger = subprocess.Popen(
        command(TRIGGER, "trigger", "--listen", "10.77.0.2:58913", "--send", "10.77.0.1:58914",
                "--card", card, "--algorithm", "math", "--device", "cpu",
                "--json", str(files["trigger"]), *options),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert trigger.stdout is not None
        started = trigger.stdout.readline()
        assert started.startswith("nanet trigger:"), started + (
            trigger.stderr.read() if trigger.stderr else ""
        )
        time.sleep(0.2)
        subprocess.run(
            command(BOARDS, "readout", "--pcap", str(pcap), "--to", "10.77.0.2:58913", "--speed", "0.0005"),
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
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
def test_the_account_equals_the_socket_cards(namespaces: None, tmp_path: Path) -> None:
    pcap = tmp_path / "run.pcap"
    assert main(["generate", "--events", "3000", "--seed", "5", "--out", str(pcap)]) == 0
    runs = {card: chain(tmp_path, pcap, card) for card in ("socket", "xdp")}
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


@pytest.mark.serial
def test_trouble_names_interface_and_remedy(namespaces: None) -> None:
    def refused(*options: str) -> str:
        done = subprocess.run(
            command(TRIGGER, "trigger", "--card", "xdp", "--duration", "0.1", *options),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        return done.stderr

    text = refused("--listen", "10.77.0.9:58913")
    assert "10.77.0.9 is no address of an interface" in text and "10.77.0.2 (trigger)" in text
    assert "card_threads = 3" in refused("--listen", "10.77.0.2:58913", "--card-threads", "3")
    holder = subprocess.Popen(
        command(TRIGGER, "trigger", "--card", "xdp", "--listen", "10.77.0.2:58913", "--device", "cpu"),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        text = refused("--listen", "10.77.0.2:58999")
        assert "queue 0" in text and "another program" in text
    finally:
        holder.terminate()
        holder.communicate(timeout=30)
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "nanet", "trigger",
         "--card", "xdp", "--listen", "127.0.0.1:58950", "--duration", "0.1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "CAP_NET_RAW" in done.stderr and "--card socket" in done.stderr
