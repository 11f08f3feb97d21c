# SPDX-License-Identifier: Apache-2.0
"""XDP card between network namespaces: the account of a capture equals the socket card's."""

from __future__ import annotations

import contextlib
import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def chain(net: Namespaces, tmp_path: Path, pcap: Path, card: str, *options: str) -> dict[str, dict]:
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
        TRIGGER,
        nanet("trigger", *arguments, *options, "--device", "cpu", "--json", str(files["trigger"])),
        pipe=True,
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
def test_reading_threads_of_several_queues_give_the_same_account(tmp_path: Path) -> None:
    if why := available():
        pytest.skip(why)
    pcap = tmp_path / "run.pcap"
    assert main(["generate", "--events", "3000", "--seed", "5", "--out", str(pcap)]) == 0
    with Namespaces((End(BOARDS, "10.77.0.1"), End(TRIGGER, "10.77.0.2")), queues=2) as net:
        runs = [chain(net, tmp_path, pcap, "xdp", "--card-threads", count) for count in ("1", "4")]
    keys = ("packets_in", "packets_used", "frames_in", "events_built", "primitives_out", "lost")
    accounts = [{key: run["trigger"][key] for key in keys} for run in runs]
    assert accounts[0] == accounts[1] and not any(accounts[0]["lost"].values())
    assert runs[0]["l0tp"]["primitives"] == runs[1]["l0tp"]["primitives"] > 2000


def refused(net: Namespaces, *options: str, under: tuple[str, ...] = ()) -> str:
    """Error message of a trigger that must refuse its options."""
    command = [*under, *nanet("trigger", "--card", "xdp", "--duration", "0.1", *options)]
    done = net.start(TRIGGER, command, pipe=True)
    _, errors = done.communicate(timeout=60)
    assert done.returncode == 2, errors
    return errors


def without(*capabilities: str) -> tuple[str, ...]:
    """Command prefix that takes capabilities from root."""
    dropped = ",".join(f"-{name}" for name in capabilities)
    return ("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}")


def link(net: Namespaces, *words: str) -> None:
    """Changes the trigger's interface."""
    done = net.start(TRIGGER, ["ip", "link", "set", BOARDS, *words], pipe=True)
    _, errors = done.communicate(timeout=30)
    assert done.returncode == 0, errors


@pytest.mark.complete
@pytest.mark.serial
def test_trouble_names_interface_and_remedy(net: Namespaces) -> None:
    listen = ("--listen", "10.77.0.2:58913")
    text = refused(net, "--listen", "10.77.0.9:58913")
    assert "10.77.0.9 is no address of an interface" in text and "10.77.0.2 (boards)" in text
    link(net, "mtu", "900")
    try:
        text = refused(net, *listen)
        assert "MTU 900" in text and "1472 bytes" in text and "mtu 1500" in text and "--card socket" in text
        assert "MTU" not in run_briefly(net, "--max-payload", "800", *listen)
    finally:
        link(net, "mtu", "1500")
    small = (*without("ipc_lock"), "prlimit", "--memlock=65536:65536")
    text = refused(net, *listen, under=small)
    assert "locked memory is too small" in text and "--card socket" in text
    text = refused(net, *listen, under=without("all"))
    assert "CAP_NET_RAW" in text and "--card socket" in text
    holder = net.start(TRIGGER, nanet("trigger", "--card", "xdp", *listen, "--device", "cpu"), pipe=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        text = refused(net, "--listen", "10.77.0.2:58999")
        assert "queue 0" in text and "another program" in text and "--card socket" in text
    finally:
        holder.terminate()
        holder.communicate(timeout=30)


def run_briefly(net: Namespaces, *options: str) -> str:
    """Error output of a trigger that ends in order."""
    command = nanet("trigger", "--card", "xdp", "--device", "cpu", "--duration", "0.1", *options)
    done = net.start(TRIGGER, command, pipe=True)
    _, errors = done.communicate(timeout=60)
    assert done.returncode == 0, errors
    return errors


def packets(burst: int, frames: range) -> list[bytes]:
    """Empty packets of four boards for each frame; before frame 0, markers of the burst's begin."""

    def packet(board: int, flags: int, sequence: int, frame: int) -> bytes:
        return struct.pack("<BBBBHBBII", 0x1C, board, 1, flags, 16, 0, 0, sequence, burst << 24 | frame)

    sob, last = 0x01, 0x20
    out = [packet(board, sob, 0, 0) for board in range(4) if 0 in frames]
    return out + [packet(board, last, frame + 1, frame) for frame in frames for board in range(4)]


# Sends datagrams without UDP checksum; a network that is down is no error.
SEND = """
import json, socket, sys
to, datagrams = json.loads(sys.argv[1])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
    for datagram in datagrams:
        try:
            out.sendto(bytes.fromhex(datagram), tuple(to))
        except OSError:
            pass
"""


class Running:
    """An xdp trigger in its namespace, with a status file."""

    def __init__(self, net: Namespaces, folder: Path, listen: str, *options: str) -> None:
        self._net, self._to = net, (listen, 58913)
        self._status, self._result = folder / "status.json", folder / "result.json"
        command = nanet(
            "trigger", "--card", "xdp", "--listen", f"{listen}:58913", "--device", "cpu",
            "--status", str(self._status), "--json", str(self._result), *options,
        )  # fmt: skip
        self.process = net.start(TRIGGER, command, pipe=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("nanet trigger:")

    def send(self, source: str, datagrams: list[bytes]) -> None:
        order = json.dumps([self._to, [one.hex() for one in datagrams]])
        assert self._net.start(source, [sys.executable, "-c", SEND, order]).wait(timeout=60) == 0

    def wait_for(self, key: str, value: int) -> None:
        """Waits until a key of the result so far has a value, or a larger one."""
        until = time.monotonic() + 60
        while (found := self._now(key)) < value:
            assert time.monotonic() < until, f"{key}: {found} of {value}"
            time.sleep(0.05)

    def _now(self, key: str) -> int:
        for line in reversed(self._status.read_text().splitlines() if self._status.exists() else []):
            with contextlib.suppress(ValueError):  # the last line may be incomplete
                return int(json.loads(line)["snapshot"][key])
        return 0

    def stop(self) -> dict[str, Any]:
        self.process.terminate()
        self.process.communicate(timeout=60)
        return json.loads(self._result.read_text())


@pytest.mark.complete
@pytest.mark.serial
@pytest.mark.parametrize("threads", ["1", "4"])
def test_reception_resumes_after_the_interface_was_down(
    net: Namespaces, tmp_path: Path, threads: str
) -> None:
    trigger = Running(net, tmp_path, "10.77.0.2", "--card-threads", threads)
    try:
        trigger.send(BOARDS, packets(0, range(10)))
        trigger.wait_for("packets_in", 44)
        link(net, "down")
        trigger.send(BOARDS, packets(0, range(10, 20)))
        link(net, "up")
        trigger.send(BOARDS, packets(1, range(10)))
        trigger.wait_for("bursts", 2)
    finally:
        result = trigger.stop()
    assert result["account_closes"] and result["packets_in"] > 44
    assert result["card_figures"]["interface_downs"] == 1


@pytest.mark.complete
@pytest.mark.serial
def test_an_interface_without_xdp_in_its_driver_takes_the_generic_path(
    net: Namespaces, tmp_path: Path
) -> None:
    trigger = Running(net, tmp_path, "127.0.0.1")
    try:
        trigger.send(TRIGGER, packets(0, range(10)))
        trigger.wait_for("packets_in", 44)
    finally:
        result = trigger.stop()
    assert result["packets_in"] == 44 and result["packets_used"] == 40 and result["account_closes"]


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
