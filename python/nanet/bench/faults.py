# SPDX-License-Identifier: Apache-2.0
"""`nanet bench faults`: the chain through every fault that it promises to survive.

Each row: boards send for some seconds, the fault happens, the boards go on without it. A frame is good if it
is answered in time, with the packets of all boards. Lost beyond the fault: frames that are not good although
the fault did not touch them, plus one if the account does not close. Recovery: from the end of the fault to
the begin of the first 0.1 s in which 99 % of the frames are good.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from nanet.bench import Settings, Sheet
from nanet.bench.chain import Programs, wait_for_port
from nanet.bench.overload import FRAME_S, recovery_ms
from nanet.bench.receiver import LATE, Answers
from nanet.run.namespaces import End, Namespaces, available
from nanet.run.ports import free_ports

FRAMES_PER_S = 500.0
BEFORE_S, FAULT_S, AFTER_S = 1.0, 0.5, 1.5
DOWN_S = 0.3  # of the interface: a burst ends after 1 s without packets
LONGEST_S = 120.0  # of a burst
SHARE = 0.02  # of the packets, for faults of single packets
TIMEOUT_US, DEADLINE_US = 20_000.0, 200_000.0  # the deadline leaves room for pauses of a loaded host
SLACK_NS = int((TIMEOUT_US + DEADLINE_US) * 1e3)  # frames in flight when the fault begins
PROMISED_MS = 1000.0  # recovery
STEP_NS = 5_000_000_000  # of the clock
MISSING, HEADER_ONLY, INCOMPLETE, GOOD = range(4)  # state of a frame
INCOMPLETE_BIT = 1 << 7  # of a primitive
DISK_BYTES = 1 << 20
RECORD = "recording"
HOST, AWAY = "10.79.0.1", "10.79.0.2"  # boards and trigger with the interface between them


def states_of(answers: Answers, bursts: list[int]) -> list[np.ndarray]:
    """State of each frame, per burst; `bursts`: frames sent in each. Closes the answers."""
    out = [np.full(frames, MISSING, np.uint8) for frames in bursts]
    for number, frame, words in answers.frames():
        if number < len(out) and frame < len(out[number]):
            out[number][frame] = _state(words)
    return out


def _state(words: tuple[int, ...]) -> int:
    """State of the frame of an MTP packet."""
    if words[1] >> 24 == LATE:
        return HEADER_ONLY
    primitives = [word >> 16 for word in words[2:] if word >> 24]  # a timestamp word begins with 0
    # Every frame has events: without a primitive it was answered for packets that never came.
    whole = primitives and not any(word & INCOMPLETE_BIT for word in primitives)
    return GOOD if whole else INCOMPLETE


class Relay:
    """Forwards the packets of each board to the trigger; a board can fall silent."""

    def __init__(self, to: str, boards: int = 4) -> None:
        host, _, port = to.rpartition(":")
        self._target = (host, int(port))
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(boards)]
        for one in self._sockets:
            one.bind(("127.0.0.1", 0))
        self.to = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in self._sockets)
        self.dead: set[int] = set()
        self.dropped = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            while not self._ending:
                for ready in select.select(self._sockets, [], [], 0.05)[0]:
                    data = ready.recv(65536)
                    if self._sockets.index(ready) in self.dead:
                        self.dropped += 1
                    else:
                        out.sendto(data, self._target)

    def close(self) -> None:
        """Ends the thread."""
        self._ending = True
        self._thread.join()
        for one in self._sockets:
            one.close()


@attrs.define
class Scene:
    """A running trigger and the addresses around it."""

    folder: Path
    programs: Programs
    start: Callable[[], subprocess.Popen[str]]  # of the trigger
    process: subprocess.Popen[str]
    to: str  # of the boards
    answers: Answers
    relay: Relay | None = None
    stopped: list[dict[str, Any]] = attrs.field(factory=list)  # results of the trigger

    def stop(self) -> dict[str, Any]:
        """Ends the trigger; its result."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        return self.programs.result("trigger")


@attrs.define
class Sent:
    """What the boards sent in one burst: their result, and the time of each frame (ns; 0: not sent)."""

    result: dict[str, Any]
    times: np.ndarray


@attrs.frozen
class Fault:
    """A fault: name, promise, and its action, which returns begin, end (ns) and what was injected."""

    name: str
    promise: str
    during: Callable[[Scene], tuple[int, int, int]] | None = None
    board_faults: str = ""  # of single packets instead, in the first burst
    touches: str = "late"  # frames of its time may be: late (or missing), incomplete, or none
    setting: Callable[[Path, Settings], contextlib.AbstractContextManager[dict[str, Any]]] | None = None


class NotHere(Exception):
    """A fault that this host does not permit; the message is the reason."""


def run(settings: Settings, sheet: Sheet) -> None:
    """A row per fault; figures `faults`, `lost_beyond`, `recovery_max_ms` and, per fault, both."""
    names = {fault.name for fault in FAULTS}
    for fault in FAULTS:
        if why := _unavailable(fault, settings):
            sheet(f"{fault.name}: not run, {why}")
            sheet.rows.append({"fault": fault.name, "promised": fault.promise, "not_run": why})
            continue
        sheet(f"{fault.name}: {fault.promise}")
        try:
            row = campaign(fault, settings)
        except NotHere as reason:
            sheet(f"{fault.name}: not run, {reason}")
            sheet.rows.append({"fault": fault.name, "promised": fault.promise, "not_run": str(reason)})
            continue
        sheet.rows.append(row)
        key = fault.name.replace(" ", "_").replace("-", "_")
        sheet.figures[f"{key}_lost_beyond"] = row["lost_beyond"]
        sheet.figures[f"{key}_recovery_ms"] = row["recovery_ms"]
    ran = [row for row in sheet.rows if "not_run" not in row]
    sheet.figures["faults"] = len(ran)
    sheet.figures["not_run"] = len(names) - len(ran)
    sheet.figures["lost_beyond"] = sum(row["lost_beyond"] for row in ran)
    sheet.figures["recovery_max_ms"] = max(row["recovery_ms"] for row in ran)


def _unavailable(fault: Fault, settings: Settings) -> str:
    if fault.name == "lost GPU":
        return "" if settings.device != "cpu" else "no GPU here"
    if fault.name == "interface down":
        return available()
    if fault.name == "full disk" and os.geteuid():
        return "a small file system needs root"
    if fault.name == "clock step" and not shutil.which("cc"):
        return "no C compiler"
    return ""


def campaign(fault: Fault, settings: Settings) -> dict[str, Any]:
    """One fault, from the start of the trigger to its account."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nanet-faults-")))
        about = stack.enter_context(fault.setting(folder, settings)) if fault.setting else {}
        scene = stack.enter_context(_scene(folder, settings, about))
        if fault.board_faults:
            sent = [_send(scene, 0, lambda: None, fault=fault.board_faults)]
            begin, end, injected = 0, time.monotonic_ns(), sum(sent[0].result["faults"].values())
            sent.append(_send(scene, 1, lambda: None))
        else:
            during = fault.during
            assert during is not None
            found: list[tuple[int, int, int]] = []
            sent = [_send(scene, 0, lambda: found.append(during(scene)))]
            ((begin, end, injected),) = found
        results = [*scene.stopped, scene.stop()]
        states = states_of(scene.answers, [len(part.times) for part in sent])
    return judge(fault, sent, states, results, begin, end, injected)


def judge(
    fault: Fault,
    sent: list[Sent],
    states: list[np.ndarray],
    results: list[dict[str, Any]],
    begin: int,
    end: int,
    injected: int,
) -> dict[str, Any]:
    """Row of a fault. begin, end: its time (ns)."""
    times = np.concatenate([part.times for part in sent]).astype(np.int64)
    state = np.concatenate(states)
    state, times = state[times > 0], times[times > 0]
    unanswered, incomplete = state <= HEADER_ONLY, state == INCOMPLETE
    if fault.board_faults:  # of packets, which may make their own frames incomplete
        first = np.arange(len(times)) < len(sent[0].times)
        excess = max(int((incomplete & first).sum()) - injected, 0)
        beyond = int(unanswered.sum()) + int((incomplete & ~first).sum()) + excess
        missing = results[0]["lost"]["missing"]
        allowed = injected if fault.touches == "incomplete" else 0
        beyond += max(missing - allowed, 0)
    else:
        touched = (times >= begin - SLACK_NS) & (times <= end + PROMISED_MS * 1e6)
        allowed_late = touched if fault.touches == "late" else np.zeros_like(touched)
        allowed_part = touched if fault.touches in ("late", "incomplete") else np.zeros_like(touched)
        beyond = int((unanswered & ~allowed_late).sum()) + int((incomplete & ~allowed_part).sum())
    if results[-1].get("recorded") and fault.name == "full disk":
        injected = results[-1]["recorded"]["write_failed"]
        if not injected:
            raise RuntimeError("full disk: every packet was written")
    closes = all(result["account_closes"] for result in results)
    after = times[times >= end]
    recovery = recovery_ms(times.astype(np.uint64), state != GOOD, end)
    if not np.isfinite(recovery):  # not at all: a lower limit
        beyond += int((state[times >= end] != GOOD).sum())
        recovery = float(after.max() - end) * 1e-6 if len(after) else 0.0
    return {
        "fault": fault.name,
        "promised": fault.promise,
        "injected": injected,
        "frames": len(times),
        "lost_beyond": beyond + (not closes),
        "recovery_ms": recovery,
        "account_closes": closes,
        "states": {
            "header_only": int((state == HEADER_ONLY).sum()),
            "unanswered": int((state == MISSING).sum()),
            "incomplete": int(incomplete.sum()),
        },
    }


@contextlib.contextmanager
def _scene(folder: Path, settings: Settings, about: Mapping[str, Any]) -> Iterator[Scene]:
    """Trigger and answers. about: host, prefix of its command, environment, options, command."""
    host = about.get("host", "127.0.0.1")
    (port,) = free_ports(1)
    answers = Answers(about.get("answers", "127.0.0.1"))
    with contextlib.ExitStack() as stack:
        stack.callback(answers.close)
        answers.start()
        programs = stack.enter_context(Programs(folder))
        options = ["--listen", f"{host}:{port}", "--send", answers.address, "--algorithm", settings.algorithm,
                   "--timeout-us", f"{TIMEOUT_US:g}", "--deadline-us", f"{DEADLINE_US:g}",
                   "--device", "cpu"]  # fmt: skip
        options += about.get("options", [])  # the later of two equal options counts

        def start() -> subprocess.Popen[str]:
            process = programs.start(
                "trigger", *options, prefix=about.get("prefix", ()), environment=about.get("environment"),
                command=about.get("command"),
            )  # fmt: skip
            wait_for_port(port, process)
            return process

        process, to, relay = start(), f"{host}:{port}", None
        if about.get("relay"):
            relay = Relay(to)
            stack.callback(relay.close)
            to = relay.to
        yield Scene(folder, programs, start, process, to, answers, relay)


def _send(scene: Scene, burst: int, action: Callable[[], None], *, fault: str = "") -> Sent:
    """One burst of the boards: BEFORE_S, the action, AFTER_S."""
    from nanet import _core

    times = scene.folder / f"times-{burst}"
    boards = _core.Readout(
        {"to": scene.to, "speed": FRAMES_PER_S * FRAME_S, "duration": LONGEST_S, "pool_frames": 256,
         "times": str(times), "first_burst": burst, "fault": fault}
    )  # fmt: skip

    def send(seconds: float) -> None:
        frames = boards.snapshot()["frames_sent"] + FRAMES_PER_S * seconds
        until = time.monotonic() + 60
        while boards.snapshot()["frames_sent"] < frames and time.monotonic() < until:
            time.sleep(0.01)

    boards.start()
    send(BEFORE_S)
    action()
    send(AFTER_S)
    boards.request_stop()
    while not boards.join(0.1):
        pass
    result = boards.result()
    first = np.fromfile(times, np.uint64).reshape(-1, 2)[:, 0]
    return Sent(result, first[: result["frames_sent"]])


def _dead_board(scene: Scene) -> tuple[int, int, int]:
    relay = scene.relay
    assert relay is not None
    begin = time.monotonic_ns()
    relay.dead.add(3)
    time.sleep(FAULT_S)
    relay.dead.clear()
    return begin, time.monotonic_ns(), relay.dropped


def _stopped(scene: Scene) -> tuple[int, int, int]:
    begin = time.monotonic_ns()
    scene.process.send_signal(signal.SIGSTOP)
    time.sleep(FAULT_S)
    scene.process.send_signal(signal.SIGCONT)
    return begin, time.monotonic_ns(), 1


def _killed(scene: Scene) -> tuple[int, int, int]:
    begin = time.monotonic_ns()
    scene.process.kill()
    scene.process.wait()
    scene.process = scene.start()
    return begin, time.monotonic_ns(), 1


def _l0tp_away(scene: Scene) -> tuple[int, int, int]:
    begin = time.monotonic_ns()
    scene.answers.disconnect()
    time.sleep(FAULT_S)
    scene.answers.reconnect()
    return begin, time.monotonic_ns(), 1


def _disk_fills(scene: Scene) -> tuple[int, int, int]:
    """The recording has filled its file system; then there is room again."""
    folder = scene.folder / RECORD
    begin = time.monotonic_ns()
    (ballast,) = folder.glob("ballast")
    while shutil.disk_usage(folder).free > 0 and time.monotonic_ns() < begin + 5e9:
        time.sleep(0.02)
    time.sleep(FAULT_S)
    ballast.unlink()
    return begin, time.monotonic_ns(), 1


def _clock_steps(scene: Scene) -> tuple[int, int, int]:
    begin = time.monotonic_ns()
    # In place: the trigger has mapped the file, and a truncated one would end it with SIGBUS.
    with open(scene.folder / "step", "r+b", buffering=0) as file:
        for step in (STEP_NS, 0):
            file.seek(0)
            file.write(struct.pack("=q", step))
            time.sleep(FAULT_S / 2)
    return begin, time.monotonic_ns(), 2


def _interface_down(scene: Scene) -> tuple[int, int, int]:
    inside = ["nsenter", f"--net=/proc/{scene.process.pid}/ns/net", "--"]

    def said(*words: str) -> Any:
        done = subprocess.run([*words], capture_output=True, text=True, check=True)
        return json.loads(done.stdout) if done.stdout else None

    # Static ARP, as boards have it: a lookup while the interface is down would cost 1 s.
    address = said(*inside, "ip", "-j", "link", "show", "host")[0]["address"]
    device = said("ip", "-j", "route", "get", AWAY)[0]["dev"]
    said("ip", "neigh", "replace", AWAY, "lladdr", address, "dev", device, "nud", "permanent")
    begin = time.monotonic_ns()
    said(*inside, "ip", "link", "set", "host", "down")
    time.sleep(DOWN_S)
    said(*inside, "ip", "link", "set", "host", "up")
    return begin, time.monotonic_ns(), 1


def _gpu_lost(scene: Scene) -> tuple[int, int, int]:
    """The kernel faults at frame INJECT_AT, sent about now."""
    begin = time.monotonic_ns()
    time.sleep(FAULT_S)
    return begin, begin, 1


@contextlib.contextmanager
def _relayed(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    yield {"relay": True}


@contextlib.contextmanager
def _small_disk(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    record = folder / RECORD
    record.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"mount is refused ({done.stderr.strip()})")
    try:
        (record / "ballast").write_bytes(bytes(DISK_BYTES // 2))
        yield {"options": ["--record", str(record)]}
    finally:
        subprocess.run(["umount", "--lazy", str(record)], check=True)


@contextlib.contextmanager
def _own_clock(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    library, source = folder / "clock_step.so", Path(__file__).with_name("clock_step.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    (folder / "step").write_bytes(bytes(8))
    yield {"environment": {"LD_PRELOAD": str(library), "NANET_CLOCK_STEP": str(folder / "step")}}


@contextlib.contextmanager
def _namespaces(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    try:
        with Namespaces((End("", HOST), End("trigger", AWAY))) as net:
            yield {"host": AWAY, "answers": HOST, "prefix": net.command("trigger", [])}
    except RuntimeError as error:
        if str(error).startswith("ip "):
            raise NotHere(str(error)) from None
        raise


@contextlib.contextmanager
def _faulty_gpu(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    yield {"command": ["-m", "nanet.bench.faults"], "options": ["--device", settings.device]}


PACKETS = f"{SHARE:g}"
FAULTS = (
    Fault("loss", "every frame answered; lost packets counted", board_faults=f"drop={PACKETS}",
          touches="incomplete"),
    Fault("duplication", "every frame complete; copies counted", board_faults=f"dup={PACKETS}",
          touches="none"),
    Fault("reordering", "every frame answered; late packets counted", board_faults=f"reorder={PACKETS}",
          touches="incomplete"),
    Fault("corruption", "every frame answered; bad packets refused by name",
          board_faults=f"corrupt={PACKETS}", touches="incomplete"),
    Fault("dead board", "every frame answered in time without it; complete once it is back", _dead_board,
          touches="incomplete", setting=_relayed),
    Fault("stopped trigger", "late frames header-only; full rate again within 0.1 s", _stopped),
    Fault("killed trigger", "frames of its absence lost; goes on within the burst", _killed),
    Fault("L0TP away", "answers of its absence lost; the trigger goes on", _l0tp_away),
    Fault("full disk", "every frame answered; packets not recorded are counted", _disk_fills, touches="none",
          setting=_small_disk),
    Fault("clock step", "no frame late: deadlines use the monotonic clock", _clock_steps, touches="none",
          setting=_own_clock),
    Fault("interface down", "frames of its absence lost; goes on within the burst", _interface_down,
          setting=_namespaces),
    Fault("lost GPU", "the CPU goes on; the GPU comes back", _gpu_lost, setting=_faulty_gpu),
)  # fmt: skip


def _trigger_with_faulty_gpu(words: list[str]) -> None:
    """Trigger whose kernel faults after BEFORE_S, as a program. words: options and values."""
    from nanet import _core
    from nanet.run import gpu_recovery
    from nanet.run.process import stop_signals

    given = dict(zip(words[::2], words[1::2], strict=True))
    trigger = _core.Trigger(
        {"listen": given["--listen"], "send": given["--send"], "algorithm": given["--algorithm"],
         "device": given["--device"], "timeout_us": TIMEOUT_US, "deadline_us": DEADLINE_US, "boards": 0xF,
         "inject_fault": int(FRAMES_PER_S * BEFORE_S), "cpu_fallback": True,
         "recovery": gpu_recovery.command()}
    )  # fmt: skip
    with stop_signals() as stop:
        trigger.start()
        while not stop.signals:
            time.sleep(0.02)
    trigger.request_stop()
    trigger.join(20.0)
    result = trigger.result()
    Path(given["--json"]).write_text(json.dumps(result), encoding="utf-8")
    if result["gpu_faults"] != 1:
        sys.exit("the GPU was not lost")


if __name__ == "__main__":
    _trigger_with_faulty_gpu(sys.argv[2:])
