# SPDX-License-Identifier: SHL-2.1
"""File list and FuseSoC core of the card: `python gateware/filelist.py` rewrites both, `--check` compares.

nanet_card.f: packages first, then every module that nanet_card_us needs, relative to this folder. The
register block is in ${NANET_REGS}, made by `python gateware/regs/generate.py --rtl FOLDER`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent
TOP = "nanet_card_us"
LIST, CORE = GATEWARE / "nanet_card.f", GATEWARE / "nanet_card.core"
BEGIN, END = "      # begin of the list by filelist.py\n", "      # end of the list\n"


def sources() -> list[Path]:
    """Packages and modules of the card, packages in the order of their dependencies."""
    files = {path.stem: path for path in GATEWARE.glob("rtl/*/*.sv")}
    texts = {name: re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for name, path in files.items()}
    packages = {name for name in files if name.endswith("_pkg")}
    found: list[str] = []

    def visit(name: str) -> None:
        if name in found:
            return
        words = set(re.findall(r"\w+", texts[name]))
        for other in sorted(packages & words - {name}):
            visit(other)
        found.append(name)
        if name not in packages:
            for other in sorted((files.keys() - packages) & words - {name}):
                if re.search(rf"\b{other}\s*(#\s*\(|\w+\s*\()", texts[name]):
                    visit(other)

    visit(TOP)
    ordered = [name for name in found if name in packages]
    ordered += sorted(name for name in found if name not in packages)
    return [files[name] for name in ordered]


def texts() -> dict[Path, str]:
    """Contents of both files."""
    names = [path.relative_to(GATEWARE).as_posix() for path in sources()]
    # REUSE-IgnoreStart
    head = "// SPDX-License-Identifier: SHL-2.1\n// Sources of nanet_card_us, by filelist.py.\n"
    # REUSE-IgnoreEnd
    registers = ["${NANET_REGS}/nanet_regs_pkg.sv", "${NANET_REGS}/nanet_regs.sv"]
    packages = [name for name in names if name.endswith("_pkg.sv")]
    rest = [name for name in names if not name.endswith("_pkg.sv")]
    core = CORE.read_text(encoding="utf-8")
    before, after = core.partition(BEGIN)[0], core.partition(END)[2]
    block = "".join(f"      - {name}\n" for name in names)
    return {
        LIST: head + "\n".join([*packages, *registers, *rest]) + "\n",
        CORE: before + BEGIN + block + END + after,
    }


def main(check: bool = False) -> int:
    """Rewrite the files; with check return 1 where one is out of date."""
    stale = [path for path, text in texts().items() if not path.exists() or path.read_text("utf-8") != text]
    if check:
        for path in stale:
            print(f"{path.name} is out of date: python gateware/filelist.py")
        return 1 if stale else 0
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
