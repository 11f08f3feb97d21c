# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests: command line, free ports, root of the source tree."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from monitored import Running

ROOT = Path(__file__).resolve().parent.parent

# No deadline on a slow or busy machine; a failing example is printed for repetition.
hypothesis.settings.register_profile("nanet", deadline=None, print_blob=True)
hypothesis.settings.load_profile("nanet")


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def nanet_program() -> str:
    """`nanet` of the environment of the tests, for subprocess.Popen."""
    program = Path(sys.executable).parent / "nanet"
    assert program.exists(), f"{program} is missing: run the tests in the environment of ./dev (./dev shell)"
    return str(program)


@pytest.fixture
def nanet(nanet_program: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`nanet("replay", "run.pcap")` runs the command line in tmp_path and returns the completed process.

    `status` is the expected exit status (None: any), `timeout` is in seconds.
    """

    def run(
        *arguments: object, status: int | None = 0, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [nanet_program, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        said = f"nanet {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}"
        assert status is None or done.returncode == status, said
        assert "Traceback" not in done.stderr, said
        return done

    return run


@pytest.fixture
def free_udp_port() -> Callable[[], int]:
    """Function that returns free UDP ports of 127.0.0.1, each once."""
    picked: set[int] = set()

    def pick() -> int:
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind(("127.0.0.1", 0))
                port = sock.getsockname()[1]
            if port not in picked:
                picked.add(port)
                return port

    return pick


@pytest.fixture
def running(nanet_program: str, tmp_path: Path, free_udp_port: Callable[[], int]) -> Iterator[Running]:
    """A trigger with its monitor."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        page = server.getsockname()[1]
    run = Running(nanet_program, tmp_path, [free_udp_port(), free_udp_port(), page])
    try:
        yield run
    finally:
        run.trigger.kill()
        run.trigger.communicate()
