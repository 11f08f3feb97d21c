# SPDX-License-Identifier: Apache-2.0
"""`nanet quality`: all ring algorithms on the same generated events, as tables and figures."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from nanet import __version__
from nanet.bench import provenance
from nanet.cli.options import JsonFile, Scheduler, Workers, options
from nanet.config.file import Config
from nanet.config.sections import DetectorFile, Trigger, names_a_plugin
from nanet.detector import as_detector
from nanet.errors import UsageError, describe_os_error, near
from nanet.quality import own_finder
from nanet.report.output import check_writable, console, write_json
from nanet.run.core_options import Algorithm, core_options, load_algorithm
from nanet.run.replaying import run_core

EVENTS, SEED = 200_000, 20261121

# Options of the trigger that select the device; this command sets all others.
_ELSEWHERE = tuple(field.name for field in attrs.fields(Trigger) if field.name not in ("device", "threads"))


@options(Trigger, DetectorFile, omit=_ELSEWHERE)
def quality(
    config: Config,
    events: Annotated[
        int, typer.Option("--events", min=100, help="Events of the standard mix; other samples follow it.")
    ] = EVENTS,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=1 << 62, help="Seed; 1-99 are for tuning.")
    ] = SEED,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms",
            metavar="NAMES",
            help="Names, plug-in files, Python functions (FILE.py:NAME), by commas. [default: all names]",
        ),
    ] = None,
    out_folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder for report, figures and JSON.")
    ] = "nanet-quality",
    docs: Annotated[
        str | None,
        typer.Option(
            "--docs", metavar="DIR", help="Rewrite quality.md and images/ of this folder instead of --out."
        ),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json_file: JsonFile = None,
) -> None:
    """All ring algorithms and an oracle on the same events: tables and figures (docs/quality.md)."""
    from nanet import _core
    from nanet.cli.replay import progress

    chosen = _chosen(algorithms, _core.algorithm_names())
    names = list(chosen)
    folder = Path(docs if docs is not None else out_folder)
    check_writable(json=json_file)
    out = console(json_file)
    _prepare(folder, docs)
    from nanet.quality import figures, page, results

    started = time.monotonic()
    detector = config[DetectorFile].detector
    basic = core_options(config, [n for n in names if not own_finder.is_function(chosen[n].plugin)])

    def settings(name: str) -> dict[str, Any]:
        algorithm = chosen[name]
        if own_finder.is_function(algorithm.plugin):
            return {"function": os.path.abspath(algorithm.plugin)}
        return {
            **basic,
            "algorithm": name,
            "plugin": algorithm.plugin,
            "parameters": config.algorithms.get(name, {}),
            "device": basic["device"] if algorithm.cuda else "cpu",
        }

    def say(text: str) -> None:
        out.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}")

    def run(core: Any, writer: Any, label: str) -> None:
        with progress(out, label) as advance:
            run_core(core, writer, advance)

    try:
        if workers is None and scheduler is None:
            result = results.collect(events, seed, names, settings, run, say, as_detector(detector))
        else:
            from nanet.cluster import batch
            from nanet.cluster import quality as many

            # Parts of a page of the documentation are not kept.
            records = "" if docs is not None else str(folder.absolute())
            units = many.units(events, seed, names, settings, records, detector)
            outcomes, _ = batch.run(units, workers, scheduler, out, "quality")
            result = many.total(outcomes, events, seed, names)
    except RuntimeError as error:
        out.print(f"[red]quality: {error}[/]")
        raise typer.Exit(1) from None
    result |= {"bench": "quality", "version": __version__, **provenance()}
    result["parameters"] = {name: config.algorithms[name] for name in names if name in config.algorithms}
    result["plugins"] = {name: Path(a.plugin).name for name, a in chosen.items() if a.plugin}
    result["elapsed_s"] = time.monotonic() - started
    command = f"nanet quality --events {events} --seed {seed}"
    if algorithms:
        command += f" --algorithms {algorithms.replace(' ', '')}"
    if detector:
        command += f" --detector {detector}"
        result["detector"] = detector
    if docs is not None:
        text = page.markdown(result, f"{command} --docs docs", "images/")
        try:
            figures.write(result, folder / "images")
        except OSError as error:
            raise UsageError(
                f"--docs {describe_os_error(error)}: give a folder that can be written"
            ) from None
        page.rewrite(folder / "quality.md", text)
        written = folder / "quality.md"
    else:
        written = folder / "report.md"
        try:
            figures.write(result, folder)
            written.write_text(f"# Quality of the rings\n\n{page.markdown(result, command, '')}", "utf-8")
        except OSError as error:
            raise UsageError(f"--out {describe_os_error(error)}: give a folder that can be written") from None
        write_json(result, str(folder / "quality.json"))
    _print(out, result)
    out.print(f"report in {written}", markup=False, soft_wrap=True)
    write_json(result, json_file)


def _chosen(wanted: str | None, known: list[str]) -> dict[str, Algorithm]:
    """Algorithms by name, in the given order; plug-ins are loaded."""
    if wanted is None:
        return {name: Algorithm(name) for name in known}
    given = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in given:
        if name not in known and not names_a_plugin(name) and not own_finder.is_function(name):
            raise UsageError(f"--algorithms {wanted}: no algorithm {name!r}{near(name, known)}")
    chosen = {algorithm.name: algorithm for algorithm in map(_load, dict.fromkeys(given))}
    if not given or len(chosen) != len(given):
        raise UsageError(
            f"--algorithms {wanted!r}: must be names by commas, each once, of {', '.join(known)}, "
            "files of plug-ins, or FILE.py:FUNCTION"
        )
    return chosen


def _load(given: str) -> Algorithm:
    """Algorithm of a name, a plug-in or a Python function, all checked."""
    if not own_finder.is_function(given):
        return load_algorithm(given)
    from nanet import _core

    own_finder.load(given)
    name = own_finder.name_of(given)
    if name in _core.algorithm_names():
        raise UsageError(f"--algorithms {given}: {name} is an algorithm of nanet; rename the function")
    return Algorithm(name, given, cuda=False)


def _prepare(folder: Path, docs: str | None) -> None:
    """Makes the folders; UsageError now for a page that could not be rewritten at the end."""
    option = "--docs" if docs is not None else "--out"
    try:
        if docs is not None:
            from nanet.quality import page

            path = folder / "quality.md"
            page.rewrite(path, page.between(path))
            (folder / "images").mkdir(exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option} {describe_os_error(error)}: give a folder that can be written") from None


def _print(out: Any, result: dict[str, Any]) -> None:
    """Prints the main figures of isolated events, one line per algorithm."""
    from rich.table import Table

    from nanet.report.tables import count

    isolated = next(iter(result["algorithms"].values()))["mix"]["isolated"]["events"]
    table = Table(
        box=None, padding=(0, 2, 0, 0), header_style="dim", title=f"{count(isolated)} isolated events",
        title_justify="left",
    )  # fmt: skip
    table.add_column("")
    for head in ("eff 1", "2", "3", "4", "fakes", "count 1", "2", "3", "σ(R) mm", "bound"):
        table.add_column(head, justify="right")
    for name, row in result["algorithms"].items():
        part = row["mix"]["isolated"]
        right = [part["ring_count_accuracy"][k] for k in "123"]
        if name.startswith("oracle"):
            right = [float("nan")] * 3
        values = [*(part["efficiency"][k] for k in "1234"), part["fakes_per_event"], *right]
        cells = [f"{value:.3f}" for value in values]
        cells += [f"{part[key]:.2f}" for key in ("sigma_r_mm", "crlb_sigma_r_mm")]
        table.add_row(name, *("-" if cell == "nan" else cell for cell in cells))
    out.print(table)
