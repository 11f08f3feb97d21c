# SPDX-License-Identifier: Apache-2.0
"""`nanet l0tp`: the emulated L0 trigger processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nanet.cli.options import JsonFile, StatusFile, options
from nanet.config.file import Config
from nanet.config.options import core_values
from nanet.config.sections import Final, L0tp
from nanet.errors import UsageError, describe_os_error, starting
from nanet.report.farm import node_changes
from nanet.report.output import check_writable, console, write_json
from nanet.run import host
from nanet.run.process import status_writer, stop_signals

if TYPE_CHECKING:
    from rich.console import Console

POLL_S = 0.1


@options(
    L0tp, Final,
    omit=("final_boards", "latency_us", "sync", "time_source", "clock_speed", "late", "late_type",
          "late_downscale", "min_ticks", "close_ticks", "masks", "choke"),
)  # fmt: skip
def l0tp(
    config: Config,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth", metavar="FILE", help="Compare with this truth file (from readout or generate)."
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            "--times", metavar="FILE", help="File of send times shared by readout, for the latency."
        ),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option("--late", metavar="FILE", help="Write the late frames, u64 counted over the run."),
    ] = None,
    json_file: JsonFile = None,
    status_file: StatusFile = None,
) -> None:
    """Emulated L0 trigger processor: counts, aligns and checks primitive packets, and measures the latency.

    Runs until Ctrl-C or SIGTERM, --duration, or --idle.
    """
    from nanet import _core

    check_writable(json=json_file, late=late)
    settings: dict[str, Any] = {**core_values(config[L0tp]), "times": times or ""}
    farm_settings: dict[str, Any] = {
        "listen": config[Final].farm,
        "boards": config[Final].farm_boards,
    }
    if truth:
        columns = read_truth(truth)
        farm_settings["truth"] = dict(columns)
        columns.pop("rings")
        settings["truth"] = columns
    out = console(json_file)
    with status_writer(status_file) as status, stop_signals() as stop:
        with config.sourced(), starting():
            core = _core.L0tp(settings)
            farm = _core.Farm(farm_settings) if config[Final].farm else None
            core.start()
            if farm:
                farm.start()

        def seen() -> dict[str, Any]:
            return {**core.snapshot(), **({"farm": farm.snapshot()} if farm else {})}

        out.print(f"nanet l0tp: listening on {core.endpoint}", highlight=False, markup=False)
        stopping = False
        nodes = core.snapshot()["nodes"]
        while not core.join(POLL_S):
            before, nodes = nodes, core.snapshot()["nodes"]
            for change in node_changes(before, nodes):
                out.print(change, highlight=False, markup=False)
            if stop.signals and not stopping:
                core.request_stop()
                stopping = True
            if status and status.due():
                status.write({"snapshot": seen()})
        if farm:
            farm.stop()
        result = seen()
        if status:
            status.write({"result": result, "histograms": histograms(core)})
        if late:
            core.late_frames().tofile(late)
    result["host"] = host.describe()
    print_result(out, result)
    write_json(result, json_file)


def histograms(core: Any) -> dict[str, dict[str, Any]]:
    """Latency histograms for JSON."""
    return {
        name: {"edges_us": edges, "counts": counts} for name, (edges, counts) in core.histograms().items()
    }


def read_truth(path: str) -> dict[str, Any]:
    """Events with at least one hit, as columns for the core, and the period.

    Columns: burst, timestamp, fine_time, rings (number of true rings with a hit).
    period: frames after which the events of a readout repeat (metadata nanet.period_frames); 0: never.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nanet.files.truth import PERIOD_KEY

    columns = ["burst", "timestamp", "fine_time", "event", "ring", "event_hits"]
    try:
        with open(path, "rb"):  # its error is clearer than Arrow's
            pass
        table = pq.read_table(path, columns=columns)
    except OSError as error:
        raise UsageError(f"--truth {describe_os_error(error)}: give a truth file that can be read") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise UsageError(
            f"--truth {path}: is no truth file ({str(error).splitlines()[0]}): "
            "give what generate or readout wrote"
        ) from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise UsageError(
            f"--truth {path}: has no column {missing[0]}: give what generate or readout wrote with --truth"
        )
    period = int((table.schema.metadata or {}).get(PERIOD_KEY, b"0"))
    arrays = {name: table[name].to_numpy() for name in columns if name != "ring"}
    with_hits = arrays["event_hits"] > 0
    _, first, event = np.unique(
        arrays["event"][with_hits], return_index=True, return_inverse=True
    )  # one row per ring: keep one row per event
    has_ring = table["ring"].is_valid().to_numpy(zero_copy_only=False)[with_hits]
    rings = np.bincount(event, weights=has_ring, minlength=len(first))

    def column(name: str, dtype: type) -> np.ndarray:
        return np.ascontiguousarray(arrays[name][with_hits][first], dtype=dtype)

    return {
        "burst": column("burst", np.uint16),
        "timestamp": column("timestamp", np.uint32),
        "fine_time": column("fine_time", np.uint8),
        "rings": np.minimum(rings, 255).astype(np.uint8),
        "period": period,
    }


def print_result(out: Console, result: dict[str, Any]) -> None:
    """Prints received, missing and late primitives, and the latencies."""
    from nanet.report.tables import count, counted, latency_table

    out.print(
        f"{count(result['primitives'])} primitives in {count(result['frames'])} frames of "
        f"{counted(result['bursts'], 'burst')}; {count(result['frames_missing'])} frames missing, "
        f"{count(result['frames_late'])} late"
    )
    if len(result["nodes"]) > 1:
        print_nodes(out, result["nodes"])
    expected, paired = result["primitives_expected"], result["primitives_paired"]
    if expected:
        out.print(
            f"{count(paired)} of {count(expected)} expected primitives paired ({paired / expected:.4%})"
        )
    for title, key in (
        ("not paired", "unpaired"),
        ("not expected", "unexpected"),
        ("refused", "bad_packets"),
    ):
        named = {name: n for name, n in result[key].items() if n}
        if named:
            out.print(
                f"{title}: " + ", ".join(f"{count(n)} {name.replace('_', ' ')}" for name, n in named.items())
            )
    if "farm" in result:
        print_events(out, result["farm"])
    for key in ("socket_overflow", "out_of_order", "duplicates"):
        if result[key]:
            out.print(f"[yellow]{key.replace('_', ' ')}: {count(result[key])}[/]")
    if any(values["n"] for values in result["latency_us"].values()):
        out.print()
        out.print(latency_table(result["latency_us"], ("from_first", "from_last")))


def print_events(out: Console, farm: dict[str, Any]) -> None:
    """Prints the events that the farm built, bad answers, and the share of true events kept."""
    from nanet.report.tables import count, counted

    out.print(
        f"farm: {count(farm['triggered'])} events triggered, {count(farm['complete'])} complete, "
        f"{count(farm['incomplete'])} incomplete, {count(farm['twice'])} answered twice"
    )
    for key in ("untriggered", "wrong_time", "empty", "datagrams_lost"):
        if farm[key]:
            out.print(f"[yellow]farm: {count(farm[key])} {key.replace('_', ' ')}[/]")
    for what, counts in (("MEPs", farm["refused_packets"]), ("trigger datagrams", farm["refused_datagrams"])):
        for name, number in counts.items():
            if number:
                hint = ": check --farm-boards" if name == "bad_board" else ""
                out.print(f"[yellow]farm: {count(number)} {what} refused, {name}{hint}[/]")
    for row in farm["kept_by_rings"]:
        if row["expected"]:
            rings = "3 or more rings" if row["rings"] == 3 else counted(row["rings"], "ring")
            share = row["kept"] / row["expected"]
            out.print(f"kept of {count(row['expected'])} true events with {rings}: {share:.2%}")


def print_nodes(out: Console, nodes: list[dict[str, Any]]) -> None:
    """Prints the frames of each trigger node: expected = answered + missing."""
    from nanet.report.tables import count

    for node in nodes:
        text = (
            f"node {node['node']} ({node['from'] or 'no answer'}): {count(node['frames_expected'])} frames = "
            f"{count(node['frames'])} answered + {count(node['frames_missing'])} missing"
        )
        if node["silences"]:
            text += f", {count(node['frames_silent'])} of them while silent"
        out.print(text, highlight=False)
    if any(node["misdealt"] for node in nodes):
        out.print(f"[yellow]one address answers for several nodes: are there {len(nodes)}? give --nodes[/]")
