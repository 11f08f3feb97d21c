# SPDX-License-Identifier: Apache-2.0
"""Emulated links of `nanet demo --network`: loss, delay and reordering, with closed accounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from nanet.config.values import board_faults, link_faults
from nanet.errors import UsageError
from nanet.run import namespaces
from nanet.run.forwarder import VNET_HEADER, Link
from nanet.run.links import ForwarderLink
from nanet.run.namespaces import End, Namespaces

SENDER, RECEIVER, PORT = "10.77.0.1", "10.77.0.2", 58913
DEMO = ("--algorithm", "math", "--duration", "1", "--speed", "0.002", "--report", "", "--monitor", "")


def test_faults_of_links_and_boards_in_one_text():
    text = "drop=0.01, link_loss=0.1%,link_delay=100us,link_reorder=0.02"
    assert link_faults(text) == pytest.approx({"link_loss": 1e-3, "link_delay": 1e-4, "link_reorder": 0.02})
    assert board_faults(text) == "drop=0.01"
    assert link_faults("link_delay=1.5ms") == pytest.approx({"link_delay": 1.5e-3}) and link_faults("") == {}
    for wrong in (
        "link_loss=101%",
        "link_loss=-1",
        "link_delay=100",
        "link_delay=2s",
        "link_reorder=x",
        "loss=1",
    ):
        with pytest.raises(ValueError, match=wrong.partition("=")[0]):
            link_faults(wrong)


class Sink:
    """Socket that keeps all frames sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.sent.append(frame[-2:])


def datagram(number: int, protocol: int = 17) -> memoryview:
    """A frame of IPv4 with a virtio-net header and its number at the end."""
    head = bytearray(VNET_HEADER + 42)
    head[VNET_HEADER + 12 : VNET_HEADER + 14] = b"\x08\x00"
    head[VNET_HEADER + 23] = protocol
    return memoryview(bytes(head) + number.to_bytes(2, "big"))


def numbers(sink: Sink) -> list[int]:
    return [int.from_bytes(frame, "big") for frame in sink.sent]


def test_a_link_delays_in_order_and_loses_udp_only():
    sink = Sink()
    link = Link(sink, {"link_delay": 0.5}, 1)
    for number in range(3):
        link.take(datagram(number), 10.0 + number / 10)
    assert link.release(10.4) == pytest.approx(0.1) and numbers(sink) == []
    assert link.release(10.6) == pytest.approx(0.1) and numbers(sink) == [0, 1]
    assert link.release(11.0) is None and numbers(sink) == [0, 1, 2]

    sink = Sink()
    link = Link(sink, {"link_loss": 1.0}, 1)
    link.take(datagram(7), 0.0)
    link.take(datagram(8, protocol=6), 0.0)
    assert link.release(0.0) is None and numbers(sink) == [8]
    assert vars(link.account)["lost"] == 1 and link.account.packets == 1 and link.account.sent == 0


def test_a_reordered_frame_follows_the_next_one_or_its_time():
    sink = Sink()
    link = Link(sink, {"link_reorder": 1.0}, 1)
    for number in range(4):
        link.take(datagram(number), 0.0)
    link.release(0.0)
    assert numbers(sink) == [1, 0, 3, 2]
    link.take(datagram(4), 1.0)
    assert link.release(1.0) == pytest.approx(1e-3)
    assert link.release(1.01) is None and numbers(sink)[-1] == 4
    assert link.account.reordered == 3 and link.account.sent == 5


def needs_namespaces() -> None:
    if why := namespaces.available():
        pytest.skip(why)


@pytest.mark.serial
def test_the_forwarders_account_closes():
    needs_namespaces()
    links = ((End("boards", SENDER), End("wire", "")), (End("wire", ""), End("trigger", RECEIVER)))
    receive = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        "s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)\n"  # SO_RCVBUFFORCE
        f"s.bind(('{RECEIVER}', {PORT})); print('ready', flush=True)\n"
        "seen = []\nwhile True:\n"
        "    n = s.recv(2000)\n    if n == b'end': break\n    seen.append(int(n.split()[0]))\n"
        "print(len(seen), sum(b < a for a, b in zip(seen, seen[1:])), flush=True)"
    )
    # "end" is repeated, so that a lost one ends nothing.
    send = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"for n in range(2000): s.sendto(b'%d ' % n + bytes(999), ('{RECEIVER}', {PORT})); time.sleep(2e-5)\n"
        f"for n in range(50): time.sleep(0.01); s.sendto(b'end', ('{RECEIVER}', {PORT}))"
    )
    try:
        net = Namespaces(*links).__enter__()
    except RuntimeError as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        net.without_trains("boards", "wire")
        link = ForwarderLink(net, "wire", "boards", "trigger", {"link_loss": 0.05, "link_reorder": 0.02}, 3)
        receiver = net.start("trigger", [sys.executable, "-c", receive], output=True)
        assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
        sender = net.start("boards", [sys.executable, "-c", send])
        assert sender.wait(timeout=60) == 0
        text, _ = receiver.communicate(timeout=60)
        account = link.account()
    finally:
        net.__exit__(None, None, None)
    got, backwards = map(int, text.split())
    assert account["by"] == "forwarder" and account["send_errors"] == 0
    assert account["packets"] + account["overflow"] == 2050
    assert account["packets"] == account["lost"] + account["sent"]
    assert account["lost"] > 20 and account["reordered"] > 5 and backwards > 0
    ends = 2050 - 2000
    assert account["sent"] - ends - 1 <= got <= account["sent"]


def check_demo(result: dict) -> None:
    (link,) = result["links"]
    assert link["packets"] + link.get("overflow", 0) == result["readout"]["packets_sent"]
    assert link["lost"] > 0 and result["account_closes"]
    arrived = result["packets_in"] + result["lost"]["socket_overflow"]
    assert arrived == link["sent"]
    assert result["l0tp"]["frames"] == result["frames_out"]


@pytest.mark.complete
@pytest.mark.serial
def test_demo_with_a_faulty_link_closes_its_account(nanet, tmp_path):
    needs_namespaces()
    faults = "link_loss=2%,link_delay=100us,link_reorder=1%"
    nanet("demo", "--network", *DEMO, "--fault", faults, "--json", "out.json")
    check_demo(json.loads((tmp_path / "out.json").read_text()))


@pytest.mark.complete
@pytest.mark.serial
def test_demo_in_a_user_namespace(nanet_program, tmp_path):
    """As a user without rights: in tests of root, user 1000 of a user namespace."""
    user = [] if os.geteuid() else ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
    probe = [*user, "unshare", "--user", "--map-root-user", "--net", "--mount", "true"]
    if not shutil.which("ip") or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    command = [nanet_program, "demo", "--network", *DEMO, "--fault", "link_loss=2%", "--json", "out.json"]
    done = subprocess.run(
        [*user, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    check_demo(json.loads((tmp_path / "out.json").read_text()))


def test_a_refused_user_namespace_names_the_remedy(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    refused = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(
        UsageError, match=r"refuses a user namespace \(unshare.*not permitted\): use sudo, or permit"
    ):
        namespaces.enter_user_namespace(["nanet", "demo", "--network"])
    with pytest.raises(UsageError, match="need root"):
        namespaces.enter_user_namespace(["pytest"])


def test_faults_of_a_link_need_the_network(nanet):
    done = nanet("demo", "--fault", "link_loss=1%", "--report", "", status=2)
    assert "link_loss" in done.stderr and "need --network" in done.stderr
