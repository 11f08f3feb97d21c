# SPDX-License-Identifier: Apache-2.0
"""Round trips through DPDK's memif between two processes: memif.c, compiled against the installed DPDK."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCE = Path(__file__).with_name("memif.c")
_MEMORY_MB = 64


def missing() -> str:
    """Reason why the measurement is left out; empty if it can be made."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        return "DPDK memif: left out, no C compiler or no pkg-config"
    found = subprocess.run(["pkg-config", "--exists", "libdpdk"], check=False)
    if found.returncode:
        return "DPDK memif: left out, DPDK is not installed (Debian packages dpdk and libdpdk-dev)"
    return ""


class Memif:
    """Context manager: the compiled program. RuntimeError if it cannot be compiled."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nanet-memif-")
        self._program = Path(self._folder.name) / "memif"

    def __enter__(self) -> Memif:
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "libdpdk"], capture_output=True, text=True, check=True
        ).stdout.split()
        command = ["cc", "-O2", "-o", str(self._program), str(SOURCE), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self._folder.cleanup()
            raise RuntimeError(
                f"DPDK memif: memif.c does not compile: {done.stderr.strip().splitlines()[-1]}"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def start(self, role: str, *, cpu: int, size: int, seconds: float = 0, samples: int = 0,
              priority: int = 0) -> subprocess.Popen[str]:  # fmt: skip
        """Starts `echo` (to be started first) or `ping`. size: UDP payload in bytes; cpu: -1 for CPU 0."""
        side = "server" if role == "echo" else "client"
        device = f"net_memif0,role={side},socket={self._folder.name}/socket,socket-abstract=no"
        command = [
            str(self._program), "--no-huge", "-m", str(_MEMORY_MB), "--no-pci", "--log-level=3",
            "--no-telemetry", "--no-shconf", "-l", str(max(cpu, 0)), f"--vdev={device}",
            "--", role, str(size), str(seconds), str(samples), str(priority),
        ]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def result(ping: subprocess.Popen[str]) -> dict[str, Any]:
        """Percentiles of a finished `ping`. RuntimeError if it failed."""
        output, errors = ping.communicate(timeout=120)
        if ping.returncode:
            raise RuntimeError(f"DPDK memif: {errors.strip() or 'no result'}")
        return json.loads(output.splitlines()[-1])
