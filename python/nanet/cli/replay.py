# SPDX-License-Identifier: Apache-2.0
"""`nanet replay`: recorded traffic through the trigger, as fast as possible."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from nanet.cli.options import JsonFile, Scheduler, Workers, options
from nanet.config.file import Config
from nanet.config.options import live_only
from nanet.config.sections import Card, DetectorFile, Trigger
from nanet.errors import UsageError, describe_os_error
from nanet.report.output import account_closes, check_distinct, check_writable, console, write_json
from nanet.run import host
from nanet.run.core_options import core_options
from nanet.run.replaying import captures_in, replay_files


@options(Trigger, Card, DetectorFile, omit=live_only(Trigger, Card))
def replay(
    config: Config,
    captures: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="pcap or pcapng; several files, or a folder, are one run in the given order.",
            show_default=False,
        ),
    ],
    out_file: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the rings to this Parquet file; with --workers or --scheduler: a folder.",
        ),
    ] = None,
    mtp_file: Annotated[
        str | None,
        typer.Option(
            "--mtp",
            metavar="FILE",
            help="Write the primitive packets to this pcap; or to a folder, as --out.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="UDP destination port of the boards' packets.")
    ] = 58913,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json_file: JsonFile = None,
) -> None:
    """Recorded traffic through the trigger, as fast as possible.

    With --workers or --scheduler each capture is a separate run, and --out is the folder of a Parquet
    dataset; captures finished by an earlier run are skipped.
    """
    if workers is not None or scheduler is not None:
        _replay_many(config, captures, out_file, mtp_file, port, workers, scheduler, json_file)
        return
    files = captures_of(captures)
    keep_bad = config[Card].keep_bad or None
    check_distinct(out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    for file in files:
        check_distinct(input=file, out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    check_writable(out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    out = console(json_file)
    settings = _settings(config, port)
    label = files[0] if len(files) == 1 else f"{len(files)} captures"
    with progress(out, label) as advance:
        result = replay_files(files, settings, rings=out_file, mtp=mtp_file, advance=advance)
    result["host"] = host.describe()
    from nanet.report.tables import print_result

    print_result(out, result)
    for cut in result["truncated_files"]:
        out.print(
            f"{cut} ends within a record: the packets before it were replayed", style="yellow", markup=False
        )
    if "device_failed" in result:
        text = "the CPU continued, with the same answers"
        out.print(f"[yellow]{result['device']} failed: {result['device_failed']}; {text}[/]")
    if result["packets_in"] == 0:
        there = "the file has no packets"
        if any(result["not_mgp"].values()):
            there = f"no packet went to port {port}: give --port"
        out.print(f"{label}: {there}", style="yellow", markup=False)
    write_json(result, json_file)
    if not account_closes(result):
        raise typer.Exit(1)


def _settings(config: Config, port: int) -> dict[str, Any]:
    """Options of the core, without files."""
    # a merged stream is recognised by its packets
    return {**core_options(config), "port": port, "detect_merged": config[Card].boards == "4"}


def _replay_many(
    config: Config,
    captures: list[str],
    out_folder: str | None,
    mtp_folder: str | None,
    port: int,
    workers: int | None,
    scheduler: str | None,
    json_file: str | None,
) -> None:
    """Replays each capture as a separate run into a dataset."""
    from nanet.cluster import batch
    from nanet.cluster import replay as many
    from nanet.report.tables import count

    if out_folder is None:
        raise UsageError("--out: is missing: with --workers or --scheduler give the folder of the results")
    if config[Card].keep_bad:
        text = f"card.keep_bad = {config[Card].keep_bad!r}: is a file of one run"
        raise UsageError(f"{text}: leave out --workers and --scheduler, or keep_bad")
    check_writable(json=json_file)
    runs = many.runs_of(captures)
    folders = [os.path.abspath(name) if name is not None else None for name in (out_folder, mtp_folder)]
    settings = many.settings_of(_settings(config, port))
    out = console(json_file)
    units = many.units(runs, settings, *folders)
    outcomes, common = batch.run(units, workers, scheduler, out, "replaying")
    result = {**common, **many.total(outcomes), "dataset": out_folder, "device": settings["device"],
              "algorithm": settings["algorithm"], "host": host.describe()}  # fmt: skip
    text = f"{out_folder}: {batch.summary(result)}; {count(result.get('events_built', 0))} events, "
    out.print(f"{text}{count(result.get('rings', 0))} rings", markup=False, soft_wrap=True)
    write_json(result, json_file)
    if result["failed"] or not result["account_closes"]:
        raise typer.Exit(1)


def captures_of(given: list[str]) -> list[str]:
    """Capture files of the given files and folders, in order. UsageError for one that cannot be read.

    A folder stands for the captures of `--record` (raw-*.pcap, without the refused packets in
    bad-*.pcap), else for all its captures by name.
    """
    files: list[str] = []
    for name in given:
        try:
            files += _of_folder(name) if os.path.isdir(name) else [name]
            with open(files[-1], "rb"):
                pass
        except OSError as error:
            remedy = "give a pcap or pcapng file that can be read, or a folder of them"
            raise UsageError(f"{describe_os_error(error)}: {remedy}") from None
    return files


def _of_folder(folder: str) -> list[str]:
    names, recorded = captures_in(os.listdir(folder))
    if not names:
        raise UsageError(f"{folder}: there is no .pcap or .pcapng file in this folder")
    return [os.path.join(folder, name) for name in recorded or names]


@contextlib.contextmanager
def progress(out: Any, label: str) -> Iterator[Any]:
    """Progress line during the replay, on a terminal only."""
    if not out.is_terminal:
        yield lambda snapshot: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from nanet.run.live import Rates

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    rates = Rates()
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(f"replaying {label}")

        def advance(snapshot: dict[str, Any]) -> None:
            rates.update("events", time.monotonic(), snapshot["events_built"])
            bar.update(task, description=progress_text(label, snapshot, rates.now.get("events")))

        yield advance


def progress_text(label: str, snapshot: dict[str, Any], events_per_s: float | None) -> str:
    """Progress in words: share of the captures read, events, and their rate after the first interval."""
    from nanet.report.tables import count, rate

    text = f"replaying {label}: {snapshot['progress']:.0%}, {count(snapshot['events_built'])} events"
    return text if events_per_s is None else f"{text}, {rate(events_per_s)}"
