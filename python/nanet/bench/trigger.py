# SPDX-License-Identifier: Apache-2.0
"""`nanet bench trigger --rate R`: four boards, gather by frame; latency from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nanet.bench import Row, Settings, Sheet
from nanet.bench.chain import ChainResult, run_chain
from nanet.bench.latency import EVENTS, PERCENTILES, pins
from nanet.bench.overload import FRAME_S
from nanet.bench.tails import ALONE_S, MARGIN_NS, Causes, Limits, causes, of_threads, over_echo, spinning
from nanet.config.sections import DEFAULT_TIMEOUT_US, REAL_TIME_TIMEOUT_US
from nanet.report.output import DROPPED, packets_lost
from nanet.report.tables import count
from nanet.run import host
from nanet.run.placement import BUFFERS, CATCH_UP, CHAIN_CORES, DEADLINE_US, TRAINS_US, Placement

SECONDS = 20.0
OVERLOAD_SHARE = 0.01  # of late frames; fewer may be stops
STAGES = ("gather", "queue", "build", "reconstruct", "post", "send", "total")


def placement(settings: Settings) -> Placement:
    """Cores of the card and of the boards."""
    return Placement.of_host(settings.card_threads, settings.board_threads)


def own_cores(settings: Settings) -> list[int]:
    """CPUs reserved for the card's threads: the last cores, on a host with many."""
    return placement(settings).card


def kept_free(settings: Settings) -> list[int]:
    """These CPUs and the other threads of their cores."""
    return placement(settings).kept_free


def links(settings: Settings) -> int:
    """Ports of the trigger: one, or one per reading thread, at most one per board."""
    return placement(settings).links


def board_threads(settings: Settings) -> int:
    """Sending threads: one per board on a host with enough CPUs, else one."""
    return placement(settings).board_threads


def board_options(settings: Settings, batch_us: float = TRAINS_US) -> list[str]:
    """Options of `nanet readout`: threads on cores outside the card's, and the gathering time of frames.

    batch_us: default without the command-line option.
    """
    return placement(settings).board_options(batch_us if settings.batch_us is None else settings.batch_us)


def spare_core(settings: Settings) -> int | None:
    """CPU for the spinning loop: none of the card's or the boards', and two more are left for the rest."""
    taken = set(kept_free(settings))
    left = [cpu for cpu in host.cores() if cpu not in taken]
    boards = board_threads(settings)
    return left[-boards - 1] if taken and len(left) >= boards + 3 else None


def echo_pins(settings: Settings) -> tuple[int, int]:
    """CPUs of the echo's sender and responder: outside the card's cores, and one of these."""
    if own := own_cores(settings):
        taken = set(kept_free(settings))
        return [cpu for cpu in host.cores() if cpu not in taken][-1], own[0]
    return pins()


def timeout_us(settings: Settings) -> float:
    """Timeout of a frame: with reserved cores the placement's, else the host's default."""
    placed = placement(settings)
    if placed.card:
        return placed.timeout_us
    return REAL_TIME_TIMEOUT_US if host.fit_for_real_time()[0] else DEFAULT_TIMEOUT_US


def limits(settings: Settings, result: ChainResult) -> Limits:
    """Times of a run, for its late frames and losses."""
    gathered = settings.batch_us
    if gathered is None:
        gathered = TRAINS_US if board_threads(settings) == 1 else 0.0
    return Limits(
        frame=FRAME_S * 1e9,
        timeout=round(result.trigger["timeout_us"] * 1e3),
        deadline=round(result.trigger["deadline_us"] * 1e3),
        window=round(result.trigger["buffers"] * FRAME_S * 1e9),
        gathered=round(gathered * 1e3),
        together=max(CATCH_UP, int(gathered * 1e-6 / FRAME_S)),
    )


def when_due(settings: Settings) -> list[str]:
    """board_options; parallel boards need not gather: each frame leaves when it is due."""
    return board_options(settings, TRAINS_US if board_threads(settings) == 1 else 0.0)


def trigger_options(settings: Settings, buffers: int = BUFFERS) -> list[str]:
    """Options of `nanet trigger`: the device, and with reserved cores polling and real-time timeouts."""
    options = ["--device", settings.device, "--algorithm", settings.algorithm]
    placed = placement(settings)
    if cores := placed.card:
        pin = ",".join(str(core) for core in cores)
        options += ["--timeout-us", f"{placed.timeout_us:g}", "--deadline-us", f"{DEADLINE_US:g}"]
        options += ["--buffers", str(buffers)]
        options += ["--busy", "yes", "--card-threads", str(len(cores)), "--pin", pin]
    return options


def run(settings: Settings, sheet: Sheet) -> None:
    """One run; latency by stage, and from first and last packet to the arrival of the answer.

    Beside it: the bare echo, and the stops of a spinning loop and of the trigger's polling threads. Late
    frames and losses by cause. Without a spare core, stops are not judged, and their figures are left out.
    """
    seconds = settings.seconds or SECONDS
    _echo(settings, seconds, sheet)
    sheet(f"{settings.rate / 1e6:g} MHz for {seconds:g} s: {settings.algorithm} on {settings.device}")
    # Before the loop takes its core: these depend on the CPUs of this process.
    triggers, boards, kept, ports = (
        trigger_options(settings), when_due(settings), kept_free(settings), links(settings),
    )  # fmt: skip
    late_us = timeout_us(settings) - MARGIN_NS * 1e-3
    pinned, spare = (own_cores(settings) or [pins()[1]])[0], spare_core(settings)
    with spinning(spare, pinned, min(ALONE_S, seconds / 2), sheet) as stops:
        result = run_chain(
            seconds,
            1.0,
            pad=True,
            rate=settings.rate,
            trigger_options=triggers,
            board_options=boards,
            keep_off=kept,
            times=True,
            late_us=late_us,
            stops=True,
            links=ports,
        )
    if "device_failed" in result.trigger:
        raise RuntimeError(f"{settings.device} failed: {result.trigger['device_failed']}")
    outside, inside = result.l0tp["latency_us"], result.trigger["latency_us"]
    sheet.rows += [{"latency": f"l0tp {name}", **outside[name]} for name in ("from_last", "from_first")]
    sheet.rows += [{"latency": f"trigger {name}", **inside[name]} for name in STAGES]
    figures = sheet.figures
    lost, late = packets_lost(result.trigger["lost"]), result.trigger["frames_late"]
    figures |= {
        "rate": settings.rate,
        "events": result.trigger["events_built"],
        "lost": float(lost),
        "late": float(late),
        "events_per_s": result.trigger["events_built"] / result.readout["elapsed_s"],
        "behind_max_us": result.readout["behind_max_us"],
    }
    for short, name in (("last", "from_last"), ("first", "from_first")):
        for p in ("p50", "p99", "p99_9", "p99_99"):
            figures[f"{short}_{p}_us"] = outside[name][p]
        figures |= over_echo(figures, f"{short}_", f"{short}_")
    assert result.frames is not None
    threads = of_threads(result.stops, sheet)
    # Without a spare core, other threads of the chain stop the trigger's: stops are not judged.
    counted = None if spare is None else [stops, *threads]
    of = causes(result.frames, counted, limits(settings, result), late)
    figures |= by_cause(of, lost)
    sheet.rows.append(summary(settings, result))
    sheet.verdict = verdict(result.trigger, board_threads(settings))


def by_cause(of: Causes, lost: float) -> dict[str, float]:
    """Figures of late frames and of `lost` packets by cause; stops have some only where they are judged."""
    judged = {
        "late_by_stops": of.by_stops,
        "lost_by_stops": of.lost_by_stops,
        "explained_share": of.explained_share,
    }
    return {
        "late_by_us": float(of.by_us),
        "late_by_boards": float(of.by_boards),
        "lost_by_us": float(lost - of.lost_by_boards - (of.lost_by_stops or 0)),
        "lost_by_boards": float(of.lost_by_boards),
    } | {name: float(value) for name, value in judged.items() if value is not None}


def verdict(result: Mapping[str, Any], sending: int) -> str:
    """Sentence on an overloaded host: evidence and remedies; empty if it kept up.

    result: of the trigger. sending: threads of the boards.
    """
    drops = sum(result["lost"].get(name, 0) for name in DROPPED)
    share = result["frames_late"] / max(result["frames_in"], 1)
    evidence = [f"the kernel dropped {count(drops)} messages from full sockets"] if drops else []
    if share > OVERLOAD_SHARE:
        evidence.append(f"{share:.1%} of the frames were late")
    if not evidence:
        return ""
    fewer = ", --board-threads 1" if sending > 1 else ""
    return (
        f"overloaded: {' and '.join(evidence)}: try a lower --rate{fewer}, or a host with {CHAIN_CORES} "
        "cores or more; nanet bench loopback measures the largest rate of this one"
    )


def _echo(settings: Settings, seconds: float, sheet: Sheet) -> None:
    """Bare echo of a packet, as in `nanet bench latency`, at most as long as the run."""
    from nanet import _core

    sender, responder = echo_pins(settings)
    sheet(f"bare echo, {settings.samples} round trips")
    echo = _core.Echo(responder)
    measured = _core.Ping().run(
        f"127.0.0.1:{echo.port}", True, settings.samples, EVENTS, seconds=seconds, cpu=sender
    )
    del echo
    shown = ("p50", "p90", "p99", "p99_9", "p99_99", "max")
    sheet.rows.append(
        {
            "latency": "echo",
            **{p: measured[f"{p}_us"] for p in shown},
            "n": measured["n"],
            "distribution_us": {f"{share:g}": us for share, us in measured["distribution_us"].items()},
        }
    )
    sheet.figures.update({f"echo_{p}_us": measured[f"{p}_us"] for p in PERCENTILES})


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
