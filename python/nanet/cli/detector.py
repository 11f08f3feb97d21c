# SPDX-License-Identifier: Apache-2.0
"""`nanet detector check FILE`: reads a detector file, names a mistake, or draws the detector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nanet.cli.options import JsonFile
from nanet.detector import SHIPPED, Detector, load
from nanet.errors import UsageError, located, near
from nanet.report.output import check_distinct, check_writable, console, write_json

ACTIONS = ("check",)
FORMATS = (".svg", ".png", ".pdf")
BOARD_STYLES = ("green", "dark_orange", "blue", "magenta", "yellow", "cyan", "red", "grey62")
SMALLEST_COLUMNS, LARGEST_COLUMNS = 40, 78


def detector(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="check.", show_default=False)],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help=f"TOML or CSV file, or one of {', '.join(SHIPPED)}.", show_default=False
        ),
    ],
    out_file: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Also draw it into this file: .svg, .png or .pdf."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Detector files: check one and draw it.

    A mistake is named with key, value and remedy, and ends the command with exit status 2.
    """
    if action not in ACTIONS:
        raise UsageError(f"detector {action}: must be {', '.join(ACTIONS)}{near(action, ACTIONS)}")
    if out_file is not None and Path(out_file).suffix.lower() not in FORMATS:
        raise UsageError(f"--out {out_file}: must end in {', '.join(FORMATS)}")
    check_distinct(input=file, out=out_file, json=json_file)
    found = load(file)
    plugins = _check_algorithms(found, file)
    check_writable(out=out_file, json=json_file)
    out = console(json_file)
    columns = min(max(out.width - 2, SMALLEST_COLUMNS), LARGEST_COLUMNS)
    out.print(*picture(found, columns), sep="\n")
    for name, value in described(found).items():
        if isinstance(value, list):
            value = ", ".join(f"{part:g}" for part in value)
        out.print(f"{name.replace('_', ' ')}: {value}", markup=False, highlight=False, soft_wrap=True)
    for note in plugins:
        out.print(note, markup=False, soft_wrap=True)
    if out_file is not None:
        _save(found, out_file)
        out.print(f"drawn in {out_file}", markup=False, soft_wrap=True)
    write_json(described(found), json_file)


def _check_algorithms(found: Detector, given: str) -> list[str]:
    """Notes on tables of no algorithm of nanet. UsageError for a wrong parameter of one."""
    from nanet.config.sections import ALGORITHMS
    from nanet.run.core_options import check_parameters

    for name in ALGORITHMS:
        with located(f"{given}: "):
            check_parameters(name, found.algorithms.get(name, {}), found.core())
    others = [name for name in found.algorithms if name not in ALGORITHMS]
    return [f"[algorithm.{name}]: for a plug-in of this name{near(name, ALGORITHMS)}" for name in others]


def described(found: Detector) -> dict[str, Any]:
    """Properties of a detector, for the terminal and as JSON. Lengths in mm."""
    radius = found.optics.largest_mm
    return {
        "name": found.name,
        "digest": found.digest,
        "channels": found.channels,
        "disks": len(found.disks),
        "boards": found.boards,
        "channels_of_boards": [
            last - first
            for first, last in zip(found.first_of_boards()[:-1], found.first_of_boards()[1:], strict=True)
        ],
        "x_mm": [float(found.common[:, 0].min()), float(found.common[:, 0].max())],
        "y_mm": [float(found.common[:, 1].min()), float(found.common[:, 1].max())],
        "largest_ring_mm": round(radius, 1),
        "photoelectrons": round(found.optics.photoelectrons(radius), 1),
        "hit_sigma_mm": found.rings.hit_sigma_mm,
    }


def picture(found: Detector, columns: int) -> list[Any]:
    """The common plane in characters: channels coloured by board, and a ring at beta = 1."""
    from nanet.analysis.selection import Ring
    from nanet.analysis.terminal import Canvas

    canvas = Canvas(columns, (found.display.x_mm, found.display.y_mm))
    for (x, y), board in zip(found.common.tolist(), found.board.tolist(), strict=True):
        canvas.dot(x, y, BOARD_STYLES[board % len(BOARD_STYLES)])
    ring = Ring(x=found.monte_carlo.centre_mm, y=0.0, r=found.optics.largest_mm, hits=0)
    canvas.circle(ring, "bright_red")
    return list(canvas.lines())


def _save(found: Detector, path: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from nanet.detector.drawing import draw_detector

    matplotlib.rcParams["svg.hashsalt"] = "nanet"  # the same detector gives the same file
    undated = {"Date": None} if path.lower().endswith(".svg") else None
    axes = draw_detector(found)
    axes.figure.savefig(path, dpi=140, bbox_inches="tight", metadata=undated)
    plt.close(axes.figure)
