# SPDX-License-Identifier: Apache-2.0
"""The chain of `nanet demo`: three programs on loopback, watched through pipes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from nanet.config.file import Config
from nanet.config.sections import Card, Demo, Monitor, Trigger
from nanet.config.values import page_endpoint
from nanet.errors import UsageError
from nanet.run.core_options import load_algorithm
from nanet.run.process import free_ports

START_S = 20.0  # a program that says nothing for so long has failed
END_S = 20.0
TRIAL_S = 0.5
TRIAL_SPEED = 0.5  # more than two cores carry
# Of the simulated gateware card: cycles that a frame takes, and that it makes per second on a slow core; the
# share of a core that the two of them, card and ring algorithm, may take.
CARD_FRAME_CYCLES, CARD_CYCLES_PER_S, CARD_SHARE = 2000, 0.5e6, 0.5
EXCESS = 2.0  # the first trial's events over those that the ring algorithm alone can take
MIN_SPEED, MAX_SPEED = 0.0005, 1.0
MARGIN = 0.4  # of what the first trial carried; the view and the rest of the host want some too
STEP_DOWN = 0.4
TRIALS = 4
POOL_FRAMES = 1024  # 65 000 events at 10 MHz, made anew by each of the trials
BEHIND_US = 20_000.0
TIMED_EVENTS, TIMED_S = 4096, 0.1  # of the ring algorithm by itself
FRAME, FRAME_S = 64, 6.387449e-6  # events of a frame, its detector time


def page_address(asked: str) -> str:
    """HOST:PORT for the monitor's page: as asked, a free port where port 0 is."""
    host, port = page_endpoint(asked)
    if port == 0:
        with contextlib.suppress(OSError), socket.create_server((host, 0)) as server:
            port = server.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Program:
    """One child: `nanet NAME …` with its status lines read as they come.

    It lives in a session of its own, so that a Ctrl-C at the terminal reaches the demo alone, which then
    ends the chain in order.
    """

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.last: dict[str, Any] = {}  # the newest status line
        self.final: dict[str, Any] = {}  # the line with the result
        self.on_status: Callable[[dict[str, Any]], None] | None = None
        self._log = log
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "nanet", name, *arguments, "--status", f"/dev/fd/{writing}"]
        try:
            with open(log, "wb") as output:
                self.process = subprocess.Popen(
                    command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, pass_fds=(writing,),
                    start_new_session=True,
                )  # fmt: skip
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._said = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(reading,), name=f"status of {name}", daemon=True
        )
        self._thread.start()

    def _read(self, reading: int) -> None:
        with open(reading, encoding="utf-8") as lines:
            for line in lines:
                try:
                    status = json.loads(line)
                except ValueError:  # cut off by a kill
                    continue
                if "result" in status:
                    self.final = status
                else:
                    self.last = status
                    if self.on_status:
                        self.on_status(status)
                self._said.set()
        self._said.set()

    @property
    def snapshot(self) -> dict[str, Any]:
        """Its newest numbers."""
        return (self.final or {}).get("result") or self.last.get("snapshot", {})

    def wait_started(self) -> None:
        """Until its first word. UsageError with its own sentence where it did not start."""
        self._said.wait(START_S)
        if not self.last and not self.final:
            self.kill()
            raise UsageError(f"nanet {self.name} did not start: {self.complaint()}")

    def complaint(self) -> str:
        """The last line it printed."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1].removeprefix("nanet: ")
        return "it said nothing"

    def running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def wait(self) -> None:
        """Until it has ended by itself, for a while."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(START_S)

    def stop(self) -> dict[str, Any]:
        """Tells it to end, waits, and returns its result; UsageError where there is none."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(5.0)
        if "result" not in self.final:
            raise UsageError(f"nanet {self.name} gave no result: {self.complaint()}")
        return self.final["result"]

    def kill(self) -> None:
        """Ends it at once."""
        if self.running():
            self.process.kill()
        self.process.wait()


def carried_share(seen: dict[str, Any], sent: dict[str, Any]) -> float:
    """The part of an overload that trigger and boards carried; `seen` and `sent` are their results.

    Of the events sent, those built; fewer by the time that the trigger needed beyond the trial, which is how
    far behind its slowest answer was; and the boards themselves may have been behind.
    """
    built = seen["events_built"] / max(sent["events_sent"], 1)
    sending = max(sent["elapsed_s"], TRIAL_S)
    return built * TRIAL_S / (sending + seen["latency_us"]["total"]["max"] / 1e6)


def _held(result: dict[str, Any]) -> bool:
    """Whether a trial went well, with room to spare: nothing lost, nothing late, far from the deadline."""
    slowest = result["latency_us"]["total"]["p99_9"]
    hurt = result["frames_late"] + sum(result["lost"].values())
    return not hurt and slowest < result["deadline_us"] / 4


@attrs.define
class Outcome:
    """What a chain left behind."""

    trigger: dict[str, Any]
    histograms: dict[str, Any]
    monitor: dict[str, Any]
    readout: dict[str, Any]
    l0tp: dict[str, Any]
    series: list[dict[str, float]]


class Chain:
    """Sets up and runs the three programs; a context manager that leaves none behind."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.demo = config[Demo]
        self.series: list[dict[str, float]] = []
        self.programs: list[Program] = []
        self._folder = tempfile.TemporaryDirectory(prefix="nanet-demo-")
        self.folder = Path(self._folder.name)
        self.truth = self.folder / "truth.parquet"
        self.trigger: Program | None = None
        self.readout: Program | None = None
        self.l0tp: Program | None = None
        self.page = ""  # address of the monitor's page

    def __enter__(self) -> Chain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.programs:
            program.kill()
        self._folder.cleanup()

    def _program(self, name: str, *arguments: str) -> Program:
        log = self.folder / f"{name}-{len(self.programs)}.log"
        program = Program(name, arguments, log)
        self.programs.append(program)
        return program

    def _trigger(self, port: int, answers: int) -> Program:
        self.config.set(Card, listen=f"127.0.0.1:{port}")
        self.config.set(Trigger, send=f"127.0.0.1:{answers}")
        toml = self.folder / f"trigger-{port}.toml"
        toml.write_text(self.config.toml(Trigger, Card, Monitor), encoding="utf-8")
        return self._program("trigger", "--config", str(toml))

    def _readout(self, port: int, *arguments: str) -> Program:
        demo, card = self.demo, self.config[Card]
        boards = "merged" if card.boards == "merged" else "4"
        return self._program(
            "readout", "--to", f"127.0.0.1:{port}", "--rate", f"{demo.rate:g}", "--noise", f"{demo.noise:g}",
            "--seed", str(demo.seed), "--boards", boards,
            "--pool-frames", str(POOL_FRAMES), *arguments,
        )  # fmt: skip

    def _alone(self) -> float:
        """Events per second that the ring algorithm by itself takes on one core."""
        from nanet import _core

        first, pm = _core.rings_bench_events(TIMED_EVENTS)
        algorithm = load_algorithm(self.config[Trigger].algorithm).name
        parameters = self.config.algorithms.get(algorithm, {})
        return _core.rings_bench_cpu(algorithm, first, pm, FRAME, 1, TIMED_S, parameters)["events_per_s"]

    def _first_speed(self, device: str) -> float:
        """A speed that is too much for this host, but not so much that its backlog takes long to answer."""
        from nanet.run import host

        if device != "cpu":
            return TRIAL_SPEED
        cores = min(self.config[Trigger].threads, len(host.cpus()))
        return min(EXCESS * cores * self._alone() / self.demo.rate, TRIAL_SPEED)

    def card_speed(self, device: str) -> float:
        """The speed that the simulated gateware card and the ring algorithm carry, by calculation."""
        rings = self.demo.rate / self._alone() if device == "cpu" else 0.0
        cycles = CARD_FRAME_CYCLES / FRAME_S / CARD_CYCLES_PER_S
        return float(f"{CARD_SHARE / (rings + cycles):.1g}")

    def find_speed(self, device: str) -> float:
        """The speed this host carries: a trial too fast tells the trigger's rate, more check a part of it.

        device: the one that reconstructs, cpu or cuda:N. Each trial has a trigger of its own, so that none
        inherits another's backlog. Also writes the truth, which depends on the seed alone.
        """
        sink, *ports = free_ports(1 + TRIALS)
        answers = self._program("l0tp", "--listen", f"127.0.0.1:{sink}")
        triggers = [self._trigger(port, sink) for port in ports[:2]]
        for program in (answers, *triggers):
            program.wait_started()
        speed = self._first_speed(device)
        for number, port in enumerate(ports):
            if number >= len(triggers):
                triggers.append(self._trigger(port, sink))
                triggers[-1].wait_started()
            truth = ["--truth", str(self.truth)] if number == 0 else []
            readout = self._readout(port, "--speed", f"{speed:g}", "--duration", f"{TRIAL_S:g}", *truth)
            readout.wait_started()
            readout.wait()
            sent, seen = readout.stop(), triggers[number].stop()
            if number == 0:
                if _held(seen) and sent["behind_max_us"] < BEHIND_US:
                    speed *= 0.8
                    continue
                speed = max(MARGIN * carried_share(seen, sent) * speed, MIN_SPEED)
            elif _held(seen) and sent["behind_max_us"] < BEHIND_US:
                break
            else:
                speed = max(speed * STEP_DOWN, MIN_SPEED)
        answers.stop()
        return float(f"{min(speed, MAX_SPEED):.2g}")

    def make_truth(self) -> None:
        """Writes the truth without a trial: the boards send one event to nobody."""
        (nobody,) = free_ports(1)
        readout = self._readout(nobody, "--events", "1", "--truth", str(self.truth))
        readout.wait_started()
        readout.wait()
        readout.stop()

    def start(self, speed: float) -> None:
        """Starts the chain, back to front, so that nothing is sent to nobody."""
        card, answers = free_ports(2)
        if self.demo.monitor:
            self.page = page_address(self.demo.monitor)
            self.config.set(Monitor, monitor=self.page)
        times = self.folder / "times"
        self.l0tp = self._program(
            "l0tp", "--listen", f"127.0.0.1:{answers}", "--truth", str(self.truth), "--times", str(times)
        )
        self.trigger = self._trigger(card, answers)
        self.trigger.on_status = self._note
        self.l0tp.wait_started()
        self.trigger.wait_started()
        demo = self.demo
        more = ["--fault", demo.fault] if demo.fault else []
        self.readout = self._readout(
            card, "--speed", f"{speed:g}", "--duration", f"{demo.duration:g}", "--times", str(times), *more
        )
        self.readout.wait_started()

    def _note(self, status: dict[str, Any]) -> None:
        snapshot = status["snapshot"]
        moving = not self.series or snapshot["events_built"] > self.series[-1]["events"]
        if snapshot["packets_in"] and moving:
            lost = snapshot["frames_late"] + sum(snapshot["lost"].values())
            self.series.append({"t": status["t"], "events": snapshot["events_built"], "lost": lost})

    def sending(self) -> bool:
        """Whether the boards still send."""
        return self.readout is not None and self.readout.running()

    def finish(self) -> Outcome:
        """Ends the chain, front to back, so that everything sent is answered, and collects what it found."""
        assert self.readout and self.trigger and self.l0tp
        readout = self.readout.stop()
        self._settle()
        trigger = self.trigger.stop()
        time.sleep(0.1)  # the last answers are on their way
        l0tp = self.l0tp.stop()
        final = self.trigger.final
        return Outcome(trigger, final["histograms"], final["monitor"], readout, l0tp, self.series)

    def _settle(self) -> None:
        """Until the trigger has answered all it took in, or for a second."""
        assert self.trigger
        end = time.monotonic() + 1.0
        before = -1
        while time.monotonic() < end and self.trigger.running():
            now = self.trigger.snapshot.get("frames_out", 0)
            if now == before:
                return
            before = now
            time.sleep(0.3)
