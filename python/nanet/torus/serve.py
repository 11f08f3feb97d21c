# SPDX-License-Identifier: Apache-2.0
"""Cards of a torus for processes of this host: `nanet torus serve`, and its start by `nanet mpirun`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nanet.errors import UsageError
from nanet.report.tables import count

READY = "torus ready: "
START_S, END_S = 60, 30  # limits of the process's start and end
TURN_S = 0.2


def folder() -> str:
    """Folder of the shared files: FI_NANET_DIRECTORY, else /dev/shm."""
    return os.environ.get("FI_NANET_DIRECTORY") or "/dev/shm"


def control_file() -> str:
    """A control file's name that no other process uses."""
    return f"{folder()}/nanet-torus-{os.getuid()}-{os.getpid()}"


def serve(
    path: str,
    size: tuple[int, int, int],
    timing: dict[str, Any],
    *,
    balanced: bool,
    seed: int,
    program: str = "",
    ready: Callable[[], None],
    stopped: Callable[[], bool],
) -> dict[str, Any]:
    """Plays the cards until `stopped`; returns what the torus has carried. UsageError, RuntimeError.

    `program` simulates the cards; otherwise they are software over the model.
    """
    from nanet import _core

    if Path(path).exists():
        raise UsageError(f"--control {path}: the file exists; name another, or remove it if no torus runs")
    if not os.access(Path(path).parent, os.W_OK):
        raise UsageError(f"--control {path}: the folder does not exist or cannot be written")
    try:
        cards = _core.torus.Cards(path, size, timing, balanced, seed, program)
    except (ValueError, OSError) as error:
        raise UsageError(f"torus serve: {error}") from None
    parent = os.getppid()
    ready()
    while not stopped() and os.getppid() == parent:  # the end of the launcher ends the torus
        cards.run(TURN_S)
    return cards.totals()


def summary(carried: dict[str, Any]) -> str:
    """One line: packets, words, hops, cycles per packet, refusals."""
    packets = carried["packets"]
    if not packets:
        return "torus: no packets"
    text = (
        f"torus: {count(packets)} packets, {count(carried['words'])} words, "
        f"{carried['hops'] / packets:.2f} hops and {count(round(carried['mean_cycles']))} cycles per packet, "
        f"{count(carried['cycles'])} cycles"
    )
    refused = [f"{times} {name}" for name, times in carried["refused"].items()]
    if carried["dead"]:
        refused.append(f"{carried['dead']} ports of processes that died")
    return "; ".join([text, *refused])


class Carried(dict[str, Any]):
    """Result of `running`, filled at its end."""


@contextlib.contextmanager
def running(size: str, engine: str = "model") -> Iterator[tuple[str, Carried]]:
    """A torus in a separate process: control file and, after the end, what it has carried. UsageError."""
    path = control_file()
    carried = Carried()
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "carried.json"
        command = [
            sys.executable, "-m", "nanet", "torus", "serve", "--size", size, "--link", "reliable",
            "--engine", engine, "--control", path, "--json", str(report),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                process.wait(START_S)
                raise UsageError(f"torus serve ended at its start, with status {process.returncode}")
            yield path, carried
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            Path(path).unlink(missing_ok=True)
            for left in Path(path).parent.glob(Path(path).name + ".*"):
                left.unlink(missing_ok=True)
            with contextlib.suppress(OSError, ValueError):
                carried.update(json.loads(report.read_text()))
