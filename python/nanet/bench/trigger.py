# SPDX-License-Identifier: Apache-2.0
"""`nanet bench trigger --rate R`: four boards, gather by frame; latency from outside."""

from __future__ import annotations

from nanet.bench import Row, Settings, Sheet
from nanet.bench.chain import ChainResult, run_chain
from nanet.run import host

SECONDS = 20.0
STAGES = ("gather", "queue", "build", "reconstruct", "post", "send", "total")


TIMEOUT_US, DEADLINE_US = 200.0, 1000.0  # of a real-time host: docs/formats.md, Clocks
# A thread of the boards suspended by the host is no silent board: the trigger waits for it as long as the
# deadline permits.
PATIENT_US = 800.0
BUFFERS = 512  # three times the deadline; 2048 do not fit a second-level cache


BOARDS = 4
MANY_CPUS = 12  # enough for one thread per board beside the other threads of the chain
# Largest number of frames sent together after a suspension of the thread: boards do not send their backlog at
# once.
CATCH_UP = 2
TRAINS_US = 100.0  # gathering time of one thread at 10 MHz: trains of 15 frames per board


def own_cores(settings: Settings) -> list[int]:
    """CPUs reserved for the card's threads: the last cores, on a host with many."""
    cores = host.cores()
    # Three sustain 10 MHz but cannot catch up; six give one reading thread per link.
    threads = settings.card_threads or (6 if len(cores) >= 14 else 3 if len(cores) >= 7 else 0)
    return cores[-threads:] if 0 < threads <= len(cores) - 4 else []


def kept_free(settings: Settings) -> list[int]:
    """These CPUs and the other threads of their cores."""
    return sorted(set().union(*(host.siblings(cpu) for cpu in own_cores(settings))))


def links(settings: Settings) -> int:
    """Ports of the trigger: one, or one per reading thread, at most one per board."""
    return min(max(len(own_cores(settings)) - 2, 1), BOARDS)


def board_threads(settings: Settings) -> int:
    """Sending threads: one per board on a host with enough CPUs, else one."""
    return settings.board_threads or (BOARDS if len(host.cpus()) >= MANY_CPUS else 1)


def board_options(settings: Settings, batch_us: float = TRAINS_US) -> list[str]:
    """Options of `nanet readout`: threads on cores outside the card's, and the gathering time of frames.

    batch_us: default without the command-line option.
    """
    threads = board_threads(settings)
    gathered = batch_us if settings.batch_us is None else settings.batch_us
    options = ["--batch-us", f"{gathered:g}"]
    if gathered == 0:
        options += ["--batch-frames", str(CATCH_UP)]
    if threads > 1:
        options += ["--threads", str(threads)]
        taken = set(kept_free(settings))
        left = [cpu for cpu in host.cores() if cpu not in taken]
        if len(left) > threads:  # and one for everything else
            options += ["--pin", ",".join(map(str, left[-threads:]))]
    return options


def when_due(settings: Settings) -> list[str]:
    """board_options; parallel boards need not gather: each frame leaves when it is due."""
    return board_options(settings, TRAINS_US if board_threads(settings) == 1 else 0.0)


def trigger_options(settings: Settings, buffers: int = BUFFERS) -> list[str]:
    """Options of `nanet trigger`: the device, and with reserved cores polling and real-time timeouts."""
    options = ["--device", settings.device, "--algorithm", settings.algorithm]
    if cores := own_cores(settings):
        pin = ",".join(str(core) for core in cores)
        timeout = TIMEOUT_US if board_threads(settings) == 1 else PATIENT_US
        options += ["--timeout-us", f"{timeout:g}", "--deadline-us", f"{DEADLINE_US:g}"]
        options += ["--buffers", str(buffers)]
        options += ["--busy", "yes", "--card-threads", str(len(cores)), "--pin", pin]
    return options


def run(settings: Settings, sheet: Sheet) -> None:
    """One run; latency by stage, and from first and last packet to the arrival of the answer."""
    seconds = settings.seconds or SECONDS
    sheet(f"{settings.rate / 1e6:g} MHz for {seconds:g} s: {settings.algorithm} on {settings.device}")
    result = run_chain(
        seconds,
        1.0,
        pad=True,
        rate=settings.rate,
        trigger_options=trigger_options(settings),
        board_options=when_due(settings),
        keep_off=kept_free(settings),
        times=True,
        links=links(settings),
    )
    if "device_failed" in result.trigger:
        raise RuntimeError(f"{settings.device} failed: {result.trigger['device_failed']}")
    outside, inside = result.l0tp["latency_us"], result.trigger["latency_us"]
    sheet.rows += [{"latency": f"l0tp {name}", **outside[name]} for name in ("from_last", "from_first")]
    sheet.rows += [{"latency": f"trigger {name}", **inside[name]} for name in STAGES]
    figures = sheet.figures
    figures |= {
        "rate": settings.rate,
        "events": result.trigger["events_built"],
        "lost": float(sum(result.trigger["lost"].values())),
        "late": float(result.trigger["frames_late"]),
        "events_per_s": result.trigger["events_built"] / result.readout["elapsed_s"],
        "behind_max_us": result.readout["behind_max_us"],
    }
    for short, name in (("last", "from_last"), ("first", "from_first")):
        for p in ("p50", "p99", "p99_9", "p99_99"):
            figures[f"{short}_{p}_us"] = outside[name][p]
    sheet.rows.append(summary(settings, result))


def summary(settings: Settings, result: ChainResult) -> Row:
    """Programs, rates and losses of a run."""
    return {
        "device": result.trigger["device"],
        "executor": result.trigger["executor"],
        "algorithm": settings.algorithm,
        "timeout_us": result.trigger["timeout_us"],
        "deadline_us": result.trigger["deadline_us"],
        "buffers": result.trigger["buffers"],
        "card_threads": len(own_cores(settings)) or 1,
        "links": links(settings),
        "board_threads": result.readout["threads"],
        "packets_per_message": result.readout["packets_sent"] / max(result.readout["messages"], 1),
        "packets_in": result.trigger["packets_in"],
        "losses": ", ".join(f"{name} {n:g}" for name, n in result.losses.items()) or "none",
    }
