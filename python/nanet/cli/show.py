# SPDX-License-Identifier: Apache-2.0
"""`nanet show`: one event of a capture, drawn in the terminal and optionally as SVG or PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from nanet.cli.options import DetectorOption, JsonFile
from nanet.config.sections import ALGORITHMS, DEFAULT_ALGORITHM
from nanet.detector import Detector, as_detector
from nanet.errors import UsageError
from nanet.files.provenance import check_metadata
from nanet.report.output import check_distinct, check_writable, console, working, write_json

FORMATS = (".svg", ".png", ".pdf")
SMALLEST_COLUMNS, LARGEST_COLUMNS = 40, 110


def show(
    capture: Annotated[str, typer.Argument(metavar="FILE", help="pcap or pcapng.", show_default=False)],
    number: Annotated[
        int,
        typer.Option("--event", metavar="N", min=0, help="Number of the event, as in rings.parquet."),
    ] = 0,
    rings_file: Annotated[
        str | None,
        typer.Option(
            "--rings", metavar="FILE", help="Rings to draw, from replay --out; default: reconstruct them."
        ),
    ] = None,
    truth_file: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="True rings, from generate --truth.")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="Ring algorithm, or the file of a plug-in, without --rings.",
            autocompletion=lambda: list(ALGORITHMS),
        ),
    ] = DEFAULT_ALGORITHM,
    out_file: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Also draw it into this file: .svg, .png or .pdf."),
    ] = None,
    boards: Annotated[
        str, typer.Option("--boards", help="4, a list such as 0,1, merged, or auto: as found in the capture.")
    ] = "auto",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="UDP destination port of the boards' packets.")
    ] = 58913,
    max_payload: Annotated[
        int, typer.Option("--max-payload", min=64, max=65507, help="Largest accepted payload, in B.")
    ] = 1472,
    detector_file: DetectorOption = "",
    json_file: JsonFile = None,
) -> None:
    """Draws one event of a capture: hits coloured by time, rings, and the truth if given.

    The drawing shows the common plane: the PMs of both disks, shifted by their mirrors. Rings are solid,
    true rings are dotted.
    """
    if out_file is not None and Path(out_file).suffix.lower() not in FORMATS:
        raise UsageError(f"--out {out_file}: must end in {', '.join(FORMATS)}")
    check_distinct(input=capture, rings=rings_file, truth=truth_file, out=out_file, json=json_file)
    from nanet import analysis

    detector = as_detector(detector_file)
    rings = analysis.read_rings(rings_file) if rings_file is not None else None
    truth = analysis.read_truth(truth_file) if truth_file is not None else None
    for path, table in ((rings_file, rings), (truth_file, truth)):
        if path is not None and table is not None:
            check_metadata(path, table.schema.metadata, detector.core() if detector else None)
    out = console(json_file)
    with working(out, "reading …", plain=False):
        events = analysis.read_events(
            capture, port=port, boards=boards, max_payload=max_payload, detector=detector
        )
    if not 0 <= number < events.num_rows:
        right = f"must be 0 to {events.num_rows - 1}" if events.num_rows else f"{capture} has no events"
        raise UsageError(f"--event {number}: {right}")
    if rings is None:
        rings = analysis.reconstruct(events.slice(number, 1), algorithm, detector=detector)
    one = analysis.event(events, number, rings, truth, detector)
    check_writable(out=out_file, json=json_file)
    from nanet.analysis.drawing import limits_of
    from nanet.analysis.terminal import picture

    columns = min(max(out.width - 2, SMALLEST_COLUMNS), LARGEST_COLUMNS)
    out.print(picture(one, columns, limits_of(detector)))
    if out_file is not None:
        _save(one, out_file, detector)
        out.print(f"drawn in {out_file}", markup=False, soft_wrap=True)
    write_json(result(one), json_file)


def _save(one: Any, path: str, detector: Detector | None) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from nanet.analysis import draw_event

    axes = draw_event(one, detector=detector)
    # Deterministic output: the same event gives the same file.
    undated = {"Date": None} if path.lower().endswith(".svg") else None
    matplotlib.rcParams["svg.hashsalt"] = "nanet"
    axes.figure.savefig(path, dpi=140, bbox_inches="tight", metadata=undated)
    plt.close(axes.figure)


def result(one: Any) -> dict[str, Any]:
    """Event as JSON: hits with positions (mm) and times (ns), rings, true rings (null: unknown)."""

    def rings(some: Any) -> Any:
        return None if some is None else [attrs.asdict(ring) for ring in some]

    hits = zip(one.pm.tolist(), one.dt.tolist(), one.x.tolist(), one.y.tolist(), strict=True)
    return {
        "burst": one.burst,
        "event": one.number,
        "frame": one.frame,
        "timestamp": one.timestamp,
        "fine_time": one.fine_time,
        "time_ns": one.time_ns,
        "fragments": one.fragments,
        "truncated": one.truncated,
        "hits": [{"pm": pm, "dt_ns": dt, "x": x, "y": y} for pm, dt, x, y in hits],
        "rings": rings(one.rings),
        "true_rings": rings(one.true_rings),
    }
