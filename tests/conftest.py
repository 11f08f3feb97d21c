# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests: command line, free ports, root of the source tree."""

import json
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
from nanet.run import host
from nanet.run.ports import free_ports, free_tcp_port

ROOT = Path(__file__).resolve().parent.parent

# No deadline on a slow or busy machine; a failing example is printed for repetition.
hypothesis.settings.register_profile("nanet", deadline=None, print_blob=True)
hypothesis.settings.load_profile("nanet")


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def building() -> dict[str, str]:
    """Environment for builds that may use the objects of this run: the complete run compiles each once."""
    return {key: value for key, value in os.environ.items() if key != "CCACHE_RECACHE"}


@pytest.fixture(scope="session")
def nanet_program() -> str:
    """`nanet` of the environment of the tests, for subprocess.Popen."""
    program = Path(sys.executable).parent / "nanet"
    assert program.exists(), f"{program} is missing: run the tests in the environment of ./dev (./dev shell)"
    return str(program)


class Commands:
    """Runs the command line: in a process forked from the command server, or as the installed program.

    The server is used in the default lane, for commands with the environment of the test session.
    """

    def __init__(self, program: str, folder: Path | None) -> None:
        self._program = program
        self._folder = folder
        self._environment = self.environment()
        self._server: subprocess.Popen[str] | None = None

    @staticmethod
    def environment() -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        return {**kept, "COLUMNS": "200", "NO_COLOR": "1"}

    def run(self, arguments: list[str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        if self._folder is None or self.environment() != self._environment:
            return subprocess.run(
                [self._program, *arguments],
                cwd=cwd,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).parent / "command_server.py")],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._server.stdin is not None and self._server.stdout is not None
        files = [self._folder / "out", self._folder / "err"]
        for file in files:
            file.write_bytes(b"")
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "out": str(files[0]),
            "err": str(files[1]),
            "timeout": timeout,
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        status = json.loads(self._server.stdout.readline())
        out, err = (file.read_text() for file in files)
        if status is None:
            raise subprocess.TimeoutExpired([self._program, *arguments], timeout, out, err)
        return subprocess.CompletedProcess([self._program, *arguments], status, out, err)

    def close(self) -> None:
        if self._server is not None:
            self._server.communicate()


@pytest.fixture(scope="session")
def commands(
    nanet_program: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Commands]:
    default_lane = "not complete" in request.config.option.markexpr
    commands = Commands(nanet_program, tmp_path_factory.mktemp("commands") if default_lane else None)
    yield commands
    commands.close()


@pytest.fixture
def nanet(commands: Commands, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`nanet("replay", "run.pcap")` runs the command line in tmp_path and returns the completed process.

    `status` is the expected exit status (None: any), `timeout` is in seconds.
    """

    def run(
        *arguments: object, status: int | None = 0, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        done = commands.run([*map(str, arguments)], tmp_path, timeout)
        said = f"nanet {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}"
        assert status is None or done.returncode == status, said
        assert "Traceback" not in done.stderr, said
        return done

    return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Gives this host so many CPUs, each a core."""

    def give(cpus: int) -> None:
        monkeypatch.setattr(host, "cpus", lambda: list(range(cpus)))
        monkeypatch.setattr(host, "cores", lambda: list(range(cpus)))
        monkeypatch.setattr(host, "siblings", lambda cpu: {cpu})

    return give


@pytest.fixture
def silent_receiver() -> Iterator[str]:
    """Address of a UDP socket without a reader: packets to it are not refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{receiver.getsockname()[1]}"


@pytest.fixture
def free_udp_port() -> Callable[[], int]:
    """Function that returns free UDP ports of 127.0.0.1, each once."""
    return lambda: free_ports(1)[0]


@pytest.fixture
def running(nanet_program: str, tmp_path: Path, free_udp_port: Callable[[], int]) -> Iterator[Running]:
    """A trigger with its monitor."""
    run = Running(nanet_program, tmp_path, [free_udp_port(), free_udp_port(), free_tcp_port()])
    try:
        yield run
    finally:
        run.trigger.kill()
        run.trigger.communicate()
