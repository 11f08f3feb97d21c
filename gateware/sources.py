# SPDX-License-Identifier: SHL-2.1
"""Source files of the card, for simulation, lint, synthesis and proofs.

Register maps are generated on first use from regs/*.rdl and kept by the content of their sources.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent
RTL = GATEWARE / "rtl"
GENERATED = GATEWARE.parent / "build" / "gateware" / "regs"


def registers() -> Path:
    """Return the folder of the register maps' modules and packages; RuntimeError if the generator fails."""
    generator = GATEWARE / "regs" / "generate.py"
    digest = hashlib.sha256(version("peakrdl-regblock").encode())
    rdl = sorted((GATEWARE / "regs").glob("*.rdl"))
    for path in (*rdl, generator, generator.with_name("retime.py")):
        digest.update(path.read_bytes())
    folder = GENERATED / digest.hexdigest()[:16]
    if not folder.exists():
        GENERATED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=GENERATED) as fresh:
            done = subprocess.run(
                [sys.executable, generator, "--rtl", fresh], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"regs/generate.py: {done.stderr}")
            new = Path(fresh) / "new"
            new.mkdir()
            for path in Path(fresh).glob("*.sv"):
                path.rename(new / path.name)
            try:
                new.rename(folder)
            except OSError:  # another process was faster
                if not folder.exists():
                    raise
    return folder


def packages() -> list[Path]:
    """Return the packages in the order of their dependencies."""
    paths = [*RTL.glob("*/*_pkg.sv"), *registers().glob("*_pkg.sv")]
    return sorted(paths, key=lambda path: (path.stem == "nanet_pkg", path.stem))


def modules() -> dict[str, Path]:
    """Return the file of every module by the module's name."""
    paths = sorted([*RTL.glob("*/*.sv"), *registers().glob("*_regs.sv")], key=lambda path: path.stem)
    return {path.stem: path for path in paths if not path.stem.endswith("_pkg")}


def search_path() -> list[str]:
    """Return Verilator's options to find a module by its name."""
    folders = [*(folder for folder in sorted(RTL.iterdir()) if folder.is_dir()), registers()]
    return [option for folder in folders for option in ("-y", str(folder))]
