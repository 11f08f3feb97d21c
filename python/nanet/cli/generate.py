# SPDX-License-Identifier: Apache-2.0
"""`nanet generate`: toy Monte Carlo of the RICH, as MGP packets in a pcap, and the truth."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated, Any

import typer

from nanet.cli.options import JsonFile, options
from nanet.config.file import Config
from nanet.config.options import core_values
from nanet.config.sections import Generate
from nanet.errors import starting
from nanet.report.output import check_distinct, check_writable, console, working, write_json

CHUNK_FRAMES = 2048  # some 130 000 events at 10 MHz


@options(Generate)
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
    json_file: JsonFile = None,
) -> None:
    """Toy Monte Carlo of the RICH: MGP packets in a pcap, and the truth."""
    from nanet import _core

    section = config[Generate]
    settings = {
        **core_values(section),
        "truth": truth_file is not None,
        "truth_hits": hits_file is not None,
    }
    check_distinct(out=out_file, truth=truth_file, truth_hits=hits_file, json=json_file)
    check_writable(truth=truth_file, truth_hits=hits_file, json=json_file)
    with starting():
        core = _core.Capture(settings, out_file)
    kept = {name: getattr(section, name) for name in ("seed", "rate", "noise", "rings", "boards", "slots")}
    kept["burst_frames"] = section.max_frames
    begin = time.monotonic()
    out = console(json_file)
    with working(out, f"generating {section.events} events …", plain=False):
        _write(core, truth_file, hits_file, {f"nanet.{key}": value for key, value in kept.items()})
    result = {**core.totals(), **kept, "pad": section.pad, "elapsed_s": time.monotonic() - begin}
    result["events_per_s"] = result["events"] / max(result["elapsed_s"], 1e-9)
    from nanet.report.tables import count, counted
    from nanet.report.tables import rate as per_second

    out.print(
        f"{out_file}: {count(result['events'])} events with {count(result['hits'])} hits in "
        f"{count(result['packets'])} packets, {count(result['frames'])} frames, "
        f"{counted(result['bursts'], 'burst')}, "
        f"{result['bytes'] / 1e6:.1f} MB; {per_second(result['events_per_s'])} events",
        markup=False,
        soft_wrap=True,
    )
    write_json(result, json_file)


def _write(core: Any, truth_file: str | None, hits_file: str | None, metadata: dict[str, Any]) -> None:
    """Runs the core to its end; writes the truth in chunks."""
    truth = hits = None
    with contextlib.ExitStack() as stack:
        if truth_file or hits_file:
            from nanet.files import truth as tables

            if truth_file:
                truth = stack.enter_context(
                    tables.TruthWriter("--truth", truth_file, tables.RING_SCHEMA, metadata)
                )
            if hits_file:
                hits = stack.enter_context(
                    tables.TruthWriter("--truth-hits", hits_file, tables.HIT_SCHEMA, metadata)
                )
        while _next(core):
            if truth:
                truth.write(tables.ring_table(core.truth()))
            if hits:
                hits.write(tables.hit_table(core.hits()))


def _next(core: Any) -> bool:
    with starting():
        return core.next(CHUNK_FRAMES)
