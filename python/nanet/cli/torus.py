# SPDX-License-Identifier: Apache-2.0
"""`nanet torus`: load sweep of the event-driven model, a program on it, historic curves, lattice-QCD."""

from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from nanet.cli.options import JsonFile, options
from nanet.config import values
from nanet.config.file import Config
from nanet.config.options import flag_of
from nanet.config.sections import Torus
from nanet.errors import UsageError, describe_os_error, near
from nanet.report.output import check_writable, console, write_json

PROGRAMS = ("mpi", "model")
WHAT = {
    "sweep": "latency and accepted load against offered load",
    "demo": "a parallel program with a live picture, bit errors on a link survived",
    "curves": "half round trip and bandwidth of the historic card",
    "lqcd": "bandwidth that lattice QCD requires, and what links give",
    "serve": "cards for MPI programs, until interrupted",
}
# Options of the section that each of them reads.
READS = {
    "sweep": {"engine", "size", "traffic", "load", "payload", "link", "vc_rule", "injection", "buffer",
              "cycles", "warm", "seed"},
    "demo": {"size", "vc_rule", "injection", "buffer", "seed", "iterations", "errors"},
    "curves": set(),
    "lqcd": {"gflops"},
    "serve": {"engine", "size", "link", "vc_rule", "injection", "buffer", "seed"},
}  # fmt: skip


def _check_reads(config: Config, what: str) -> None:
    """UsageError for an option of the command line without effect; a file may serve several of them."""
    for name, value in config.given(Torus).items():
        if name not in READS[what]:
            those = ", ".join(other for other, names in READS.items() if name in names)
            flag = flag_of(getattr(attrs.fields(Torus), name))
            raise UsageError(f"{flag} {value}: no option of torus {what}, but of {those}")


@options(Torus)
def torus(
    config: Config,
    what: Annotated[
        str,
        typer.Argument(
            help="; ".join(f"{name}: {text}" for name, text in WHAT.items()) + ".", show_default=False
        ),
    ] = "sweep",
    plots: Annotated[
        str | None, typer.Option("--plots", metavar="DIR", help="Write figures there (sweep, curves).")
    ] = None,
    monitor: Annotated[
        str | None,
        typer.Option("--monitor", metavar="HOST:PORT", help="Serve the monitor page here (demo)."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option("--control", metavar="FILE", help="Control file, for FI_NANET_TORUS (serve)."),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--program",
            help="mpi: an MPI program, one rank per node; model: the model's own (demo; default: mpi where "
            "an MPI with mpicc is installed).",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Model of a 3D torus: packets as events, in cycles (docs/torus.md)."""
    if what not in WHAT:
        raise UsageError(f"torus {what}: must be one of {', '.join(WHAT)}{near(what, list(WHAT))}")
    _check_reads(config, what)
    if plots is not None and what in ("lqcd", "serve"):
        raise UsageError(f"--plots {plots}: torus {what} draws no figures; sweep and curves do")
    if control is not None and what != "serve":
        raise UsageError(f"--control {control}: only torus serve has a control file")
    if plots is not None and what == "demo":
        raise UsageError(f"--plots {plots}: torus demo draws on the terminal; sweep and curves write figures")
    if monitor is not None:
        from nanet.monitor.link import check_address

        if what != "demo":
            raise UsageError(f"--monitor {monitor}: only torus demo has a page")
        check_address(monitor)
    if program is not None and what != "demo":
        raise UsageError(f"--program {program}: only torus demo carries a program")
    if program not in (None, *PROGRAMS):
        raise UsageError(f"--program {program}: must be one of {', '.join(PROGRAMS)}")
    check_writable(json=json_file)
    folder = Path(plots) if plots is not None else None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--plots {describe_os_error(error)}: give a folder that can be written"
            ) from None
    out = console(json_file)
    if what == "serve":
        result = _serve(config[Torus], out, control)
    elif what == "demo":
        result = _demo(config[Torus], out, monitor, program)
    else:
        result = {"sweep": _sweep, "curves": _curves, "lqcd": _lqcd}[what](config[Torus], out, folder)
    write_json({"torus": what, **result}, json_file)
    if what == "demo" and not (result["complete"] or result["stopped"]):
        raise typer.Exit(1)


def _table(out: Any, head: tuple[str, ...], rows: list[list[Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for index, column in enumerate(head):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    out.print(table)


def _sweep(settings: Torus, out: Any, folder: Path | None) -> dict[str, Any]:
    from nanet import _core
    from nanet.torus import rtl, sweep

    timing = _core.torus.timing(settings.link)
    if settings.buffer:
        timing["buffer_words"] = settings.buffer
    timing["reserve"] = settings.injection == "reserve"
    size = values.torus_size(settings.size)
    given: dict[str, Any] = {
        "pattern": settings.traffic,
        "loads": values.torus_loads(settings.load),
        "payload_bytes": settings.payload,
        "balanced": settings.vc_rule == "balanced",
        "warm_cycles": settings.warm,
        "cycles": settings.cycles,
        "seed": settings.seed,
        "say": lambda load: out.print(f"[dim]load {load:g}[/]"),
    }
    try:
        if settings.engine == "rtl":
            _check_rtl(settings, timing["buffer_words"])
            rows = rtl.sweep(size, buffer_words=timing["buffer_words"], reserve=timing["reserve"], **given)
        else:
            rows = sweep.sweep(size, timing, **given)
    except ValueError as error:
        raise UsageError(f"torus: {error}") from None
    except RuntimeError as error:
        out.print(f"[red]torus: {error}[/]")
        raise typer.Exit(1) from None
    columns = {
        "offered": "offered", "accepted": "accepted", "mean_cycles": "mean cycles", "p99_cycles": "99 %",
        "max_cycles": "longest", "link_load_max": "busiest link",
    }  # fmt: skip
    shown = [key for key in columns if key in rows[0]]
    cells = [[*(row[key] for key in shown), "yes" if row["saturated"] else ""] for row in rows]
    _table(out, (*(columns[key] for key in shown), "saturated"), cells)
    if folder is not None:
        from nanet.torus import plots

        title = f"{settings.size}, {settings.traffic}, {settings.payload} B, {settings.link}"
        out.print(f"figure {folder / plots.load_curve(rows, title, folder)}", markup=False)
    return {
        "engine": settings.engine,
        "size": list(size),
        "traffic": settings.traffic,
        "payload_bytes": settings.payload,
        "link": settings.link,
        "vc_rule": settings.vc_rule,
        "timing": timing,
        "rows": rows,
    }


def _serve(settings: Torus, out: Any, control: str | None) -> dict[str, Any]:
    from nanet import _core
    from nanet.run.process import stop_signals
    from nanet.torus import serve

    program = ""
    if settings.engine == "rtl":
        from nanet import simulation
        from nanet.torus import rtl

        if missing := simulation.missing():
            raise UsageError(f"torus.engine = rtl: {missing}; or use model")
        if settings.link != "reliable" or settings.vc_rule != "infn":
            raise UsageError("torus.engine = rtl: simulated nodes have link = reliable and vc_rule = infn")
        try:
            program = str(rtl.cards())
        except RuntimeError as error:
            out.print(f"[red]torus: {error}[/]")
            raise typer.Exit(1) from None
    path = control or serve.control_file()
    timing = {**_core.torus.timing(settings.link), "reserve": settings.injection == "reserve"}
    if settings.buffer:
        timing["buffer_words"] = settings.buffer
    try:
        with stop_signals() as stop:
            carried = serve.serve(
                path, values.torus_size(settings.size), timing, balanced=settings.vc_rule == "balanced",
                seed=settings.seed, program=program, ready=lambda: print(serve.READY + path, flush=True),
                stopped=lambda: bool(stop.signals),
            )  # fmt: skip
    except RuntimeError as error:
        out.print(f"[red]torus: {error}[/]")
        raise typer.Exit(1) from None
    out.print(serve.summary(carried), highlight=False, markup=False, soft_wrap=True)
    return {"size": settings.size, "link": settings.link, **carried}


REFRESH_S, LINE_S = 0.06, 1.0  # between two pictures; between lines without a terminal


def _demo(settings: Torus, out: Any, page: str | None, program: str | None) -> dict[str, Any]:
    from nanet import __version__, _core
    from nanet.monitor.link import Monitor
    from nanet.run.process import stop_signals
    from nanet.torus import mpi_demo
    from nanet.torus.demo import Demo, Tick
    from nanet.torus.live import View, summary

    size = values.torus_size(settings.size)
    timing = {**_core.torus.timing("reliable"), "reserve": settings.injection == "reserve"}
    if settings.buffer:
        timing["buffer_words"] = settings.buffer
    lacks = mpi_demo.missing(size[0] * size[1] * size[2]) if program != "model" else ""
    if program == "mpi" and lacks:
        raise UsageError(f"--program mpi: {lacks}")
    if lacks:
        out.print(f"[dim]no MPI program, the model's own: {lacks}[/]", highlight=False)
    try:
        demo = (Demo if program == "model" or lacks else mpi_demo.MpiDemo)(
            size, timing, iterations=settings.iterations, word_rate=settings.errors,
            balanced=settings.vc_rule == "balanced", seed=settings.seed,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(f"torus: {error}") from None
    except RuntimeError as error:
        out.print(f"torus: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    title = f"nanet torus demo: {settings.size} nodes, reliable links; {demo.what}"
    view = View(demo, title)
    latest: Tick | None = None
    with contextlib.ExitStack() as stack:
        stack.callback(demo.close)
        stop = stack.enter_context(stop_signals())
        served = None
        if page is not None:
            about = {"shows": "torus", "version": __version__, "size": list(size), "title": title}
            served = stack.enter_context(Monitor(page, about))
            out.print(f"monitor: {served.url}", highlight=False, markup=False, soft_wrap=True)
        show = lambda: None  # noqa: E731
        if out.is_terminal:
            from rich.live import Live

            live = stack.enter_context(Live(view, console=out, auto_refresh=False, transient=True))
            show = lambda: live.update(view, refresh=True)  # noqa: E731
        else:
            out.print(title)
        following = time.monotonic() + LINE_S
        try:
            for latest in demo.ticks():
                view.update(latest)
                show()
                if served is not None:
                    served.publish(functools.partial(demo.snapshot, latest), last=latest.count["done"])
                if not out.is_terminal and time.monotonic() >= following:
                    out.print(demo.line(latest), markup=False, soft_wrap=True)
                    following = time.monotonic() + LINE_S
                if stop.signals:
                    break
                if not demo.paced and (out.is_terminal or served is not None):
                    time.sleep(REFRESH_S)
        except RuntimeError as error:
            out.print(f"torus: {error}", style="red", markup=False)
            raise typer.Exit(1) from None
    assert latest is not None
    result = {**demo.result(latest.count), "stopped": bool(stop.signals)}
    out.print(summary(result))
    return {**result, "vc_rule": settings.vc_rule, "timing": timing}


def _check_rtl(settings: Torus, buffer_words: int) -> None:
    from nanet import simulation

    if missing := simulation.missing():
        raise UsageError(f"torus.engine = rtl: {missing}; or use model")
    if settings.link != "router":
        raise UsageError(f"torus.link = {settings.link}: simulated routers have direct wires; use router")
    if settings.traffic == "halo":
        raise UsageError("torus.traffic = halo: simulated routers do not have it; use another, or the model")
    words = 2 + -(-settings.payload // 16)
    if words > buffer_words:
        raise UsageError(
            f"torus.buffer = {buffer_words}: below the {words} words of a packet; enlarge it or cut payload"
        )


def _curves(settings: Torus, out: Any, folder: Path | None) -> dict[str, Any]:
    from nanet.torus.curves import curves
    from nanet.torus.parameters import Parameters

    parameters = Parameters()
    result = curves(parameters)
    _table(out, ("parameter", "value", "origin", "meaning"), [list(row) for row in parameters.rows()])
    for key, title in (("half_round_trip_us", "half round trip, µs"), ("bandwidth_gbytes", "GB/s")):
        out.print(f"\n{title}", markup=False)
        rows = result[key]
        _table(out, tuple(rows[0]), [list(row.values()) for row in rows])
    out.print()
    published = result["published"]
    names = [name for name in result["figures"] if name in published]
    _table(
        out, ("figure", "model", "published"), [[n, result["figures"][n], float(published[n])] for n in names]
    )
    if folder is not None:
        from nanet.torus import plots

        out.print(f"figure {folder / plots.curves(result, folder)}", markup=False)
    return result


def _lqcd(settings: Torus, out: Any, folder: Path | None) -> dict[str, Any]:
    from nanet.torus import lqcd

    rows, halos = lqcd.table(settings.gflops), lqcd.halo_shares()
    for row, share in zip(rows, halos, strict=True):
        row["halo_words_per_cycle"] = share
    _table(
        out,
        (
            "local lattice", "GPUs", "GB/s required", "published at 135 Gflop/s", "total GPUs", "reproduced",
            "torus", "halo, words per cycle",
        ),
        [
            [
                row["local"], row["gpus"], row["required_gbytes"], row["published_gbytes"], row["total_gpus"],
                "yes" if row["right"] else "no", row["torus"], row["halo_words_per_cycle"],
            ]
            for row in rows
        ],
    )  # fmt: skip
    out.print()
    balance = lqcd.balanced(settings.gflops, halos)
    _table(
        out,
        (
            "link",
            "host interface",
            "GB/s, least of the rows",
            "rows in balance",
            "Gflop/s per GPU for all rows",
        ),
        [list(row.values()) for row in balance],
    )
    return {
        "gflops": settings.gflops,
        "rows": rows,
        "links": balance,
    }
