# SPDX-License-Identifier: Apache-2.0
"""Chain of `nanet demo`: its programs on loopback or in network namespaces, monitored through pipes."""

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
from nanet.config.sections import (
    DEFAULT_DEADLINE_US,
    DEFAULT_TIMEOUT_US,
    MAX_FRAMES,
    REAL_TIME_TIMEOUT_US,
    Card,
    Demo,
    DetectorFile,
    Final,
    Monitor,
    RealTime,
    Trigger,
)
from nanet.config.values import board_faults, link_faults, page_endpoint
from nanet.detector import load_or_default
from nanet.errors import UsageError
from nanet.report.farm import farm_account, merged_histograms, totals
from nanet.report.final import (
    LoopAddresses,
    boards_latency_us,
    closed_loop,
    default_card_latency_us,
    default_latency_us,
)
from nanet.report.output import packets_lost
from nanet.run import host
from nanet.run.core_options import check_latency, load_algorithm
from nanet.run.links import ForwarderLink, NetemLink, netem_available
from nanet.run.namespaces import End, Namespaces, available
from nanet.run.placement import placement_of
from nanet.run.ports import free_port_pair, free_ports

START_S = 60.0  # a program without output for this time has failed; one that ends is noticed at once
END_S = 20.0
TRIAL_S = 0.5
TRIAL_SPEED = 0.5  # more than two cores sustain
# Simulated gateware card: cycles per frame, simulated cycles per second on a slow core, and the share of a
# core for card and ring algorithm together.
CARD_FRAME_CYCLES, CARD_CYCLES_PER_S, CARD_SHARE = 2000, 0.5e6, 0.5
EXCESS = 2.0  # events of the first trial, relative to the capacity of the ring algorithm alone
MIN_SPEED, MAX_SPEED = 0.0005, 1.0
MARGIN = 0.4  # of the speed of the first trial; leaves room for the view and the rest of the host
STEP_DOWN = 0.4
TRIALS = 4
POOL_FRAMES = 1024  # 65 000 events at 10 MHz, generated in each trial
BEHIND_US = 20_000.0
TIMED_EVENTS, TIMED_S = 4096, 0.1  # of the ring algorithm alone
FARM_MARGIN = 0.5  # of the speed that one node sustained; the nodes of a farm share this host
PAGE_ADDRESS = "10.77.2.2"  # of the monitor page in the namespace of the first node
FINAL_MARGIN = 0.5  # boards and farm of the final trigger share this host, too
FRAME, FRAME_S = 64, 6.387449e-6  # events per frame, detector time per frame


def node_place(node: int, nodes: int) -> str:
    """Network namespace of a trigger node."""
    return "trigger" if nodes == 1 else f"trigger{node}"


def network_of(nodes: int, wires: bool = False) -> list[tuple[End, End]]:
    """Links of --network: boards to each node, each node to L0TP, and this host to the monitor page.

    wires: the link from the boards to node N goes through a namespace wireN, for a forwarder.
    """
    links = []
    for node in range(nodes):
        place, net = node_place(node, nodes), 4 * node
        boards, card = End("boards", f"10.77.{net}.1"), End(place, f"10.77.{net}.2")
        if wires:
            links += [(boards, End(f"wire{node}", "")), (End(f"wire{node}", ""), card)]
        else:
            links.append((boards, card))
        links.append((End(place, f"10.77.{net + 1}.2"), End("l0tp", f"10.77.{net + 1}.1")))
    return [*links, (End("", "10.77.2.1"), End(node_place(0, nodes), PAGE_ADDRESS))]


def page_address(asked: str) -> str:
    """HOST:PORT of the monitor page; port 0 is replaced by a free one."""
    host, port = page_endpoint(asked)
    if port == 0:
        with contextlib.suppress(OSError), socket.create_server((host, 0)) as server:
            port = server.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _addresses(name: str, ports: Sequence[int]) -> str:
    return ",".join(f"{name}:{port}" for port in ports)


class Program:
    """A child process: `nanet NAME …`, with its status lines read as they arrive.

    It runs in a separate session: Ctrl-C at the terminal reaches only the demo, which then stops the
    chain in order.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, place: Callable[[list[str]], list[str]] = list
    ) -> None:
        self.name = name
        self.last: dict[str, Any] = {}  # latest status line
        self.final: dict[str, Any] = {}  # line with the result
        self.on_status: Callable[[dict[str, Any]], None] | None = None
        self._log = log
        reading, writing = os.pipe()
        command = place([sys.executable, "-m", "nanet", name, *arguments, "--status", f"/dev/fd/{writing}"])
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
                except ValueError:  # truncated by a kill
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
        """Latest numbers."""
        return (self.final or {}).get("result") or self.last.get("snapshot", {})

    def wait_started(self) -> None:
        """Waits for the first output. UsageError with the program's message if it did not start."""
        self._said.wait(START_S)
        if not self.last and not self.final:
            busy = f"no status in {START_S:g} s; is this host overloaded?" if self.running() else ""
            self.kill()
            raise UsageError(f"nanet {self.name} did not start: {busy or self.complaint()}")

    def complaint(self) -> str:
        """Last line of the program's output."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1].removeprefix("nanet: ")
        return "it said nothing"

    def running(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def wait(self) -> None:
        """Waits for the end of the process, up to START_S."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(START_S)

    def stop(self) -> dict[str, Any]:
        """Stops the process, waits, and returns its result; UsageError without a result."""
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
        """Kills the process."""
        if self.running():
            self.process.kill()
        self.process.wait()


def carried_share(seen: dict[str, Any], sent: dict[str, Any]) -> float:
    """Share of an overload that trigger and boards carried; `seen` and `sent` are their results.

    Events built divided by events sent, reduced by the delay of the boards and of the slowest answer.
    """
    built = seen["events_built"] / max(sent["events_sent"], 1)
    sending = max(sent["elapsed_s"], TRIAL_S)
    return built * TRIAL_S / (sending + seen["latency_us"]["total"]["max"] / 1e6)


def _held(result: dict[str, Any]) -> bool:
    """Whether a trial had no loss, no late frame, and latencies below a quarter of the deadline."""
    slowest = result["latency_us"]["total"]["p99_9"]
    hurt = result["frames_late"] + sum(result["lost"].values())
    return not hurt and slowest < result["deadline_us"] / 4


@attrs.define
class Outcome:
    """Results of a chain. trigger, histograms: of all nodes; monitor: of the first one with a result."""

    trigger: dict[str, Any]
    histograms: dict[str, Any]
    monitor: dict[str, Any]
    readout: dict[str, Any]
    l0tp: dict[str, Any]
    series: list[dict[str, float]]
    nodes: list[dict[str, Any] | None]  # results of the nodes; None: it ended without one
    farm: dict[str, Any]
    final: dict[str, Any]  # account of the closed loop; empty without --final
    slack: dict[str, Any]  # histograms of the triggers at the boards
    links: list[dict[str, Any]]  # accounts of the emulated links; empty without faults of links


class Chain:
    """Starts and stops the programs; a context manager that terminates all of them."""

    def __init__(self, config: Config) -> None:
        self.placement = placement_of(config) if config[Demo].cores == "own" else None
        self.config = config
        self.demo = config[Demo]
        self.series: list[dict[str, float]] = []
        self.programs: list[Program] = []
        self._folder = tempfile.TemporaryDirectory(prefix="nanet-demo-")
        self.folder = Path(self._folder.name)
        self.truth = self.folder / "truth.parquet"
        self.nodes = self.demo.nodes
        self.triggers: list[Program] = []  # by node
        self._inputs: list[list[int]] = []  # ports of the nodes
        self._answers = 0  # port of L0TP
        self.readout: Program | None = None
        self.l0tp: Program | None = None
        self.page = ""  # address of the monitor page
        self._open = contextlib.ExitStack()
        self._network: Namespaces | None = None
        self._link_faults = link_faults(self.demo.fault)
        self._wires = False  # forwarders between boards and nodes
        self._links: list[NetemLink | ForwarderLink] = []
        self.loop: LoopAddresses | None = None  # of the final trigger
        self.speed = 0.0

    def __enter__(self) -> Chain:
        if self.demo.network:
            if why := available():
                self._folder.cleanup()
                raise UsageError(f"demo.network = true: {why}")
            self._wires = bool(self._link_faults) and not netem_available()
            self._network = self._open.enter_context(Namespaces(*network_of(self.nodes, self._wires)))
            self._open.callback(self._stop_links)
            if self._wires:
                for node in range(self.nodes):
                    self._network.without_trains("boards", f"wire{node}")
                self._forward({})  # trials find the speed of the link without its faults
        elif self._link_faults:
            self._folder.cleanup()
            raise UsageError(f"demo.fault = {self.demo.fault!r}: faults of a link need --network")
        return self

    def _forward(self, faults: dict[str, float]) -> None:
        """Starts the forwarders in place of earlier ones."""
        assert self._network
        self._stop_links()
        self._links = [
            ForwarderLink(
                self._network, f"wire{node}", "boards", node_place(node, self.nodes), faults,
                self.demo.seed + node,
            )
            for node in range(self.nodes)
        ]  # fmt: skip

    def _start_links(self) -> None:
        """Faults of the links, from now on."""
        if self._wires:
            self._forward(self._link_faults)
        elif self._link_faults and self._network:
            self._links = [
                NetemLink(self._network, "boards", node_place(node, self.nodes), self._link_faults)
                for node in range(self.nodes)
            ]

    def _stop_links(self) -> None:
        for link in self._links:
            link.stop()
        self._links = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.programs:
            program.kill()
        self._open.close()
        self._folder.cleanup()

    def _card_host(self, node: int) -> str:
        return f"10.77.{4 * node}.2" if self._network else "127.0.0.1"

    def _answers_host(self, node: int) -> str:
        return f"10.77.{4 * node + 1}.1" if self._network else "127.0.0.1"

    def _program(self, name: str, *arguments: str, place: str = "") -> Program:
        log = self.folder / f"{name}-{len(self.programs)}.log"
        network = self._network
        inside = (lambda command: network.command(place or name, command)) if network else list
        kept_free = self.placement.kept_free if self.placement and name != "trigger" else []
        with host.apart(kept_free):
            program = Program(name, arguments, log, inside)
        self.programs.append(program)
        return program

    def _free_ports(self, nodes: int) -> tuple[int, list[list[int]]]:
        """Ports of L0TP and of triggers: one each, or one per link with separate cores."""
        links = self.placement.links if self.placement else 1
        answers, *ports = free_ports(1 + nodes * links)
        return answers, [ports[k * links : (k + 1) * links] for k in range(nodes)]

    def _trigger(self, ports: Sequence[int], answers: int, node: int = 0, share: str = "") -> Program:
        self.config.set(Card, listen=_addresses(self._card_host(node), ports), node=share)
        self.config.set(Trigger, send=f"{self._answers_host(node)}:{answers}")
        if node or self.page:
            self.config.set(Monitor, monitor="" if node else self.page)
        toml = self.folder / f"trigger-{node}-{ports[0]}.toml"
        given = (Trigger, Card, DetectorFile, RealTime, Monitor, Final)
        toml.write_text(self.config.toml(*given), encoding="utf-8")
        loop = ["--loop", str(self.folder / "loop.json")] if self.loop else []
        return self._program("trigger", "--config", str(toml), *loop, place=node_place(node, self.nodes))

    def _readout(self, nodes: Sequence[Sequence[int]], *arguments: str) -> Program:
        demo, card = self.demo, self.config[Card]
        given = self.config[DetectorFile].detector
        detector = ["--detector", given] if given else []
        boards = "merged" if card.boards == "merged" else "4"
        hosts = [_addresses(self._card_host(k), ports) for k, ports in enumerate(nodes)]
        to = [word for addresses in hosts for word in ("--to", addresses)]
        placed = self.placement.when_due() if self.placement else []
        return self._program(
            "readout", *to, "--rate", f"{demo.rate:g}",
            "--noise", f"{demo.noise:g}", "--seed", str(demo.seed), "--boards", boards,
            "--pool-frames", str(POOL_FRAMES), *detector, *placed, *arguments,
            place="boards",
        )  # fmt: skip

    def _alone(self) -> float:
        """Events per second of the ring algorithm alone on one core."""
        from nanet import _core

        first, pm = _core.rings_bench_events(TIMED_EVENTS)
        algorithm = load_algorithm(self.config[Trigger].algorithm).name
        parameters = self.config.algorithms.get(algorithm, {})
        return _core.rings_bench_cpu(algorithm, first, pm, FRAME, 1, TIMED_S, parameters)["events_per_s"]

    def _first_speed(self, device: str) -> float:
        """A speed above the capacity of this host, with a backlog that is still short."""
        if device != "cpu":
            return TRIAL_SPEED
        cores = min(self.config[Trigger].threads, len(host.cpus()))
        return min(EXCESS * cores * self._alone() / self.demo.rate, TRIAL_SPEED)

    def card_speed(self, device: str) -> float:
        """Calculated speed of the simulated gateware card with the ring algorithm."""
        rings = self.demo.rate / self._alone() if device == "cpu" else 0.0
        cycles = CARD_FRAME_CYCLES / FRAME_S / CARD_CYCLES_PER_S
        share = CARD_SHARE * (FINAL_MARGIN if self.demo.final else 1.0)
        return float(f"{share / (rings + cycles):.1g}")

    def find_speed(self, device: str) -> float:
        """Speed that this host sustains: an overload gives the trigger's rate, more trials check a part.

        device: cpu or cuda:N. Each trial starts a new trigger, without the backlog of the previous
        one. The trials also write the truth, which depends on the seed alone.
        """
        sink, inputs = self._free_ports(TRIALS)
        answers = self._program("l0tp", "--listen", f"{self._answers_host(0)}:{sink}")
        # An interface serves one trigger, and so does a core.
        together = 1 if self.config[Card].card == "xdp" or self.placement else 2
        triggers = [self._trigger(ports, sink) for ports in inputs[:together]]
        for program in (answers, *triggers):
            program.wait_started()
        speed = self._first_speed(device)
        for number, ports in enumerate(inputs):
            if number >= len(triggers):
                triggers.append(self._trigger(ports, sink))
                triggers[-1].wait_started()
            truth = ["--truth", str(self.truth)] if number == 0 else []
            readout = self._readout([ports], "--speed", f"{speed:g}", "--duration", f"{TRIAL_S:g}", *truth)
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
        if self.nodes > 1:
            speed *= FARM_MARGIN
        if self.demo.final:
            speed *= FINAL_MARGIN
        return float(f"{min(speed, MAX_SPEED):.2g}")

    def make_truth(self) -> None:
        """Writes the truth without a trial: the boards send one event to a port without receiver."""
        _, unused = self._free_ports(1)
        readout = self._readout(unused, "--events", "1", "--truth", str(self.truth))
        readout.wait_started()
        readout.wait()
        readout.stop()

    def _close_loop(self, speed: float, deadline_us: float, timeout_us: float) -> tuple[list[str], list[str]]:
        """Addresses and latency of the final trigger; options of the boards and of the farm."""
        boards = load_or_default(self.config[DetectorFile].detector).boards
        self.loop = LoopAddresses(
            ",".join(f"127.0.0.1:{port}" for port in free_ports(boards)), f"127.0.0.1:{free_port_pair()}"
        )
        final = self.config[Final]
        gateware = self.config[Card].card == "gateware"
        if gateware:
            default_us = default_card_latency_us(self.config[Card].timeout_us or REAL_TIME_TIMEOUT_US)
        else:
            default_us = default_latency_us(deadline_us, speed)
        latency_us = final.latency_us or default_us
        check_latency(final, latency_us, timeout_us, 1.0 if gateware else speed)
        # Boards and trigger have this host's clock.
        sync = "" if gateware else f"127.0.0.1:{free_ports(1)[0]}"
        self.config.set(
            Final, final_boards=self.loop.boards, farm=self.loop.farm, latency_us=latency_us, sync=sync,
            time_source="ptp", clock_speed=1.0 if gateware else speed,
        )  # fmt: skip
        if gateware:  # releases the triggers at t + L itself
            latency_us = boards_latency_us(latency_us, speed)
        late_frames = int(latency_us / 1e6 / FRAME_S) + 64  # a delayed trigger comes after t + L
        delay = ["--delay-frames", str(late_frames)] if "delay" in self.demo.fault else []
        return (
            ["--final-boards", self.loop.boards, "--farm", self.loop.farm,
             "--latency-us", f"{latency_us:.3f}", *(["--sync", sync] if sync else []), *delay],
            ["--farm", self.loop.farm, "--farm-boards", str(boards)],
        )  # fmt: skip

    def start(
        self, speed: float, deadline_us: float = DEFAULT_DEADLINE_US, timeout_us: float = DEFAULT_TIMEOUT_US
    ) -> None:
        """Starts the chain from receiver to sender, so that every packet has a receiver.

        deadline_us, timeout_us: of the trigger; the final trigger's latency follows them.
        """
        self.speed = speed
        of_boards, of_farm = self._close_loop(speed, deadline_us, timeout_us) if self.demo.final else ([], [])
        self._answers, self._inputs = self._free_ports(self.nodes)
        if self.demo.monitor:
            self.page = page_address(self.demo.monitor)
            if self._network:  # loopback of the trigger's namespace is out of reach
                self.page = f"{PAGE_ADDRESS}:{self.page.rpartition(':')[2]}"
        times = self.folder / "times"
        self.l0tp = self._program(
            "l0tp",
            "--listen",
            f"{self._answers_host(0) if self.nodes == 1 else '0.0.0.0'}:{self._answers}",
            "--truth",
            str(self.truth),
            "--times",
            str(times),
            "--nodes",
            str(self.nodes),
            "--burst-frames",
            str(MAX_FRAMES),
            *of_farm,
        )
        self.triggers = [self._node(node) for node in range(self.nodes)]
        for program in (self.l0tp, *self.triggers):
            program.wait_started()
        demo = self.demo
        faults = board_faults(demo.fault)
        more = ["--fault", faults] if faults else []
        self._start_links()
        self.readout = self._readout(
            self._inputs,
            "--speed",
            f"{speed:g}",
            "--duration",
            f"{demo.duration:g}",
            "--times",
            str(times),
            *more,
            *of_boards,
        )
        self.readout.wait_started()

    def _node(self, node: int) -> Program:
        share = f"{node}/{self.nodes}" if self.nodes > 1 else ""
        program = self._trigger(self._inputs[node], self._answers, node, share)
        program.on_status = self._note
        return program

    def kill_node(self, node: int) -> None:
        """Kills a trigger node; its frames are lost until restart_node()."""
        self.triggers[node].kill()

    def restart_node(self, node: int) -> None:
        """Starts a killed trigger node again, with the same addresses."""
        self.triggers[node] = self._node(node)
        self.triggers[node].wait_started()

    def status(self) -> dict[str, Any]:
        """Latest status of all nodes together."""
        known = [program.last for program in self.triggers if "snapshot" in program.last]
        if not known:
            return {}
        return {**known[0], "snapshot": totals([status["snapshot"] for status in known])}

    def _note(self, status: dict[str, Any]) -> None:
        snapshot = self.status().get("snapshot", status["snapshot"])
        if self.loop and self.readout and self.l0tp:  # for the monitor page; a reader never sees a part
            account = closed_loop(snapshot, self.readout.snapshot, self.l0tp.snapshot, self.speed)
            part = self.folder / "loop.part"
            part.write_text(json.dumps(account), encoding="utf-8")
            part.replace(self.folder / "loop.json")
        moving = not self.series or snapshot["events_built"] > self.series[-1]["events"]
        if snapshot["packets_in"] and moving:
            lost = snapshot["frames_late"] + packets_lost(snapshot["lost"])
            self.series.append({"t": status["t"], "events": snapshot["events_built"], "lost": lost})

    def sending(self) -> bool:
        """Whether the boards are sending."""
        return self.readout is not None and self.readout.running()

    def finish(self) -> Outcome:
        """Stops the chain from sender to receiver, after all answers, and collects the results."""
        assert self.readout and self.triggers and self.l0tp
        readout = self.readout.stop()
        self._settle()
        nodes = [self._result(program) for program in self.triggers]
        time.sleep(0.1)  # the last answers are in flight
        l0tp = self.l0tp.stop()
        links = [link.account() for link in self._links]
        self._stop_links()
        final = closed_loop(nodes[0], readout, l0tp, self.speed) if self.demo.final and nodes[0] else {}
        finals = [p.final for p, result in zip(self.triggers, nodes, strict=True) if result is not None]
        return Outcome(
            totals([result for result in nodes if result is not None]),
            merged_histograms([final["histograms"] for final in finals]),
            finals[0]["monitor"], readout, l0tp, self.series, nodes, farm_account(readout, l0tp),
            final, self._slack(), links,
        )  # fmt: skip

    def _slack(self) -> dict[str, Any]:
        """Slack of the decisions in a card that releases the triggers, else of the triggers at the boards."""
        assert self.readout
        card = self.triggers[0].final.get("slack")
        return {"slack": card} if card else self.readout.final.get("histograms", {})

    def _result(self, program: Program) -> dict[str, Any] | None:
        """Result of a node; None if it died and others live."""
        if self.nodes > 1 and not program.running() and any(other.running() for other in self.triggers):
            return program.final.get("result")
        return program.stop()

    def _settle(self) -> None:
        """Waits until the trigger has answered all its input, for a second at most."""
        end = time.monotonic() + 1.0
        before = -1
        while time.monotonic() < end and any(program.running() for program in self.triggers):
            now = sum(program.snapshot.get("frames_out", 0) for program in self.triggers)
            if now == before:
                return
            before = now
            time.sleep(0.3)
