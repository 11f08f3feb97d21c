# SPDX-License-Identifier: Apache-2.0
"""`nanet bench trigger --rate R`: four boards, gather by frame, as a user runs it; latency from outside."""

from __future__ import annotations

from nanet import host
from nanet.bench import Row, Say, Settings
from nanet.bench.chain import ChainResult, run_chain

SECONDS = 20.0
STAGES = ("gather", "queue", "build", "reconstruct", "post", "send", "total")


def trigger_options(settings: Settings) -> list[str]:
    """Options of `nanet trigger`: the device, polling, and a core for the card where there are many."""
    options = ["--device", settings.device, "--algorithm", settings.algorithm]
    cores = host.cpus()
    if len(cores) >= 8:
        options += ["--busy", "yes", "--pin", str(cores[-1])]
    return options


def run(settings: Settings, say: Say) -> tuple[list[Row], dict[str, float]]:
    """One run; latency in the trigger by stage, and from first and last packet to the answer's arrival."""
    seconds = settings.seconds or SECONDS
    say(f"{settings.rate / 1e6:g} MHz for {seconds:g} s: {settings.algorithm} on {settings.device}")
    result = run_chain(
        seconds,
        1.0,
        pad=True,
        rate=settings.rate,
        trigger_options=trigger_options(settings),
        times=True,
    )
    if "device_failed" in result.trigger:
        raise RuntimeError(f"{settings.device} failed: {result.trigger['device_failed']}")
    outside, inside = result.l0tp["latency_us"], result.trigger["latency_us"]
    rows: list[Row] = [{"latency": f"l0tp {name}", **outside[name]} for name in ("from_last", "from_first")]
    rows += [{"latency": f"trigger {name}", **inside[name]} for name in STAGES]
    figures = {
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
    rows.append(summary(settings, result))
    return rows, figures


def summary(settings: Settings, result: ChainResult) -> Row:
    """What ran, and what went wrong."""
    return {
        "device": result.trigger["device"],
        "executor": result.trigger["executor"],
        "algorithm": settings.algorithm,
        "deadline_us": result.trigger["deadline_us"],
        "packets_in": result.trigger["packets_in"],
        "losses": ", ".join(f"{name} {n:g}" for name, n in result.losses.items()) or "none",
    }
