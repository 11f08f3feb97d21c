# SPDX-License-Identifier: Apache-2.0
"""`nanet generate`: toy Monte Carlo of the RICH, as MGP packets in a pcap, and the truth."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from nanet.cli.options import JsonFile, Scheduler, Workers, options
from nanet.config.file import Config
from nanet.config.sections import DetectorFile, Generate
from nanet.detector import load
from nanet.errors import UsageError
from nanet.report.output import check_distinct, check_writable, console, working, write_json
from nanet.run.generating import described, generate_files


@options(Generate, DetectorFile)
def generate(
    config: Config,
    out_file: Annotated[str, typer.Option("--out", metavar="FILE", help="The pcap.", show_default=False)],
    truth_file: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="Write the true rings to this Parquet file.")
    ] = None,
    hits_file: Annotated[
        str | None,
        typer.Option(
            "--truth-hits", metavar="FILE", help="Write the hits and their sources to this Parquet file."
        ),
    ] = None,
    captures: Annotated[
        int,
        typer.Option(
            "--captures",
            metavar="K",
            min=0,
            max=1_000_000,
            help="Generate K captures of --events each into folders, seeds from --seed upwards.",
            show_default=False,
        ),
    ] = 0,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json_file: JsonFile = None,
) -> None:
    """Toy Monte Carlo of the RICH: MGP packets in a pcap, and the truth.

    With --captures, --out, --truth and --truth-hits are folders; captures finished by an earlier run are
    skipped.
    """
    section, given = config[Generate], config[DetectorFile].detector
    detector = load(given) if given else None
    if captures:
        files = (out_file, truth_file, hits_file)
        _generate_many(section, given, captures, files, workers, scheduler, json_file)
        return
    if workers is not None or scheduler is not None:
        flag = f"--scheduler {scheduler}" if scheduler else f"--workers {workers}"
        raise UsageError(f"{flag}: one capture is made by one process: give --captures too")
    check_distinct(out=out_file, truth=truth_file, truth_hits=hits_file, json=json_file)
    check_writable(truth=truth_file, truth_hits=hits_file, json=json_file)
    begin = time.monotonic()
    out = console(json_file)
    from nanet.report.tables import count, counted
    from nanet.report.tables import rate as per_second

    with working(out, f"generating {count(section.events)} events …", plain=False):
        totals = generate_files(section, out_file, truth_file, hits_file, detector)
    result = {**totals, **described(section), "pad": section.pad, "elapsed_s": time.monotonic() - begin}
    result["events_per_s"] = result["events"] / max(result["elapsed_s"], 1e-9)
    out.print(
        f"{out_file}: {count(result['events'])} events with {count(result['hits'])} hits in "
        f"{count(result['packets'])} packets, {count(result['frames'])} frames, "
        f"{counted(result['bursts'], 'burst')}, "
        f"{result['bytes'] / 1e6:.1f} MB; {per_second(result['events_per_s'], 'events')}",
        markup=False,
        soft_wrap=True,
    )
    write_json(result, json_file)


def _generate_many(
    section: Generate,
    detector: str,
    captures: int,
    folders: tuple[str, str | None, str | None],
    workers: int | None,
    scheduler: str | None,
    json_file: str | None,
) -> None:
    """Generates captures into folders: --out, --truth, --truth-hits."""
    from nanet.cluster import batch
    from nanet.cluster import generate as many
    from nanet.report.tables import count

    check_writable(json=json_file)
    out = console(json_file)
    paths = [os.path.abspath(folder) if folder is not None else None for folder in folders]
    units = many.units(section, captures, *paths, detector)
    outcomes, common = batch.run(units, workers, scheduler, out, "generating")
    result = {**common, **many.total(outcomes), **described(section), "pad": section.pad}
    text = f"{folders[0]}: {batch.summary(result)}; {count(result['events'])} events, "
    out.print(f"{text}{result['bytes'] / 1e6:.1f} MB", markup=False, soft_wrap=True)
    write_json(result, json_file)
    if result["failed"]:
        raise typer.Exit(1)
