# SPDX-License-Identifier: Apache-2.0
"""Ports reserved for programs that start later."""

import socket
import subprocess
import sys

import pytest
from nanet.run import ports


def test_ports_can_be_bound() -> None:
    taken = [*ports.free_ports(20), ports.free_port_pair(), ports.free_tcp_port()]
    assert all(ports.FIRST <= port < ports.END for port in taken)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", taken[0]))


def test_a_port_is_handed_out_once_by_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Most of the range, so that a port drawn twice would show.
    monkeypatch.setattr(ports, "END", ports.FIRST + 128)
    mine = ports.free_ports(100)
    assert len(set(mine)) == 100
    other = subprocess.run(
        [sys.executable, "-c",
         "from nanet.run import ports\nports.END = ports.FIRST + 128\nprint(*ports.free_ports(12))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not set(mine) & set(map(int, other.stdout.split()))


def test_a_port_that_a_program_has_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    (held,) = ports.free_ports(1)
    ports._reserved.pop().close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("0.0.0.0", held))
        monkeypatch.setattr(ports, "FIRST", held)
        monkeypatch.setattr(ports, "END", held + 1)
        with pytest.raises(OSError, match="no free port"):
            ports.free_ports(1)
