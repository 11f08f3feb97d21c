# SPDX-License-Identifier: SHL-2.1
"""Generator of FuseSoC: the register block as a core in the current folder."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = {"peakrdl_regblock": "peakrdl-regblock", "systemrdl": "systemrdl-compiler"}


def main() -> None:
    """Read the request (YAML) named as the argument and write files and core."""
    request = Path(sys.argv[1]).read_text(encoding="utf-8")
    vlnv = re.search(r"^vlnv:\s*(\S+)", request, re.M)
    if vlnv is None:
        sys.exit("fusesoc.py: the request has no vlnv")
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        sys.exit(f"fusesoc.py: python3 is {sys.executable}; install into it: {' '.join(missing)}")
    generator = Path(__file__).with_name("generate.py")
    subprocess.run([sys.executable, generator, "--rtl", "."], check=True)
    Path("nanet_regs.core").write_text(
        f"CAPI=2:\nname: {vlnv.group(1)}\n"
        "filesets:\n  rtl:\n    files: [nanet_regs_pkg.sv, nanet_regs.sv]\n"
        "    file_type: systemVerilogSource\n"
        "targets:\n  default:\n    filesets: [rtl]\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
