# SPDX-License-Identifier: SHL-2.1
"""C++ harness runner: Verilator builds a module with a C++ program that drives it, for long runs.

The program stands beside the bench, includes headers of src/nanet as reference and exits with 0 if all holds.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import result_cache
from simulate import BUILD, SEED, use_verilator
from sources import GATEWARE, modules, packages, search_path

SRC = GATEWARE.parent / "src"


def run_harness(
    module: str,
    program: Path,
    arguments: Sequence[object] = (),
    parameters: Mapping[str, int] | None = None,
    extra: Sequence[Path] = (),
) -> str:
    """Build `module` of rtl/ (or of `extra` sources) with `program`, run it, and return what it prints.

    The seed is the last argument. A run that passed before with the same files and arguments returns "".
    Raises RuntimeError with the output if the build or the program fails.
    """
    use_verilator()
    parameters = dict(parameters or {})
    sources = [GATEWARE / "lint.vlt", *packages(), *(extra or [modules()[module]])]
    headers = _headers(program)
    result = result_cache.key(
        result_cache.rtl_closure(sources) | headers | {Path(__file__), program},
        *("harness", module, sorted(parameters.items()), list(map(str, arguments)), SEED),
    )
    if result_cache.has(result):
        return ""
    program = build_harness(module, program, parameters, sources)
    output = _run([str(program), *map(str, arguments), str(SEED)])
    result_cache.keep(result)
    return output


def build_harness(
    module: str,
    program: Path,
    parameters: Mapping[str, int],
    sources: Sequence[Path],
    define: str = "",
    rtl: Path | None = None,
) -> Path:
    """Return the executable of `program` with the model of `module`, class Vdut.

    `define` is a macro of the program; `rtl` a folder whose modules replace those of the same name, without
    lint. Raises RuntimeError if the build fails.
    """
    use_verilator()
    label = "_".join(f"{key}{value}" for key, value in sorted(parameters.items()))
    if rtl:
        label += f"_{hashlib.sha256(str(rtl).encode()).hexdigest()[:8]}"
    place = BUILD / f"{program.stem}-{module}{'-' if label else ''}{label}"
    place.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["verilator", "--cc", "--exe", "--build", "-Wno-fatal" if rtl else "-Wall", "-O3"]
        command += ["--x-initial", "unique", "--assert", "--output-split", "0", "--Mdir", str(place)]
        command += ["-o", "run", "--prefix", "Vdut", "--top-module", module]
        command += [f"-G{name}={value}" for name, value in parameters.items()]
        command += [
            "-CFLAGS",
            f"-std=c++20 -O2 -I{SRC} -I{Path(__file__).parent} -I{GATEWARE / 'regs'}"
            f"{' -D' + define if define else ''}",
            "-MAKEFLAGS",
            "OPT_FAST=-O2 OPT_SLOW=-O0",
        ]
        command += [*(["-y", str(rtl)] if rtl else []), *search_path(), *map(str, [*sources, program])]
        _run(command)
    return place / "run"


def cached(*sources: Path) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of a test of build_harness programs: a pass is kept for these sources and programs."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**given: object) -> None:
            parts = sorted(
                (name, repr(value)) for name, value in given.items() if not isinstance(value, Path)
            )
            files = {Path(__file__), Path(test.__code__.co_filename)}
            for source in sources:
                files |= _headers(source)
            result = result_cache.key(
                result_cache.rtl_closure(sources) | files, *("harness", test.__name__, parts, SEED)
            )
            if not result_cache.has(result):
                test(**given)
                result_cache.keep(result)

        return run

    return decorate


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _headers(program: Path) -> set[Path]:
    """Return the headers that a program includes from src/ and from its folder, recursively."""
    seen: set[Path] = set()
    todo = [program]
    while todo:
        path = todo.pop()
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            for header in (SRC / name, path.parent / name, GATEWARE / "tb" / "support" / name):
                if header.exists() and header not in seen:
                    seen.add(header)
                    todo.append(header)
    return seen
