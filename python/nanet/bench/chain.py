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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs
import numpy as np

from nanet.bench.tails import FrameTimes
from nanet.report.output import DROPPED, lost_by_cause
from nanet.run.ports import free_ports

POOL_S = 4.0  # of the boards before they send, on a slow host


@attrs.frozen
class ChainResult:
    """Results and losses of the three programs; no losses: lossless."""

    readout: dict[str, Any]
    trigger: dict[str, Any]
    l0tp: dict[str, Any]
    losses: dict[str, float]
    trigger_cpu_s: float
    frames: FrameTimes | None = None  # with `times`
    stops: list[dict[str, Any]] = attrs.field(factory=list)  # with `stops`: of each polling thread

    @property
    def lossless(self) -> bool:
        """Lossless by the definition of docs/benchmarks.md."""
        return not self.losses


def losses_of(trigger: dict[str, Any], l0tp: dict[str, Any]) -> dict[str, float]:
    """Everything that keeps a run from being lossless, by name."""
    found: dict[str, float] = {f"lost.{name}": n for name, n in lost_by_cause(trigger["lost"]).items() if n}
    # Evidence of a full socket, in messages; their packets are missing.
    found.update({f"{name}_drops": trigger["lost"][name] for name in DROPPED if trigger["lost"].get(name)})
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
    late_us: float | None = None,
    stops: bool = False,
    links: int = 1,
    truth: Path | None = None,
    longest: float | None = None,
) -> ChainResult:
    """Boards -> trigger -> L0TP over loopback, `seconds` of wall clock at `speed`.

    rate: events per second of detector time. keep_off: CPUs reserved for the trigger. times: the L0TP
    also measures the latency from outside, and the result has the times of each frame. late_us, with times:
    also the packets lost as late or overrun, and those sent so long after their frame's first. stops: the
    trigger records the stops of its polling threads. links: its ports; the boards are distributed over them.
    truth: of write_truth with the same options; None: written here. longest: seconds of sending after which
    boards that cannot hold the speed are stopped; the run is then not lossless.
    """
    with _all_cpus() as all_cpus, tempfile.TemporaryDirectory() as folder, Programs(Path(folder)) as programs:
        mtp, *mgp = free_ports(1 + links)
        listen = ",".join(f"127.0.0.1:{port}" for port in mgp)
        ports = ["--listen", listen, "--send", f"127.0.0.1:{mtp}"]
        recorded = ["--stops", str(Path(folder) / "stops")] if stops else []
        lost = ["--late-packets", str(Path(folder) / "lost")] if late_us else []
        trigger = programs.start("trigger", *ports, *trigger_options, *recorded, *lost)
        os.sched_setaffinity(0, all_cpus - set(keep_off) or all_cpus)  # for the processes started below
        boards = _boards(rate, pad)
        if truth is None:
            truth = Path(folder) / "truth.parquet"
            write_truth(truth, pad=pad, rate=rate)
        stamps = ["--times", str(Path(folder) / "times")] if times else []
        late = ["--late", str(Path(folder) / "late")] if times else []
        l0tp = programs.start("l0tp", "--listen", f"127.0.0.1:{mtp}", "--truth", str(truth), *stamps, *late)
        for port in mgp:
            wait_for_port(port, trigger)
        wait_for_port(mtp, l0tp)
        paced = ["--speed", str(speed), "--duration", str(seconds)]
        sent_late = (
            ["--late-packets", str(Path(folder) / "sent_late"), "--late-us", f"{late_us:g}"]
            if late_us
            else []
        )
        readout = programs.start(
            "readout", "--to", listen, *paced, *boards, *board_options, *stamps, *sent_late
        )
        behind = not _sent(readout, seconds, longest)
        time.sleep(1.3)  # the burst has ended and every answer has left
        before = _cpu_s(trigger.pid)
        for process in (trigger, l0tp):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
        results = {name: programs.result(name) for name in ("trigger", "l0tp")}
        try:
            results["readout"] = programs.result("readout")
        except RuntimeError:
            if not behind:  # else the boards were stopped before they sent
                raise
            results["readout"] = {"behind_max_us": None}
        frames = _frame_times(Path(folder)) if times else None
        seen = json.loads((Path(folder) / "stops").read_text()) if stops else []
    losses = losses_of(results["trigger"], results["l0tp"])
    if behind:
        losses["boards_behind"] = 1
    return ChainResult(**results, losses=losses, trigger_cpu_s=before, frames=frames, stops=seen)


def _frame_times(folder: Path) -> FrameTimes:
    """Files of the programs; `lost` and `sent_late` may be missing."""

    def table(name: str, columns: int) -> np.ndarray:
        path = folder / name
        return (np.fromfile(path, np.uint64) if path.exists() else np.zeros(0, np.uint64)).reshape(
            -1, columns
        )

    times = table("times", 2)
    return FrameTimes(
        times[:, 0], times[:, 1], table("late", 1)[:, 0], table("lost", 4), table("sent_late", 3)
    )


def _boards(rate: float, pad: bool) -> list[str]:
    """Options of the boards on which the truth depends."""
    return ["--rate", str(rate), *(["--pad"] if pad else [])]


def write_truth(path: Path, *, pad: bool, rate: float = 10e6) -> None:
    """Writes the truth of run_chain with the same options.

    It depends on the pool and the seed: boards that send one event to an unused port write it.
    """
    with tempfile.TemporaryDirectory() as folder, Programs(Path(folder)) as programs:
        (unused_port,) = free_ports(1)
        options = ["--to", f"127.0.0.1:{unused_port}", "--events", "1", "--truth", str(path)]
        programs.start("readout", *options, *_boards(rate, pad)).wait()


def _sent(readout: subprocess.Popen[str], seconds: float, longest: float | None) -> bool:
    """Waits for the end of the boards; stops them if they take much longer than planned."""
    try:
        readout.wait(timeout=seconds + 120 if longest is None else longest + POOL_S)
    except subprocess.TimeoutExpired:
        if longest is None:
            raise
        readout.send_signal(signal.SIGTERM)
        readout.wait(timeout=30)
        return False
    return True


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

    def start(
        self,
        program: str,
        *arguments: str,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> subprocess.Popen[str]:
        """Starts a program; of two with the same name the result of the later one is kept.

        prefix: a command that runs the program; environment: further variables; command: of Python instead of
        `-m nanet`.
        """
        with open(self._folder / f"{program}.err", "w") as said:
            self._started.append(
                subprocess.Popen(
                    [*prefix, sys.executable, *(command or ["-m", "nanet"]), program, *arguments,
                     "--json", str(self._folder / f"{program}.json")],
                    stdout=subprocess.DEVNULL, stderr=said, text=True,
                    env={**os.environ, **(environment or {})},
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
    """Waits until UDP `port` is bound, in the network namespace of the process."""
    wanted, rows = f"{port:04X}", []
    until = time.monotonic() + 90
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):  # the process has ended
            rows = Path(f"/proc/{process.pid}/net/udp").read_text().splitlines()[1:]
        if any(row.split()[1].rpartition(":")[2] == wanted for row in rows):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on UDP port {port}")


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far (s): user and kernel, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
