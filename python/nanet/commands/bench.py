# SPDX-License-Identifier: Apache-2.0
"""`nanet bench NAME`: measurements of this machine, each beside a peer or a limit in the same run."""

from __future__ import annotations

import importlib
import time
from typing import Annotated, Any

import typer

from nanet import __version__, host
from nanet.bench import NAMES, Row, Settings
from nanet.config import JsonFile
from nanet.errors import UsageError
from nanet.output import check_writable, console, write_json


def bench(
    name: Annotated[str, typer.Argument(help="; ".join(f"{key}: {what}" for key, what in NAMES.items()), show_default=False)],
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="Length of each (final) run; 0: the measurement's own.")
    ] = 0.0,
    samples: Annotated[int, typer.Option("--samples", min=1000, help="Round trips (latency).")] = 200_000,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs in a row (loopback), passes (replay).")] = 3,
    algorithm: Annotated[str, typer.Option("--algorithm", help="Ring algorithm.")] = "math",
    json_file: JsonFile = None,
) -> None:
    """Measurements of this machine, each beside a peer or a limit in the same run."""
    if name not in NAMES:
        raise UsageError(f"bench {name}: must be one of {', '.join(NAMES)}")
    check_writable(json=json_file)
    out = console(json_file)
    module = importlib.import_module(f"nanet.bench.{name}")
    before = _load()
    started = time.monotonic()

    def say(text: str) -> None:
        out.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", markup=True)

    try:
        rows, figures = module.run(Settings(seconds=seconds, samples=samples, runs=runs, algorithm=algorithm), say)
    except RuntimeError as error:  # a measurement that refutes itself
        out.print(f"[red]bench {name}: {error}[/]")
        raise typer.Exit(1) from None
    described = {**host.describe(), "load_before": before, "load_after": _load()}
    result: dict[str, Any] = {
        "bench": name,
        "version": __version__,
        "host": described,
        "rows": rows,
        "figures": figures,
    }
    _print(out, rows, figures)
    write_json(result, json_file)


def _load() -> list[float]:
    text = host.read("/proc/loadavg").split()
    return [float(value) for value in text[:3]] if len(text) >= 3 else []


def _print(out: Any, rows: list[Row], figures: dict[str, float]) -> None:
    """Rows with the same columns as one table each; then the figures."""
    from rich.table import Table

    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        shown = tuple(key for key, value in row.items() if not isinstance(value, dict))
        groups.setdefault(shown, []).append(row)
    for columns, members in groups.items():
        table = Table(show_edge=False, pad_edge=False)
        for column in columns:
            numeric = not isinstance(members[0][column], str)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in members:
            table.add_row(*(_cell(row[column]) for column in columns))
        out.print(table)
        out.print()
    figure_table = Table("figure", show_edge=False, pad_edge=False)
    figure_table.add_column("value", justify="right")
    for key, value in figures.items():
        figure_table.add_row(key, _cell(value))
    out.print(figure_table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)
