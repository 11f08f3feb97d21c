# SPDX-License-Identifier: Apache-2.0
"""Command line of ./dev results: regenerates or checks the pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import module_table

from results.fuzzing import RUNS, merge
from results.measurements import ROOT, add, load
from results.page import PAGE, page
from results.readme import README, summary, with_summary


def generated() -> dict[Path, str]:
    """Path and text of every generated page."""
    measurements = load()
    return {
        PAGE: page(measurements),
        README: with_summary(README.read_text(encoding="utf-8"), summary(measurements)),
        module_table.PAGE: module_table.page(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Regenerates the pages, or checks them."""
    parser = argparse.ArgumentParser(
        prog="./dev results", description="Generates docs/results.md from results/*.json."
    )
    parser.add_argument(
        "--check", action="store_true", help="only compare; exit status 1 if a page is out of date"
    )
    parser.add_argument(
        "--add", nargs=2, metavar=("FILE", "MACHINE"), help="copy a bench output into results/ first"
    )
    parser.add_argument(
        "--fuzz", metavar="MACHINE", help="add the runs of ./dev fuzz to results/fuzz-MACHINE.json first"
    )
    parser.add_argument("--label", default="", help="with --add: part of the file name, for several runs")
    options = parser.parse_args(arguments)
    if options.add:
        print(add(Path(options.add[0]), options.add[1], options.label).relative_to(ROOT))
    if options.fuzz:
        if not RUNS.exists():
            parser.error("--fuzz: no run is recorded: run ./dev fuzz")
        print(merge(RUNS, options.fuzz).relative_to(ROOT))
    stale = [
        path
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} is out of date: run ./dev results", file=sys.stderr)
        else:
            path.write_text(generated()[path], encoding="utf-8")
            print(path.relative_to(ROOT))
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
