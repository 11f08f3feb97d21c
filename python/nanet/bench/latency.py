# SPDX-License-Identifier: Apache-2.0
"""`nanet bench latency`: round trips sender -> trigger -> sender with one packet in flight, all recorded."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import Any

from nanet.bench import Row, Settings, Sheet
from nanet.bench.tails import ALONE_S, over_echo, spinning
from nanet.config.sections import MAX_FRAMES
from nanet.run import host
from nanet.run.placement import CHAIN_CORES
from nanet.run.ports import free_ports

PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99", "p99_999")
EVENTS = 16  # 16 + 16 x 72 = 1168 B, the published size
BYTES = 16 + 72 * EVENTS
BUSY_DEADLINE_US = 50_000.0  # a later answer counts as lost
DEADLINE_US = 6_000.0  # on a host with enough cores: few buffers, as on a real-time host
# Modes of the resident kernel with a mailbox, and its memory.
MAILBOXES = {"mailbox_pinned": "pinned", "mailbox_gpu": "gpu"}
PEERS = ("echo", "sockperf")
SAMPLES_PER_S = 1e5  # of the echo, roughly: the spinning loop takes no longer
SEVERAL = (2, 4, 8, 15)  # packets of one frame; an answer holds 255 primitives at most


def pins() -> tuple[int, int]:
    """CPUs of sender and responder, on separate cores; -1: not pinned."""
    cores = host.cores()
    return (cores[0], cores[1]) if len(cores) > 1 else (-1, -1)


def run(settings: Settings, sheet: Sheet) -> None:
    """Modes: echo (bare UDP, polling), cpu, with a GPU launch and persistent, sockperf if installed.

    A spinning loop measures the stops of the machine.
    """
    cores = host.cores()
    sender, responder = pins()
    spare = cores[-1] if len(cores) > CHAIN_CORES else None
    alone_s = min(ALONE_S, settings.samples / SAMPLES_PER_S)
    with spinning(spare, responder, alone_s, sheet):
        _measure(settings, sheet, sender, responder)


def _measure(settings: Settings, sheet: Sheet, sender: int, responder: int) -> None:
    from nanet import _core

    samples = settings.samples
    rows = sheet.rows

    sheet(f"bare echo, {BYTES} B, {samples} round trips")
    echo = _core.Echo(responder)
    rows.append(_row("echo", _core.Ping().run(f"127.0.0.1:{echo.port}", True, samples, EVENTS, cpu=sender)))
    del echo

    modes = ["cpu"] if settings.device == "cpu" else ["cpu", "launch", "persistent", *MAILBOXES]
    for mode in modes:
        sheet(
            f"{mode}: trigger with {settings.algorithm}, {EVENTS} events in {BYTES} B, {samples} round trips"
        )
        device = "cpu" if mode == "cpu" else settings.device
        through, result = through_trigger(
            _core.Ping(), samples, settings.algorithm, sender, responder, device, mode
        )
        if mode in MAILBOXES and not result["mailbox"].startswith(MAILBOXES[mode]):
            sheet(f"{mode}: left out: mailbox {result['mailbox']}")
            continue
        rows.append(_row(mode, through))
        stages = result["latency_us"].items()
        rows[-1].update({f"stage_{name}_p50_us": stage["p50"] for name, stage in stages})
        rows[-1]["late"] = result["frames_late"]
    if len(modes) > 1:
        for packets in SEVERAL:
            sheet(f"persistent, {packets} packets of one frame in flight")
            through, result = through_trigger(
                _core.Ping(), max(samples // 10, 1000), settings.algorithm, sender, responder,
                settings.device, "persistent", packets,
            )  # fmt: skip
            rows.append({"packets": packets, **_row(f"persistent, {packets} packets", through)})

    if shutil.which("sockperf"):
        sheet(f"sockperf ping-pong, {BYTES} B")
        rows.append(_sockperf(sender, responder, seconds=max(3.0, min(20.0, samples / 40_000))))
    else:
        sheet("sockperf is not installed (Debian package sockperf): left out")

    single = [row for row in rows if "packets" not in row]
    figures = sheet.figures
    figures |= {f"{row['mode']}_{p}_us": row[f"{p}_us"] for row in single for p in PERCENTILES}
    for mode in (row["mode"] for row in single if row["mode"] not in PEERS):
        for name in ("", f"{mode}_") if mode == "cpu" else (f"{mode}_",):
            figures[f"{name}added_p50_us"] = figures[f"{mode}_p50_us"] - figures["echo_p50_us"]
            figures |= over_echo(figures, name, f"{mode}_")


def _row(mode: str, measured: dict[str, Any]) -> Row:
    if measured["wrong"]:
        raise RuntimeError(f"{measured['wrong']} answers of mode {mode} were wrong")
    row: Row = {"mode": mode, "bytes": BYTES, "samples": measured["samples"], "lost": measured["lost"]}
    row.update({f"{p}_us": measured[f"{p}_us"] for p in (*PERCENTILES, "max")})
    row["distribution_us"] = {f"{share:g}": us for share, us in measured["distribution_us"].items()}
    return row


def through_trigger(
    ping: Any,
    samples: int,
    algorithm: str,
    sender: int,
    responder: int,
    device: str = "cpu",
    executor: str = "persistent",
    packets: int = 1,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Round trips through a new trigger, `packets` of one frame at a time; and the trigger's result.

    executor: of the GPU. RuntimeError if the account of the trigger does not close.
    """
    from nanet import _core

    deadline_us = DEADLINE_US if len(host.cores()) >= CHAIN_CORES else BUSY_DEADLINE_US
    options: dict[str, Any] = {
        "listen": f"127.0.0.1:{free_ports(1)[0]}",
        "send": f"127.0.0.1:{ping.reply_port}",
        "boards": 0,
        "busy": True,
        "algorithm": algorithm,
        "pin": [responder] if responder >= 0 else [],
        "device": device,
        "segment_bytes": 24576 if packets > 1 else 8192,
        "deadline_us": deadline_us,
        "timeout_us": deadline_us / 2,
        # One frame per round trip, warm-up included, all in one burst.
        "max_frames": max(MAX_FRAMES, samples + 100_000),
    }
    if device != "cpu":
        options["executor"] = "persistent" if executor in MAILBOXES else executor
        options["mailbox"] = {"mailbox_gpu": "auto", "mailbox_pinned": "pinned"}.get(executor, "off")
    trigger = _core.Trigger(options)
    trigger.start()
    measured = ping.run(options["listen"], False, samples, EVENTS, packets, cpu=sender)
    trigger.request_stop()
    if not trigger.join(5.0):
        raise RuntimeError("the trigger did not stop")
    result = trigger.result()
    if not result["account_closes"]:
        raise RuntimeError("the trigger's account does not close")
    if "device_failed" in result:
        raise RuntimeError(f"{device} failed: {result['device_failed']}")
    return measured, result


def _sockperf(sender: int, responder: int, seconds: float) -> Row:
    """sockperf's ping-pong at the same size; it prints half round trips, which are doubled here."""
    (port,) = free_ports(1)
    address = ["-i", "127.0.0.1", "-p", str(port)]

    def pinned(cpu: int, command: list[str]) -> list[str]:
        return ["taskset", "-c", str(cpu), *command] if cpu >= 0 and shutil.which("taskset") else command

    server = subprocess.Popen(
        pinned(responder, ["sockperf", "server", *address, "--nonblocked"]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.5)
        command = [
            "sockperf",
            "ping-pong",
            *address,
            "-m",
            str(BYTES),
            "-t",
            str(int(seconds)),
            "--nonblocked",
        ]
        text = subprocess.run(
            pinned(sender, command), capture_output=True, text=True, check=True, timeout=seconds + 30
        ).stdout
    finally:
        server.terminate()
        server.wait()
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    found = {
        float(level): 2 * float(value)
        for level, value in re.findall(r"percentile\s+([\d.]+)\s*=\s*([\d.]+)", text)
    }
    observed = re.search(r"Total (\d+) observations", text)
    largest = re.search(r"<MAX> observation\s*=\s*([\d.]+)", text)
    levels = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9, "p99_99": 99.99, "p99_999": 99.999}
    if not observed or any(level not in found for level in levels.values()):
        raise RuntimeError(f"unexpected output of sockperf: {text[-500:]}")
    row: Row = {"mode": "sockperf", "bytes": BYTES, "samples": int(observed[1]), "lost": 0}
    row.update({f"{name}_us": found[level] for name, level in levels.items()})
    row["max_us"] = 2 * float(largest[1]) if largest else float("nan")
    row["command"] = " ".join(command)
    return row
