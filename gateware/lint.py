# SPDX-License-Identifier: SHL-2.1
"""verilator --lint-only -Wall over every module of rtl/ as its own top, and over the tops of boards/.

Any warning is a failure, and so is a file list that is out of date. Clean modules are kept: see result_cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tb" / "support"))

import filelist
import result_cache
from simulate import use_verilator
from sources import GATEWARE, RTL, modules, packages, search_path

# REUSE-IgnoreStart
LICENCE = "SPDX-License-Identifier: SHL-2.1"
# REUSE-IgnoreEnd


def conventions(path: Path) -> list[str]:
    """Return what a source file breaks of the conventions in README.md that show in the text."""
    text = path.read_text()
    lines = text.splitlines()
    troubles = []
    if LICENCE not in lines[0]:
        troubles.append(f"{path.name}:1: the first line must say {LICENCE}")
    for number, line in enumerate(lines, 1):
        if "\t" in line or line != line.rstrip():
            troubles.append(f"{path.name}:{number}: tab or trailing blank")
        if len(line) > 110:
            troubles.append(f"{path.name}:{number}: longer than 110 columns")
    if not path.stem.endswith("_pkg") and f"module {path.stem}" not in text:
        troubles.append(f"{path.name}: must hold the module of its name")
    return troubles


def main() -> int:
    """Lint the modules named as arguments, or all; return 1 where one has warnings."""
    use_verilator()
    files = modules()
    names = sys.argv[1:] or list(files)
    failed = 0
    boards = {path.stem: path for path in sorted(GATEWARE.glob("boards/*/nanet_*.sv"))}
    if not sys.argv[1:]:
        failed += filelist.main(check=True)
        files, names = files | boards, [*names, *boards]
    for path in (*sorted(RTL.glob("*/*.sv")), *boards.values()):
        for trouble in conventions(path):
            print(trouble)
            failed += 1

    def sources(name: str) -> list[Path]:
        stubs = [files[name].with_name("stubs.sv")] if name in boards else []
        return [GATEWARE / "lint.vlt", *packages(), *stubs, files[name]]

    def lint(name: str) -> str:
        """Return the warnings of a module, empty for a clean one."""
        command = ["verilator", "--lint-only", "-Wall", *search_path(), "--top-module", name]
        done = subprocess.run(
            [*command, *map(str, sources(name))], capture_output=True, text=True, check=False
        )
        return done.stderr or (f"verilator ended with {done.returncode}" if done.returncode else "")

    keys = {
        name: result_cache.key([Path(__file__), *result_cache.rtl_closure(sources(name))], "lint", name)
        for name in names
    }
    todo = [name for name in names if not result_cache.has(keys[name])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, warnings in zip(todo, pool.map(lint, todo), strict=True):
            if warnings:
                print(f"{name}:\n{warnings}")
                failed += 1
            else:
                result_cache.keep(keys[name])
    kept = len(names) - len(todo)
    print(f"{len(names)} modules: {kept} unchanged since a clean result, {failed} with troubles")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
