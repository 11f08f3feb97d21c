# SPDX-License-Identifier: Apache-2.0
"""`nanet bench NAME`: benchmarks of this machine, each with a peer or a limit measured in the same run."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from nanet import __version__
from nanet.bench import NAMES, OPTIONS, Row, Settings, Sheet, provenance
from nanet.cli.options import JsonFile
from nanet.config.sections import Card, names_a_plugin
from nanet.errors import UsageError, describe_os_error, near
from nanet.report.output import check_writable, console, write_json
from nanet.run import host
from nanet.run.core_options import executor, load_algorithm
from nanet.run.placement import BOARDS, MANY_CPUS, too_few_cores
from nanet.run.process import interruptible

MOST_COLUMNS = 9
PLOTS = ("rings", "latency", "bandwidth", "kernel", "trigger", "rate", "card", "stack")
PROGRAMS = (
    "loopback",
    "trigger",
    "rate",
    "monitor",
    "soak",
    "record",
    "overload",
    "faults",
)  # benchmarks that start the programs of a chain
CARDS: tuple[str, ...] = attrs.fields(Card).card.metadata["choices"]
WHAT = " ".join(f"{name}: {what}" for name, what in NAMES.items())


def _of(option: str) -> str:
    """Benchmarks that use an option."""
    return ", ".join(name for name, used in OPTIONS.items() if option in used)


def bench(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help=WHAT, show_default=False)],
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Length of each (final) run. [default: the benchmark's]"),
    ] = None,
    samples: Annotated[
        int,
        typer.Option("--samples", min=1000, max=16_000_000, help=f"Round trips ({_of('samples')})."),
    ] = 200_000,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs in a row; passes of replay.")] = 3,
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", help="Ring algorithm (default math; rings: all)."),
    ] = None,
    events: Annotated[
        int,
        typer.Option(
            "--events",
            min=0,
            max=1 << 24,
            help="Events of the largest batch (rings; 0: 1 M), of the capture (answers; 0: 10 M); "
            "decisions, and events of the capture (unica).",
        ),
    ] = 0,
    plots: Annotated[
        str | None,
        typer.Option("--plots", metavar="DIR", help=f"Write figures to this folder ({', '.join(PLOTS)})."),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", min=1e3, max=100e6, help=f"Events per second ({_of('rate')}: the first)."),
    ] = 10e6,
    device: Annotated[
        str, typer.Option("--device", help="As in `nanet trigger`; for every benchmark with a GPU.")
    ] = "auto",
    card: Annotated[str, typer.Option("--card", help="As in `nanet trigger` (overload).")] = "socket",
    card_threads: Annotated[
        int,
        typer.Option(
            "--card-threads",
            min=0,
            max=10,
            help="As in `nanet trigger`, on separate cores if the host has enough "
            f"({_of('card_threads')}); 0: what the host permits.",
        ),
    ] = 0,
    board_threads: Annotated[
        int,
        typer.Option(
            "--board-threads",
            min=0,
            max=4,
            help=f"As in `nanet readout --threads` ({_of('board_threads')}); 0: {BOARDS} where there are "
            f"{MANY_CPUS} CPUs, else 1.",
        ),
    ] = 0,
    batch_us: Annotated[
        float | None,
        typer.Option(
            "--batch-us",
            min=0.0,
            help="As in `nanet readout`. [default: 100; trigger with several threads of boards: 0]",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Benchmarks of this machine, each with a peer or a limit measured in the same run."""
    if name not in NAMES:
        raise UsageError(f"bench {name}: must be one of {', '.join(NAMES)}")
    if seconds is not None and seconds <= 0:
        raise UsageError(f"--seconds {seconds:g}: give seconds above 0, or leave it out for the default")
    if plots is not None and name not in PLOTS:
        raise UsageError(f"--plots {plots}: bench {name} draws no figures; {', '.join(PLOTS)} do")
    if card not in CARDS:
        raise UsageError(f"--card {card}: must be one of {', '.join(CARDS)}")
    if card != Settings().card and name != "overload":
        raise UsageError(f"--card {card}: bench {name} has no choice of cards; overload has")
    check_used(name, ctx)
    if algorithm is not None:
        _known(algorithm)
        if name not in PROGRAMS:  # these start programs that load the plug-in file themselves
            algorithm = load_algorithm(algorithm).name
    check_writable(json=json_file)
    if plots is not None:
        with _plots_folder():
            Path(plots).mkdir(parents=True, exist_ok=True)
    out = console(json_file)
    module = importlib.import_module(f"nanet.bench.{name}")
    before = _load()
    started = time.monotonic()

    def say(text: str) -> None:
        out.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", markup=True)

    sheet, trouble = Sheet(say), ""
    try:
        settings = Settings(
            seconds=seconds or 0.0,
            samples=samples,
            runs=runs,
            algorithm=algorithm or Settings().algorithm,
            only=algorithm,
            events=events,
            rate=rate,
            device=executor(device),
            card=card,
            card_threads=card_threads,
            board_threads=board_threads,
            batch_us=batch_us,
        )
        if refused := too_few_cores(card_threads):
            say(f"--card-threads {card_threads}: {refused}")
        with interruptible():
            module.run(settings, sheet)
    except KeyboardInterrupt:
        trouble = "stopped before its end"
    except RuntimeError as error:  # a measurement that contradicts itself
        trouble = str(error)
    described = {**host.describe(), "load_before": before, "load_after": _load()}
    result: dict[str, Any] = {
        "bench": name,
        "version": __version__,
        **provenance(),
        "host": described,
        "partial": bool(trouble),
        "rows": sheet.rows,
        "figures": sheet.figures,
    }
    if sheet.verdict:
        result["verdict"] = sheet.verdict
    _print(out, sheet.rows, sheet.figures)
    if sheet.verdict:
        out.print(f"[yellow]{sheet.verdict}[/]", highlight=False, soft_wrap=True)
    if trouble:
        write_json(result | {"trouble": trouble}, json_file)
        out.print(f"[red]bench {name}: {trouble}; the results are incomplete[/]")
        raise typer.Exit(1)
    if plots is not None:
        from nanet.bench import loop_plots, rings_plots

        with _plots_folder():
            if name == "rings":
                rings_plots.write(sheet.rows, sheet.figures, Path(plots))
            elif name == "card":
                module.plots(sheet.rows, Path(plots))
            else:
                loop_plots.write(name, sheet.rows, Path(plots))
        out.print(f"figures in {plots}", markup=False)
    write_json(result, json_file)


def check_used(name: str, ctx: typer.Context) -> None:
    """UsageError for an option on the command line that the benchmark does not use."""
    flags = {option.name: option.opts[0] for option in ctx.command.params if option.name}
    for option in sorted({option for used in OPTIONS.values() for option in used} - set(OPTIONS[name])):
        source = ctx.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            takes = ", ".join(flags[used] for used in OPTIONS[name])
            value = ctx.params[option]
            shown = f"{value:g}" if isinstance(value, float) else value
            text = f"{flags[option]} {shown}: bench {name} does not use it"
            raise UsageError(f"{text}: leave it out; it takes {takes}")


def _known(algorithm: str) -> None:
    from nanet import _core

    names = _core.algorithm_names()
    if algorithm not in names and not names_a_plugin(algorithm):
        raise UsageError(f"--algorithm {algorithm}: no such algorithm{near(algorithm, names)}")


@contextmanager
def _plots_folder() -> Iterator[None]:
    """Adds the option --plots to errors of its folder."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--plots {describe_os_error(error)}: give a folder that can be written") from None


def _load() -> list[float]:
    text = host.read("/proc/loadavg").split()
    return [float(value) for value in text[:3]] if len(text) >= 3 else []


def _print(out: Any, rows: list[Row], figures: dict[str, float]) -> None:
    """Prints rows with the same keys as one table each, transposed if they are many; then the figures."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        shown = tuple(key for key, value in row.items() if not isinstance(value, dict))
        groups.setdefault(shown, []).append(row)
    for columns, members in groups.items():
        cells = [[_cell(row[column]) for column in columns] for row in members]
        if len(columns) > MOST_COLUMNS and len(members) <= MOST_COLUMNS:
            turned = [list(line) for line in zip(columns, *cells, strict=True)]
            _table(out, ("", *(row[0] for row in cells)), turned[1:])
        else:
            _table(out, columns, cells)
    if figures:
        _table(out, ("figure", "value"), [[key, _cell(value)] for key, value in figures.items()])


def _table(out: Any, head: tuple[str, ...], rows: list[list[str]]) -> None:
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False, box=None)
    for i, column in enumerate(head):
        table.add_column(column.replace("_", " "), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print()


def _cell(value: Any) -> str:
    """A number for people, such as 12.3 M or 4.56; other values unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float | int):
        return str(value)
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if size == 1e4 else size):.2f}{unit}"
    return f"{value:.4g}"
