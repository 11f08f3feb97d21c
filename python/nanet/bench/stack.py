# SPDX-License-Identifier: Apache-2.0
"""`nanet bench stack`: network stacks compared between two network namespaces joined by a veth pair.

Rows: {trigger, bare echo} x {socket blocking, socket spinning, busy polling, xdp} x {normal, real time} x
{idle, loaded}: round trips of one packet (16 events, 1168 B). Where DPDK is installed, a bare echo through
its memif (shared memory, no kernel) too. Sender and responder are separate processes, on separate cores where
there are two. Loaded: one busy process per CPU. Real time: SCHED_FIFO and locked memory for both ends.

Then the CPU time of one received packet, kernel and program together, for the socket card and the XDP card:
with frames injected as from a network card (`xdp_over_socket_cpu`), and with packets of a kernel socket
(`xdp_over_socket_cpu_veth`), which a veth interface copies once more to give XDP its headroom. Injected
frames for the socket card have no UDP checksum, since a network card verifies it for the kernel; those for
the XDP card have one, which the card verifies. Needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanet.bench import Row, Settings, Sheet, median, memif
from nanet.bench.latency import BYTES, EVENTS, PERCENTILES, pins
from nanet.config.sections import MAX_FRAMES
from nanet.errors import UsageError
from nanet.run import host
from nanet.run.namespaces import End, Namespaces, available

SENDER, TRIGGER = "10.77.0.1", "10.77.0.2"
PORT = 58913
PRIORITY = 50
SCHEDULERS = {False: "normal", True: "real time"}
LOADS = {False: "idle", True: "loaded"}
# Path -> path of the bare echo, options of the trigger.
PATHS: dict[str, tuple[str, list[str]]] = {
    "socket, blocking": ("blocking", ["--busy", "no"]),
    "socket, spinning": ("spinning", ["--busy", "yes"]),
    "socket, busy poll": ("busy_poll", ["--busy", "no", "--busy-poll-us", "50"]),
    "xdp": ("xdp", ["--card", "xdp", "--busy", "yes"]),
}
PROGRAMS = ("bare echo", "trigger")
MEMIF = "DPDK memif"
# Half round trips of 1168 B through sockperf on Gigabit Ethernet, standard stack, idle: the NaNet papers. For
# the real-time kernel, PF_RING and NaNet they show curves without numbers.
PUBLISHED = {"p50_us": 96.0, "p99_us": 150.0, "p99_9_us": 201.0, "p99_99_us": 475.0, "max_us": 658.0}
SLEEPING_US, SPINNING_US = 80.0, 20.0  # about a round trip on an idle host: fixes the number of samples
PATIENCE = 4.0  # a memif row ends after this many times `seconds` with the round trips made until then
RECEIVE_RATE = 625e3  # packets per second, one by one: four boards, a frame each 6.4 us
# Origin of the frames of the receive cost -> figure.
SOURCES = {"as from a NIC": "xdp_over_socket_cpu", "of a kernel socket": "xdp_over_socket_cpu_veth"}


def run(settings: Settings, sheet: Sheet) -> None:
    """Measures all paths; figures xdp_over_socket_cpu and realtime_p99_9_gain."""
    why = available()
    if why:
        raise UsageError(f"bench stack: {why}")
    seconds = settings.seconds or 2.0
    with Namespaces((End("boards", SENDER), End("trigger", TRIGGER))) as net:
        for loaded in (False, True):
            for real_time in (False, True):
                for program in PROGRAMS:
                    for path in PATHS:
                        _say(sheet, program, path, real_time, loaded)
                        measured = _round_trips(
                            net, program, path, real_time, loaded, seconds, settings.algorithm
                        )
                        sheet.rows.append(_row(program, path, real_time, loaded, measured))
        _memif(sheet, seconds)
        figures = sheet.figures
        loaded_rows = {
            (row["path"], row["scheduler"]): row["p99_9_us"]
            for row in sheet.rows
            if row["load"] == "loaded" and row["program"] == "trigger"
        }
        for path in PATHS:
            gain = loaded_rows[path, "normal"] / loaded_rows[path, "real time"]
            figures[f"realtime_p99_9_gain_{_key(path)}"] = gain
        figures["realtime_p99_9_gain"] = max(
            figures[f"realtime_p99_9_gain_{_key(path)}"] for path in PATHS if path != "socket, blocking"
        )
        for source, name in SOURCES.items():
            costs: dict[str, list[float]] = {"card": [], "xdp_card": []}
            for _ in range(settings.runs):
                for kind, found in costs.items():
                    sheet(f"CPU time of a received packet: {kind}, frames {source}")
                    sheet.rows.append(_receive_cost(net, kind, source, seconds))
                    found.append(sheet.rows[-1]["cpu_us"])
            figures[name] = median(costs["xdp_card"]) / median(costs["card"])
    figures |= {f"published_{name}": value for name, value in PUBLISHED.items()}


def _say(sheet: Sheet, program: str, path: str, real_time: bool, loaded: bool) -> None:
    sheet(f"{program}, {path}; {SCHEDULERS[real_time]}, {LOADS[loaded]}")


def _row(program: str, path: str, real_time: bool, loaded: bool, measured: dict[str, Any]) -> Row:
    return {
        "program": program,
        "path": path,
        "scheduler": SCHEDULERS[real_time],
        "load": LOADS[loaded],
        "samples": measured["samples"],
        "lost": measured["lost"],
        "late": measured["wrong"],  # header-only, at the deadline of 100 ms
        **{f"{p}_us": measured[f"{p}_us"] for p in (*PERCENTILES[:5], "max")},
    }


def _memif(sheet: Sheet, seconds: float) -> None:
    """Rows of the bare echo through DPDK's memif; a sentence where DPDK is not installed."""
    if why := memif.missing():
        sheet(why)
        return
    sender, responder = pins()
    with memif.Memif() as program:
        for loaded in (False, True):
            for real_time in (False, True):
                _say(sheet, "bare echo", MEMIF, real_time, loaded)
                priority = PRIORITY if real_time else 0
                samples = _samples(seconds, blocking=False)
                with _hogs(loaded):
                    echo = program.start("echo", cpu=responder, size=BYTES, priority=priority)
                    try:
                        echo.stdout.readline()  # its socket is open
                        ping = program.start(
                            "ping", cpu=sender, size=BYTES, seconds=PATIENCE * seconds, samples=samples,
                            priority=priority,
                        )  # fmt: skip
                        measured = program.result(ping)
                    finally:
                        echo.terminate()
                        echo.communicate(timeout=30)
                sheet.rows.append(_row("bare echo", MEMIF, real_time, loaded, measured))


def _samples(seconds: float, *, blocking: bool) -> int:
    return max(int(seconds * 1e6 / (SLEEPING_US if blocking else SPINNING_US)), 2000)


def _key(path: str) -> str:
    return path.replace(", ", "_").replace(" ", "_")


@contextlib.contextmanager
def _hogs(active: bool) -> Iterator[None]:
    """A process of pure computation per CPU while the context is open."""
    code = "while True: sum(range(100000))"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in host.cpus()] if active else []
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _round_trips(
    net: Namespaces, program: str, path: str, real_time: bool, loaded: bool, seconds: float, algorithm: str
) -> dict[str, Any]:
    """Round trips for `seconds`: the client's percentiles."""
    sender, responder = pins()
    client = net.start("boards", _helper("ping", real_time), pipe=True)
    server = None
    try:
        reply_port = _line(client)
        echo_path, options = PATHS[path]
        if program == "bare echo":
            given = {"cpu": responder, "path": echo_path, "reply": f"{SENDER}:{reply_port}"}
            server = net.start("trigger", _helper("echo", real_time, **given), pipe=True)
            port = int(_line(server))
        else:
            port = PORT
            pin = ["--pin", str(responder)] if responder >= 0 else []
            fifo = ["--scheduler", "fifo", "--priority", str(PRIORITY), "--lock-memory", "yes"]
            arguments = [
                "trigger", "--listen", f"{TRIGGER}:{port}", "--send", f"{SENDER}:{reply_port}",
                "--boards", "merged", "--algorithm", algorithm, "--device", "cpu",
                "--timeout-us", "5e4", "--deadline-us", "1e5", "--max-frames", str(16 * MAX_FRAMES),
                *options, *pin, *(fifo if real_time else []),
            ]  # fmt: skip
            server = net.start("trigger", [sys.executable, "-m", "nanet", *arguments], pipe=True)
            while not (line := _line(server)).startswith("nanet trigger:"):
                if line.startswith("realtime:"):
                    raise RuntimeError(line)
        with _hogs(loaded):
            samples = _samples(seconds, blocking="blocking" in path)
            order = {
                "to": f"{TRIGGER}:{port}",
                "echo": program == "bare echo",
                "samples": samples,
                "cpu": sender,
            }
            assert client.stdin is not None
            client.stdin.write(json.dumps(order) + "\n")
            client.stdin.flush()
            answer = json.loads(_line(client))
    finally:
        for process in (client, server):
            if process is not None:
                process.terminate()
                process.communicate(timeout=30)
    return answer


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a program of the bench ended: {' '.join(map(str, process.args))}")
    return line.rstrip("\n")


def _helper(role: str, real_time: bool = False, **more: Any) -> list[str]:
    """Command of a helper process: this module."""
    return [sys.executable, "-m", "nanet.bench.stack", json.dumps({"role": role, "fifo": real_time, **more})]


def _receive_cost(net: Namespaces, kind: str, source: str, seconds: float) -> Row:
    """CPU time per packet of the receiving program and of the interface's NAPI thread."""
    sender, receiver = pins()
    # Real time for both threads: other work on the host would otherwise delay them, and the interface drop.
    napi = net.threaded_napi("trigger", "boards", receiver)
    for thread in napi:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(PRIORITY))
    probe = net.start(
        "trigger", _helper("receive", True, kind=kind, listen=f"{TRIGGER}:0", cpu=receiver), pipe=True
    )
    try:
        port = int(_line(probe))
        program = _threads(probe.pid)
        before = _runtime_s(napi), _runtime_s(program)
        order = {
            "to": f"{TRIGGER}:{port}", "seconds": seconds, "rate": RECEIVE_RATE, "cpu": sender,
            "checksum": kind == "xdp_card",
        }  # fmt: skip
        role = "inject" if source == "as from a NIC" else "blast"
        load = net.start("boards", _helper(role, True, **order), pipe=True)
        sent = int(_line(load))
        load.communicate(timeout=30)
        got = json.loads(_line(probe))  # half a second after the last packet
        kernel, user = _runtime_s(napi) - before[0], _runtime_s(program) - before[1]
    finally:
        probe.terminate()
        probe.communicate(timeout=30)
    packets = max(got["packets"], 1)
    return {
        "receiver": kind, "frames": source, "sent": sent, "received": got["packets"],
        "dropped": got["overflow"], "kernel_us": kernel / packets * 1e6, "program_us": user / packets * 1e6,
        "cpu_us": (kernel + user) / packets * 1e6,
    }  # fmt: skip


def _threads(process: int) -> list[int]:
    return [int(thread.name) for thread in Path(f"/proc/{process}/task").iterdir()]


def _runtime_s(threads: list[int]) -> float:
    """CPU time of threads so far, from schedstat."""
    text = [Path(f"/proc/{thread}/schedstat").read_text(encoding="ascii").split() for thread in threads]
    return sum(int(fields[0]) for fields in text) * 1e-9


def _main(given: dict[str, Any]) -> None:
    """A helper process: echo, ping, receive, inject or blast, in the namespace in which it was started."""
    from nanet import _core

    if given.get("fifo"):
        from nanet.config.sections import RealTime
        from nanet.run import realtime

        context: Any = realtime.applied(
            RealTime(scheduler="fifo", priority=PRIORITY, lock_memory="yes"), [], fit=False
        )
    else:
        context = contextlib.nullcontext()
    role = given["role"]
    with context as settled:
        if role == "echo":
            listen = f"{TRIGGER if given['path'] == 'xdp' else '0.0.0.0'}:0"
            echo = _core.Echo(given["cpu"], given["path"], listen, given["reply"])
            if settled:
                settled.started()
            print(echo.port, flush=True)
            time.sleep(3600)
        elif role == "ping":
            ping = _core.Ping()
            print(ping.reply_port, flush=True)
            order = json.loads(sys.stdin.readline())
            measured = ping.run(
                order["to"],
                order["echo"],
                order["samples"],
                EVENTS,
                cpu=order["cpu"],
            )
            print(json.dumps({k: v for k, v in measured.items() if not isinstance(v, dict)}), flush=True)
        elif role == "receive":
            if given["cpu"] >= 0:
                os.sched_setaffinity(0, {given["cpu"]})
            probe = _core.ReceiveProbe(given["kind"], given["listen"])
            print(probe.port, flush=True)
            print(json.dumps(probe.run()), flush=True)
            time.sleep(3600)  # the times of its threads are read before they end
        elif role == "inject":
            if given["cpu"] >= 0:
                os.sched_setaffinity(0, {given["cpu"]})
            rate, checksum = given["rate"], given["checksum"]
            print(_core.bench_inject(given["to"], given["seconds"], rate, checksum), flush=True)
        elif role == "blast":
            if given["cpu"] >= 0:
                os.sched_setaffinity(0, {given["cpu"]})
            print(
                _core.bench_blast(
                    to=given["to"], payload=BYTES, seconds=given["seconds"], packets_per_s=given["rate"],
                    segment=False,
                ),
                flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
