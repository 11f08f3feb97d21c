# SPDX-License-Identifier: Apache-2.0
"""`nanet evaluate`: found rings compared with the truth."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from nanet.cli.options import DetectorOption, JsonFile, Scheduler, Workers
from nanet.detector import as_detector
from nanet.errors import UsageError
from nanet.report.output import check_distinct, check_folder, check_writable, console, working, write_json


def evaluate(
    truth_file: Annotated[
        str,
        typer.Option("--truth", metavar="FILE", help="Truth file from generate --truth.", show_default=False),
    ],
    rings_file: Annotated[
        str, typer.Option("--rings", metavar="FILE", help="Ring file from replay --out.", show_default=False)
    ],
    hits_file: Annotated[
        str | None,
        typer.Option(
            "--truth-hits", metavar="FILE", help="Hit file from generate --truth-hits, for the exact bound."
        ),
    ] = None,
    plots: Annotated[str | None, typer.Option("--plots", metavar="DIR", help="Write figures there.")] = None,
    detector_file: DetectorOption = "",
    out_folder: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Keep finished captures of a dataset there."),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json_file: JsonFile = None,
) -> None:
    """Found rings compared with the truth: efficiency, fakes, ring count, resolutions (docs/quality.md).

    Folders from generate --captures and replay --workers are compared capture by capture; the figures are
    those of all captures.
    """
    from nanet.quality.evaluate import evaluate_files

    if os.path.isdir(truth_file) or os.path.isdir(rings_file):
        if plots is not None:
            raise UsageError(f"--plots {plots}: is for one capture: leave it out, or give files")
        files = (truth_file, rings_file, hits_file)
        _evaluate_many(files, detector_file, out_folder, workers, scheduler, json_file)
        return
    if workers is not None or scheduler is not None or out_folder is not None:
        raise UsageError(
            "--out, --workers, --scheduler: are for datasets: give folders as --truth and --rings"
        )
    check_distinct(truth=truth_file, rings=rings_file, truth_hits=hits_file, json=json_file)
    check_writable(json=json_file)
    if plots is not None:
        check_folder("--plots", plots)
    out = console(json_file)
    with working(out, "comparing …", plain=False):
        evaluation = evaluate_files(truth_file, rings_file, hits_file, as_detector(detector_file))
        result = evaluation.result()
    print_result(out, result)
    _doubt(out, result)
    if plots is not None:
        from nanet.quality.evaluate_plots import write_plots

        with working(out, "drawing …", plain=False):
            write_plots(evaluation, plots)
        out.print(f"figures in {plots}", markup=False)
    write_json(result, json_file)


def _evaluate_many(
    folders: tuple[str, str, str | None],
    detector: str,
    out_folder: str | None,
    workers: int | None,
    scheduler: str | None,
    json_file: str | None,
) -> None:
    """Compares datasets --truth, --rings and --truth-hits."""
    from nanet.cluster import batch
    from nanet.cluster import evaluate as many

    check_writable(json=json_file)
    out = console(json_file)
    units = many.units(*folders, os.path.abspath(out_folder) if out_folder is not None else None, detector)
    outcomes, common = batch.run(units, workers, scheduler, out, "evaluating")
    result = {**common, **many.total(outcomes)}
    if result["rows"]:
        print_result(out, result)
        _doubt(out, result)
    out.print(batch.summary(result), markup=False)
    write_json(result, json_file)
    if result["failed"]:
        raise typer.Exit(1)


def _doubt(out: Any, result: dict[str, Any]) -> None:
    """Warns if few of the true events were found."""
    seen = result["events"] - result["events_without_hits"]
    if result["events_paired"] < 0.5 * min(seen, result["events_found"]):
        share = result["events_paired"] / max(seen, 1)
        text = f"only {share:.1%} of the true events were found: is this the truth of this run?"
        out.print(f"[yellow]{text}[/]", highlight=False)


def print_result(out: Any, result: dict[str, Any]) -> None:
    """Prints the figures of all events and of isolated ones side by side."""
    from rich.table import Table

    from nanet.report.tables import count

    both = (result, result["isolated"])
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    table.add_column("all events", justify="right")
    table.add_column("isolated", justify="right")

    def row(name: str, *values: str) -> None:
        table.add_row(name, *values)

    row("events", *(count(part["events"]) for part in both))
    row("  paired with a found one", *(count(part["events_paired"]) for part in both))
    row("true rings of 4 hits or more", *(count(part["true_rings"]) for part in both))
    for rings in result["efficiency"]:
        row(
            f"efficiency, {rings} true {'ring' if rings == '1' else 'rings'}",
            *(_number(part["efficiency"][rings], 3) for part in both),
        )
    row("fakes per event", *(_number(part["fakes_per_event"], 4) for part in both))
    row("  in events without rings", *(_number(part["fakes_per_event_noise_only"], 4) for part in both))
    for rings in result["ring_count_accuracy"]:
        row(
            f"count right, {rings} true {'ring' if rings == '1' else 'rings'}",
            *(_number(part["ring_count_accuracy"][rings], 3) for part in both),
        )
    row("sigma of the radius, mm", *(_number(part["sigma_r_mm"], 2) for part in both))
    row("  from the median deviation", *(_number(part["sigma_r_mad_mm"], 2) for part in both))
    row("  Cramér-Rao bound", *(_number(part["crlb_sigma_r_mm"], 2) for part in both))
    row("sigma of the centre per axis, mm", *(_number(part["sigma_xy_mm"], 2) for part in both))
    out.print(table)
    out.print(f"bound from: {result['crlb_from']}", style="dim", highlight=False)


def _number(value: float, digits: int) -> str:
    return "-" if value != value else f"{value:.{digits}f}"
