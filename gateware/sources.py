# SPDX-License-Identifier: SHL-2.1
"""Source files of the card, for simulation, lint, synthesis and proofs."""

from __future__ import annotations

from pathlib import Path

GATEWARE = Path(__file__).resolve().parent
RTL = GATEWARE / "rtl"


def packages() -> list[Path]:
    """Return the packages in the order of their dependencies."""
    return sorted(RTL.glob("*/*_pkg.sv"), key=lambda path: (path.stem == "nanet_pkg", path.stem))


def modules() -> dict[str, Path]:
    """Return the file of every module by the module's name."""
    return {path.stem: path for path in sorted(RTL.glob("*/*.sv")) if not path.stem.endswith("_pkg")}


def search_path() -> list[str]:
    """Return Verilator's options to find a module by its name."""
    return [option for folder in sorted(RTL.iterdir()) if folder.is_dir() for option in ("-y", str(folder))]
