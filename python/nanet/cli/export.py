# SPDX-License-Identifier: Apache-2.0
"""`nanet export`: captures, rings and truth as ROOT trees or Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nanet.cli.options import DetectorOption, JsonFile
from nanet.detector import as_detector
from nanet.errors import UsageError
from nanet.report.output import check_distinct, check_writable, console, working, write_json

FORMATS = (".root", ".parquet")


def export(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="pcap, pcapng, rings or truth (Parquet).", show_default=False),
    ],
    out_file: Annotated[
        str, typer.Option("--out", metavar="FILE", help=".root or .parquet.", show_default=False)
    ],
    tables: Annotated[
        str, typer.Option("--tables", help="Tables of a capture, by commas: events, fragments, packets.")
    ] = "events",
    boards: Annotated[
        str, typer.Option("--boards", help="4, a list such as 0,1, merged, or auto: as found in the capture.")
    ] = "auto",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="UDP destination port of the boards' packets.")
    ] = 58913,
    max_payload: Annotated[
        int, typer.Option("--max-payload", min=64, max=65507, help="Largest accepted payload, in B.")
    ] = 1472,
    window_lsb: Annotated[
        int,
        typer.Option(
            "--window-lsb", min=0, max=65535, help="Coincidence window: fragments this close are one event."
        ),
    ] = 41,
    detector_file: DetectorOption = "",
    json_file: JsonFile = None,
) -> None:
    """Captures, rings and truth as ROOT trees or Parquet tables.

    A ROOT file gets one tree per table: events, fragments, packets of a capture; rings, truth, hits. A
    Parquet file holds one table. A capture is read into memory; rings and truth are copied in chunks.
    """
    if Path(out_file).suffix.lower() not in FORMATS:
        raise UsageError(f"--out {out_file}: must end in {' or '.join(FORMATS)}")
    for path in inputs:
        check_distinct(input=path, out=out_file, json=json_file)
    from nanet.files import export as exports

    names = list(dict.fromkeys(filter(None, (name.strip() for name in tables.split(",")))))
    detector = as_detector(detector_file)
    options = {
        "boards": boards,
        "port": port,
        "max_payload": max_payload,
        "window_lsb": window_lsb,
    }
    out = console(json_file)
    with working(out, "reading …", plain=False):
        found = exports.sources(inputs, names, detector, **options)
    if not found:
        raise UsageError("--tables: names no table; give events, fragments or packets")
    check_writable(out=out_file, json=json_file)
    with working(out, "writing …", plain=False):
        rows = exports.export(found, out_file)
    size = Path(out_file).stat().st_size
    from nanet.report.tables import count

    tables_written = ", ".join(f"{name} ({count(number)} rows)" for name, number in rows.items())
    out.print(f"{out_file}: {tables_written}, {size / 1e6:.1f} MB", markup=False, soft_wrap=True)
    write_json({"out": out_file, "tables": rows, "bytes": size}, json_file)
