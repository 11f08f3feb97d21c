# SPDX-License-Identifier: Apache-2.0
"""The chain of three programs on loopback, as users run it, with its losses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from nanet.run.process import free_ports


@attrs.frozen
class ChainResult:
    """Results and losses of the three programs; no losses: lossless."""

    readout: dict[str, Any]
    trigger: dict[str, Any]
    l0tp: dict[str, Any]
    losses: dict[str, float]
    trigger_cpu_s: float

    @property
    def lossless(self) -> bool:
        """Lossless by the definition of docs/benchmarks.md."""
        return not self.losses


def losses_of(trigger: dict[str, Any], l0tp: dict[str, Any]) -> dict[str, float]:
    """Everything that keeps a run from being lossless, by name."""
    found: dict[str, float] = {f"lost.{name}": n for name, n in trigger["lost"].items() if n}
    found.update({f"bad_packets.{name}": n for name, n in trigger["bad_packets"].items() if n})
    for name in ("frames_late", "frames_overrun", "frames_incomplete"):
        if trigger[name]:
            found[name] = trigger[name]
    if not trigger["account_closes"]:
        found["account"] = 1
    if l0tp["primitives"] != trigger["primitives_out"]:
        found["primitives_not_received"] = trigger["primitives_out"] - l0tp["primitives"]
    if l0tp["frames_missing"]:
        found["l0tp.frames_missing"] = l0tp["frames_missing"]
    expected, paired = l0tp["primitives_expected"], l0tp["primitives_paired"]
    if expected == 0 or paired < 0.999 * expected:
        found["unpaired"] = expected - paired
    return found


def run_chain(
    seconds: float,
    speed: float,
    *,
    pad: bool,
    rate: float = 10e6,
    trigger_options: Sequence[str] = (),
    board_options: Sequence[str] = (),
    keep_off: Sequence[int] = (),
    times: bool = False,
    links: int = 1,
) -> ChainResult:
    """Boards -> trigger -> L0TP over loopback, `seconds` of wall clock at `speed`.

    rate: events per second of detector time. keep_off: CPUs reserved for the trigger. times: the L0TP
    also measures the latency from outside. links: ports of the trigger; the boards are distributed over
    them.
    """
    with _all_cpus() as all_cpus, tempfile.TemporaryDirectory() as folder, Programs(Path(folder)) as programs:
        mtp, nowhere, *mgp = free_ports(2 + links)
        listen = ",".join(f"127.0.0.1:{port}" for port in mgp)
        ports = ["--listen", listen, "--send", f"127.0.0.1:{mtp}"]
        trigger = programs.start("trigger", *ports, *trigger_options)
        os.sched_setaffinity(0, all_cpus - set(keep_off) or all_cpus)  # for the processes started below
        truth = Path(folder) / "truth.parquet"
        boards = ["--rate", str(rate), *(["--pad"] if pad else [])]
        # The truth depends on the pool and the seed: boards that send one event to an unused port write it.
        nobody = ["--to", f"127.0.0.1:{nowhere}", "--events", "1", "--truth", str(truth)]
        programs.start("readout", *nobody, *boards).wait()
        stamps = ["--times", str(Path(folder) / "times")] if times else []
        l0tp = programs.start("l0tp", "--listen", f"127.0.0.1:{mtp}", "--truth", str(truth), *stamps)
        for port in mgp:
            wait_for_port(port, trigger)
        wait_for_port(mtp, l0tp)
        paced = ["--speed", str(speed), "--duration", str(seconds)]
        readout = programs.start("readout", "--to", listen, *paced, *boards, *board_options, *stamps)
        readout.wait(timeout=seconds + 120)
        time.sleep(1.3)  # the burst has ended and every answer has left
        before = _cpu_s(trigger.pid)
        for process in (trigger, l0tp):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
        results = {name: programs.result(name) for name in ("readout", "trigger", "l0tp")}
    return ChainResult(**results, losses=losses_of(results["trigger"], results["l0tp"]), trigger_cpu_s=before)


@contextlib.contextmanager
def _all_cpus() -> Iterator[set[int]]:
    """CPUs available to this process, before and after restrictions."""
    before = os.sched_getaffinity(0)
    try:
        yield before
    finally:
        os.sched_setaffinity(0, before)


class Programs:
    """Starts `nanet NAME …` with their results in a folder; a context manager that terminates them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        """Starts a program; of two with the same name the result of the later one is kept."""
        with open(self._folder / f"{program}.err", "w") as said:
            self._started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "nanet", program, *arguments,
                     "--json", str(self._folder / f"{program}.json")],
                    stdout=subprocess.DEVNULL, stderr=said, text=True,
                )
            )  # fmt: skip
        return self._started[-1]

    def result(self, program: str) -> dict[str, Any]:
        """Result file of a program; RuntimeError with its output if there is none."""
        try:
            return json.loads((self._folder / f"{program}.json").read_text())
        except (OSError, ValueError):
            said = (self._folder / f"{program}.err").read_text().strip()
            raise RuntimeError(f"nanet {program} gave no result: {said}") from None


def wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    """Waits until UDP `port` is bound (/proc/net/udp)."""
    wanted = f"{port:04X}"
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        rows = Path("/proc/net/udp").read_text().splitlines()[1:]
        if any(row.split()[1].rpartition(":")[2] == wanted for row in rows):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on UDP port {port}")


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far (s): user and kernel, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
