# SPDX-License-Identifier: Apache-2.0
"""`nanet trigger`: runs the trigger until stopped, then reports its account."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nanet.cli.options import JsonFile, StatusFile, options
from nanet.config.conditions import PM_COUNT
from nanet.config.file import Config
from nanet.config.sections import Card, DetectorFile, Final, Monitor, RealTime, Trigger
from nanet.errors import UsageError, starting
from nanet.files.provenance import SIDECAR, write_sidecar
from nanet.report.final import print_choke_beyond, print_final
from nanet.report.output import account_closes, check_folder, check_writable, console, write_json
from nanet.run import host, realtime
from nanet.run.control import RunControl
from nanet.run.core_options import core_options
from nanet.run.final_trigger import check_level1, final_settings
from nanet.run.process import StatusWriter, StopFlag, status_writer, stop_signals
from nanet.run.watching import Watching

if TYPE_CHECKING:
    from rich.console import Console

POLL_S = 0.1
LIVE_S = 0.5
BOARDS = (0, 512, 1024, 1536, PM_COUNT)  # first PM of each of NA62's boards, and their number


def check(
    config: Config,
    json_file: str | None,
    status_file: str | None,
    loop: str | None,
    stops: str | None,
    late_packets: str | None,
) -> None:
    """Opens all that a run opens, and reports it, with the real-time settings. UsageError: as in a run.

    The card listens at a free port of the address, so that a running trigger is no obstacle.
    """
    from nanet import _core
    from nanet.monitor.link import check_address

    check_lists(config, stops, late_packets)
    if config[Trigger].input == "mep":
        check_level1(config)
        settings = core_options(config)
        with starting():
            _core.Level1({**settings, "listen": settings["listen"].rpartition(":")[0] + ":0"})
        print(f"accepted: events at {settings['listen']} -> {settings['algorithm']} on cpu")
        return
    settings, card = trigger_settings(config), config[Card]
    realtime.check_pinning(config[RealTime], settings)
    burst_report = config[Trigger].burst_report or None
    check_writable(
        json=json_file,
        keep_bad=card.keep_bad or None,
        burst_report=burst_report,
        stops=stops,
        late_packets=late_packets,
    )
    check_folder("--record", card.record)
    check_address(config[Monitor].monitor)
    host = settings["listen"].rpartition(":")[0]
    free = f"{host}:0"
    try:
        with (
            config.sourced(),
            starting(),
            realtime.applied(config[RealTime], settings["pin"], fit=settings["real_time"]) as settled,
        ):
            core = _core.Trigger(
                {**settings, "listen": free, "record": "", "keep_bad": "", "stops": stops is not None}
            )
            line = start_line(settings, core.snapshot()["executor"])
    except UsageError as error:
        raise UsageError(str(error).replace(free, settings["listen"])) from None
    print("accepted:", line.removeprefix("nanet trigger: "))
    for outcome in settled.outcomes:
        print(outcome.line())


@options(
    Trigger, Card, DetectorFile, RealTime, Monitor, Final, omit=("farm_boards",), check=check,
)  # fmt: skip
def trigger(
    config: Config,
    json_file: JsonFile = None,
    status_file: StatusFile = None,
    loop: Annotated[
        str | None,
        typer.Option(
            "--loop",
            metavar="FILE",
            help="Account of the final trigger's loop for the monitor page, as JSON.",
        ),
    ] = None,
    stops: Annotated[
        str | None,
        typer.Option(
            "--stops", metavar="FILE", help="Write the stops of the card's polling threads, as JSON."
        ),
    ] = None,
    late_packets: Annotated[
        str | None,
        typer.Option(
            "--late-packets",
            metavar="FILE",
            help="Write packets lost as late or overrun: u64 frame over the run, board, 1 if overrun, ns.",
        ),
    ] = None,
) -> None:
    """The trigger processor: MGP packets in, primitives out, until stopped (Ctrl-C or SIGTERM)."""
    from nanet import _core

    check_writable(json=json_file, stops=stops, late_packets=late_packets)
    check_lists(config, stops, late_packets)
    if config[Trigger].input == "mep":
        level1(config, json_file, status_file)
        return
    settings = trigger_settings(config)
    realtime.check_pinning(config[RealTime], settings)
    out = console(json_file)
    with (
        status_writer(status_file) as status,
        stop_signals() as stop,
        Watching(config, settings, out) as watching,
        realtime.applied(config[RealTime], settings["pin"], fit=settings["real_time"]) as settled,
    ):
        watching.about(realtime_settings=settled.as_json())
        for refused in settled.refused():
            out.print(refused.sentence(), highlight=False, markup=False, soft_wrap=True)
        with config.sourced(), starting():
            core = _core.Trigger({**settings, "stops": stops is not None})
            if settings["record"]:
                write_sidecar(
                    os.path.join(settings["record"], SIDECAR.removeprefix(".")), settings["detector"]
                )
            bounds = settings["detector"]["boards"] if settings["detector"] else BOARDS
            control = RunControl(core, config[Trigger], out, watching.hash, bounds[-1], loop)
            core.start()
        settled.started()
        out.print(
            start_line(settings, core.snapshot()["executor"]), highlight=False, markup=False, soft_wrap=True
        )
        with live_line(out) as show:
            run(core, stop, status, config[Trigger].duration, control, watching, show, bounds)
        control.close()
        result = control.result(core.result())
        result["realtime_settings"] = settled.as_json()
        watching.finish(core, result)
        if status:
            status.write(
                {"result": result, "histograms": histograms(core), "monitor": core.monitor(),
                 "slack": card_slack(core)}
            )  # fmt: skip
        if stops:
            write_stops(core.stops(), stops)
        if late_packets:
            packets: Any = core.lost_packets()
            packets.tofile(late_packets)
    result["host"] = host.describe()
    result["real_time"] = settings["real_time"]
    from nanet.report.tables import print_result

    print_result(out, result)
    if "final" in result:
        print_final(out, result["final"])
        print_choke_beyond(out, settings["choke"], result["frames_in"])
    if result["send_errors"]:
        text = f"send errors: {result['send_errors']} datagrams were rejected by the network"
        remedy = f"no listener at {settings['send']}? Start it, or change trigger.send"
        out.print(f"[yellow]{text}: {remedy}[/]", highlight=False, soft_wrap=True)
    write_json(result, json_file)
    if not account_closes(result) or (config[Trigger].strict and not lossless(result)):
        raise typer.Exit(1)


def check_lists(config: Config, stops: str | None, late_packets: str | None) -> None:
    """UsageError for --stops and --late-packets where there are no polling threads or no frames of a card."""
    card, level1 = config[Card], config[Trigger].input == "mep"
    if stops and level1:  # its thread sleeps when idle
        raise UsageError("--stops with trigger.input = 'mep': level 1 has no polling threads: leave it out")
    if late_packets and level1:
        raise UsageError("--late-packets with trigger.input = 'mep': level 1 has no frames: leave it out")
    for key, value in (("card.gather", card.gather), ("card.type", card.card)):
        if late_packets and value in ("packets", "gateware"):
            raise UsageError(f"--late-packets with {key} = {value!r}: no list of late packets: leave it out")


def write_stops(threads: list[dict[str, Any]], path: str) -> None:
    """Writes the stops of each polling thread as JSON; begin and end: CLOCK_MONOTONIC ns."""
    rows = [{**row, "begin": row["begin"].tolist(), "end": row["end"].tolist()} for row in threads]
    with open(path, "w") as file:
        json.dump(rows, file)


def level1(config: Config, json_file: str | None, status_file: str | None) -> None:
    """Level 1: MEPs of the boards in, rings of the selected events out, until stopped."""
    from nanet import _core

    if config[Trigger].device not in ("auto", "cpu"):
        text = f"trigger.input = 'mep' with trigger.device = {config[Trigger].device!r}"
        raise UsageError(f"{text}: level 1 runs on the CPU: use --device cpu")
    check_level1(config)
    settings = core_options(config)
    out = console(json_file)
    with status_writer(status_file) as status, stop_signals() as stop:
        with starting():
            core = _core.Level1(settings)
        core.start()
        out.print(
            f"nanet trigger: events at {core.listening} -> {settings['algorithm']} on cpu",
            highlight=False, markup=False,
        )  # fmt: skip
        began = time.monotonic()
        end = began + config[Trigger].duration if config[Trigger].duration else float("inf")
        while not stop.signals and time.monotonic() < end:
            time.sleep(min(POLL_S, max(end - time.monotonic(), 0.001)))
            if status and status.due():
                status.write({"snapshot": core.snapshot()})
        core.stop()
        result = core.snapshot()
        result |= {"algorithm": settings["algorithm"], "elapsed_s": time.monotonic() - began}
        if status:
            status.write({"result": result})
    result["host"] = host.describe()
    print_level1(out, result)
    write_json(result, json_file)
    wrong = ("events_incomplete", "events_twice", "wrong_time", "stale", "bad_data")
    if config[Trigger].strict and (any(result[key] for key in wrong) or any(result["bad_packets"].values())):
        raise typer.Exit(1)


def print_level1(out: Console, result: dict[str, Any]) -> None:
    """Prints events, rings and bad answers of level 1."""
    from nanet.report.tables import count

    rings = ", ".join(f"{number}: {count(n)}" for number, n in enumerate(result["rings_per_event"]))
    out.print(
        f"level 1: {count(result['events_complete'])} events complete, "
        f"{count(result['events_incomplete'])} incomplete, {count(result['events_twice'])} answered twice; "
        f"{count(result['rings'])} rings (events by rings: {rings})",
        highlight=False,
    )
    named = {key: result[key] for key in ("wrong_time", "stale", "bad_data", "events_empty")}
    for name, n in {**named, **result["bad_packets"]}.items():
        if n:
            out.print(f"[yellow]{count(n)} {name.replace('_', ' ')}[/]")


def trigger_settings(config: Config) -> dict[str, Any]:
    """Settings of the core's Trigger. UsageError for options that exclude each other."""
    settings = core_options(config)
    return {**settings, **final_settings(config, settings)}


def start_line(settings: dict[str, Any], executor: str) -> str:
    """Addresses, algorithm, device and timeouts, in one line. executor: as in the result."""
    fit, reasons = host.fit_for_real_time()
    unfit = [reason.found for reason in reasons if not reason.fit]
    why = "real time" if fit else f"not real time: {'; '.join(unfit)}"
    if settings["card"] == "gateware":
        why = "by the simulated card's clock"
    device = settings["device"]
    if executor == "cuda-batch":
        device += " (events built on the CPU, rings on the GPU)"
    return (
        f"nanet trigger: {settings['listen']} -> {settings['algorithm']} on {device} -> "
        f"{settings['send']}; frames close after {settings['timeout_us'] / 1000:g} ms, due after "
        f"{settings['deadline_us'] / 1000:g} ms ({why})"
    )


def lossless(result: dict[str, Any]) -> bool:
    """Whether every frame was answered in time and no packet was lost."""
    return not result["frames_late"] and not any(result["lost"].values())


def histograms(core: Any) -> dict[str, dict[str, Any]]:
    """Latency histograms by stage, for JSON."""
    return {
        stage: {"edges_us": edges, "counts": counts} for stage, (edges, counts) in core.histograms().items()
    }


def card_slack(core: Any) -> dict[str, Any] | None:
    """Slack of the decisions of a card that releases the triggers, for JSON; None without one."""
    found = core.final_slack()
    return {"edges_us": found[0], "counts": found[1]} if found else None


def run(
    core: Any,
    stop: StopFlag,
    status: StatusWriter | None,
    duration: float,
    control: RunControl,
    watching: Watching,
    show: Callable[[Callable[[], dict[str, Any]]], None],
    bounds: Sequence[int] = BOARDS,
) -> None:
    """Waits until the core is done; passes stop requests to it, and its state to the status file.

    duration: seconds after which it is stopped; 0: only by a signal. show: called with a function that
    returns a snapshot.
    """
    end = time.monotonic() + duration if duration else float("inf")
    stopping = False
    while not core.join(min(POLL_S, max(end - time.monotonic(), 0.001))):
        if not stopping and (stop.signals or time.monotonic() >= end):
            core.request_stop()
            stopping = True
            end = float("inf")
        control.look()
        if status and status.due():
            status.write(
                {"snapshot": control.result(core.snapshot()), "monitor": light(core.monitor(), bounds)}
            )
        watching.update(core, control.result)
        show(lambda: control.result(core.snapshot()))


@contextlib.contextmanager
def live_line(out: Console) -> Iterator[Callable[[Callable[[], dict[str, Any]]], None]]:
    """Two status lines on a terminal, refreshed periodically; nothing elsewhere."""
    if not out.is_terminal:
        yield lambda snapshot: None
        return
    from rich.live import Live

    from nanet.run.live import TriggerLine

    line = TriggerLine()
    due = time.monotonic() + LIVE_S

    with Live(line, console=out, auto_refresh=False, transient=True) as live:

        def show(snapshot: Callable[[], dict[str, Any]]) -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                due = now + LIVE_S
                line.update(now, snapshot())
                live.refresh()

        yield show


def light(monitor: dict[str, Any], bounds: Sequence[int] = BOARDS) -> dict[str, Any]:
    """Monitor data for a live view: without events, hits by board instead of by photomultiplier."""
    occupancy = monitor["pm_occupancy"]
    boards = [int(occupancy[first:last].sum()) for first, last in pairwise(bounds)]
    return {
        "rings_per_event": monitor["rings_per_event"],
        "hits_per_event": monitor["hits_per_event"],
        "board_hits": boards,
    }
