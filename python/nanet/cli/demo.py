# SPDX-License-Identifier: Apache-2.0
"""`nanet demo`: the whole chain on this machine, with a live view and a report."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nanet.cli.options import JsonFile, options
from nanet.config.file import Config
from nanet.config.sections import Card, Demo, DetectorFile, Final, Trigger
from nanet.config.values import frame_ranges
from nanet.errors import UsageError, describe_os_error
from nanet.report.farm import print_farm
from nanet.report.final import print_choke_beyond, print_loop
from nanet.report.output import account_closes, check_writable, console, working, write_json
from nanet.run import host
from nanet.run.core_options import check_late, core_options
from nanet.run.demo import Chain, Outcome
from nanet.run.final_trigger import check_card_options, refuse_final_options
from nanet.run.namespaces import enter_user_namespace, in_user_namespace
from nanet.run.process import StopFlag, stop_signals

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_S = 0.25
LOOP_FIGURES = ("triggers_in_time_share", "events_incomplete", "events_twice")
LINE_S = 2.0  # between lines without a terminal


@options(
    Demo, DetectorFile, Final,
    omit=("final_boards", "farm", "farm_boards", "sync", "time_source", "clock_speed"),
)  # fmt: skip
def demo(
    config: Config,
    device: Annotated[str | None, typer.Option("--device", help="As in `nanet trigger`.")] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="As in `nanet trigger`.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="As in `nanet trigger`.")] = None,
    card: Annotated[str | None, typer.Option("--card", help="As in `nanet trigger`.")] = None,
    merge: Annotated[
        bool | None, typer.Option("--merge/--no-merge", help="As in `nanet trigger`.", show_default=False)
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """The whole chain on this machine: boards, trigger, L0 trigger processor; with live view and report."""
    given = {"device": device, "algorithm": algorithm, "threads": threads}
    config.set(Trigger, **{name: value for name, value in given.items() if value is not None})
    of_card = {"card": card, "merge": merge}
    config.set(Card, **{name: value for name, value in of_card.items() if value is not None})
    if config[Trigger].duration:
        config.set(Trigger, duration=0.0)  # the demo sets the duration
    settings = core_options(config)
    section = config[Demo]
    check_final(section, config[Card], config[Final])
    if not section.final:
        refuse_final_options(config, "needs --final")
    if section.network:
        enter_user_namespace(sys.argv)
    check_writable(json=json_file)
    folder = report_folder(section.report)
    out = console(json_file)
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")

    with stop_signals() as stop, Chain(config) as chain:
        speed, why = choose_speed(chain, section, settings["device"], out)
        early = bool(stop.signals)
        chain.start(speed, settings["deadline_us"], settings["timeout_us"])
        if chain.page and section.network and in_user_namespace():
            out.print("monitor: inside the user namespace; as root it is reachable", markup=False)
        elif chain.page:
            out.print(f"monitor: http://{chain.page}/", highlight=False, markup=False, soft_wrap=True)
        if not early:
            watch(chain, section, speed, stop, out)
        with working(out, "draining …" if stop.signals else "waiting for the last answers …"):
            outcome = chain.finish()

    result = {
        **outcome.trigger,
        "rate": section.rate,
        "speed": speed,
        "speed_from": why,
        "readout": outcome.readout,
        "l0tp": outcome.l0tp,
        "nodes": outcome.nodes,
        "farm": outcome.farm,
        "links": outcome.links,
        **({"final": outcome.final} if section.final else {}),
        **{key: outcome.final[key] for key in LOOP_FIGURES if outcome.final},
        "host": host.describe(),
    }
    closes = account_closes(outcome.trigger) and (section.nodes == 1 or outcome.farm["closes"])
    if folder is not None:
        with working(out, "writing the report …"):
            result["report"] = str(write_report(folder, config, outcome, section, speed, why, when, settings))
    conclude(out, result, outcome)
    print_choke_beyond(out, frame_ranges(config[Final].choke), outcome.trigger["frames_in"])
    for link in outcome.links:
        said = ", ".join(f"{name} {n}" for name, n in link.items() if name != "by")
        out.print(f"emulated link ({link['by']}): {said}", markup=False)
    write_json(result, json_file)
    if not closes:
        raise typer.Exit(1)


def check_final(demo: Demo, card: Card, final: Final) -> None:
    """UsageError for options that exclude the final trigger."""
    for wrong, text in (
        (demo.network, "demo.network = true"),
        (demo.nodes > 1, f"demo.nodes = {demo.nodes}"),
        (card.boards == "merged", "card.boards = 'merged'"),
    ):
        if demo.final and wrong:
            raise UsageError(f"demo.final = true with {text}: leave one of them out")
    check_card_options(final, demo.final and card.card == "gateware", "--final --card gateware")
    check_late(final, card)


def report_folder(name: str) -> Path | None:
    """Folder for the report, made before the run so that errors come early; None: no report."""
    if not name:
        return None
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "index.html", "ab"):
            pass
    except OSError as error:
        text = f"--report {describe_os_error(error)}; give a folder that can be written"
        raise UsageError(text) from None
    return folder


def choose_speed(chain: Chain, section: Demo, device: str, out: Console) -> tuple[float, str]:
    """Speed given by the user, or the speed that this host sustains in two short trials."""
    if section.speed:
        chain.make_truth()
        return section.speed, "given"
    if chain.config[Card].card == "gateware":
        chain.make_truth()
        return chain.card_speed(device), "calculated for the simulated card"
    with working(out, "measuring the speed that this host sustains …"):
        speed = chain.find_speed(device)
    if section.nodes > 1:
        return speed, "half of what one node sustained without loss in a short trial"
    return speed, "sustained without loss in a short trial"


def watch(chain: Chain, section: Demo, speed: float, stop: StopFlag, out: Console) -> None:
    """Shows the chain until the boards have sent everything or a signal arrives."""
    from nanet.run.live import View, plain_line

    title = (
        f"nanet demo: {section.rate / 1e6:g} MHz of events at {speed:g} × detector time = "
        f"{section.rate * speed / 1e3:.0f} thousand events/s"
    )
    view = View(title, section.duration)
    began = time.monotonic()

    def update() -> View:
        assert chain.readout and chain.l0tp
        view.update(
            time.monotonic() - began, chain.status(), chain.readout.last, chain.l0tp.last, chain.speed
        )
        return view

    if out.is_terminal:
        from rich.live import Live

        with Live(view, console=out, auto_refresh=False, transient=True) as live:
            _until(chain, stop, REFRESH_S, lambda: live.update(update(), refresh=True))
    else:
        out.print(title)
        _until(chain, stop, LINE_S, lambda: out.print(plain_line(update()), soft_wrap=True))


def _until(chain: Chain, stop: StopFlag, every: float, show: Callable[[], None]) -> None:
    following = time.monotonic() + every
    while chain.sending() and not stop.signals:
        time.sleep(0.05)
        if time.monotonic() >= following:
            show()
            following = time.monotonic() + every


def write_report(
    folder: Path,
    config: Config,
    outcome: Outcome,
    section: Demo,
    speed: float,
    why: str,
    when: str,
    settings: dict[str, Any],
) -> Path:
    """Writes the report of an outcome."""
    from nanet.report import run_report

    _, reasons = host.fit_for_real_time()
    run = run_report.Run(
        trigger=outcome.trigger,
        histograms=outcome.histograms,
        monitor=outcome.monitor,
        readout=outcome.readout,
        l0tp=outcome.l0tp,
        host=host.describe(),
        config=config.toml(Demo, Trigger, Card, DetectorFile, *([Final] if section.final else [])),
        detector=config[DetectorFile].detector,
        command=shlex.join(["nanet", *sys.argv[1:]]),
        when=when,
        rate=section.rate,
        speed=speed,
        speed_why=why,
        final=outcome.final,
        slack=outcome.slack,
        series=outcome.series,
        notes=[f"{reason.name}: {reason.found}; {reason.remedy}" for reason in reasons if not reason.fit],
    )
    return run_report.write(run, folder)


def conclude(out: Console, result: dict[str, Any], outcome: Outcome) -> None:
    """Prints the account, the L0 trigger processor's summary and the path of the report."""
    from nanet.report.tables import count, counted, duration, print_result

    print_result(out, outcome.trigger)
    l0tp = outcome.l0tp
    expected, paired = l0tp.get("primitives_expected") or 0, l0tp.get("primitives_paired") or 0
    if expected:
        out.print(
            f"L0TP: {count(paired)} of {count(expected)} true events answered ({paired / expected:.3%}), "
            f"{count(l0tp['frames'])} frames, {count(l0tp['frames_missing'])} missing, "
            f"{count(l0tp['frames_late'])} late"
        )
    if outcome.final:
        print_loop(out, outcome.final)
    if len(outcome.nodes) > 1:
        print_farm(out, outcome.farm)
    late = outcome.trigger["frames_late"]
    held = f"missed by {counted(late, 'frame')}" if late else "held"
    fit = "a real-time host" if outcome.trigger["real_time"] else "not a real-time host, see nanet doctor"
    out.print(
        f"deadline {duration(outcome.trigger['deadline_us'])} "
        f"{held} ({fit}); "
        f"speed {result['speed']:g} × detector time ({result['speed_from']})"
    )
    if "report" in result:
        out.print(f"report: {result['report']}", highlight=False, markup=False, soft_wrap=True)
