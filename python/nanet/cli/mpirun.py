# SPDX-License-Identifier: Apache-2.0
"""`nanet mpirun`: runs an unmodified MPI program over the fabric (docs/fabric.md)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nanet.config import values
from nanet.errors import UsageError
from nanet.fabric import find_mpi, job_environment, leftovers
from nanet.torus import serve

BACKENDS = ("shm", "model", "rtl", "pcie")
TORUS = ("model", "rtl", "pcie")


def mpirun(
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGS]...", help="MPI program with its arguments.")
    ],
    processes: Annotated[
        int, typer.Option("-n", "-np", "--processes", min=1, help="Number of processes.")
    ] = 2,
    mpi: Annotated[
        str | None,
        typer.Option(
            "--mpi",
            metavar="FILE",
            help="mpirun or mpiexec of the MPI (default: beside this Python, then on the path).",
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            help="shm: shared memory; model, rtl: cards of a torus; pcie: cards in slots, not run on "
            "hardware (default: FI_NANET_TORUS, else shm).",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="XxYxZ", help="Nodes of the torus per dimension (default: 2x2x2)."),
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(
            "--card", metavar="ADDRESS@X,Y,Z", help="PCI address and node of a card (pcie); for each process."
        ),
    ] = None,
) -> None:
    """Runs an unmodified MPI program over the fabric, on this host.

    MPI implementations: Open MPI 4 and 5, and MPICH with libfabric. Variables of the environment that are
    already set win over those of this command.
    """
    if backend is not None and backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: must be one of {', '.join(BACKENDS)}")
    if size is not None and backend not in TORUS:
        raise UsageError(f"--size {size}: only a torus has one: use --backend model, rtl or pcie")
    cards = _cards(card or [], processes, backend)
    _check_program(command[0])
    found = find_mpi(mpi)
    merged = job_environment(found)
    if backend is not None:
        for name in ("FI_NANET_TORUS", "FI_NANET_CARDS", "FI_NANET_SIZE"):
            merged.pop(name, None)
    _check_places(merged)
    carried: serve.Carried | None = None
    with contextlib.ExitStack() as stack:
        if backend in TORUS:
            size = size or "2x2x2"
            try:
                values.torus_size(size)
            except ValueError as error:
                raise UsageError(f"--size {size}: {error}") from None
            if backend == "pcie":
                merged["FI_NANET_CARDS"], merged["FI_NANET_SIZE"] = cards, size
            else:
                merged["FI_NANET_TORUS"], carried = stack.enter_context(serve.running(size, backend))
        began = time.time()
        try:
            status = subprocess.run([found.launcher, "-n", str(processes), *command], env=merged).returncode
        except OSError as error:
            raise UsageError(f"{found.launcher}: {error.strerror}; name another mpirun with --mpi") from None
    if status:
        leftovers.remove_after(serve.folder(), began)
    if carried is not None:
        print(serve.summary(carried) if carried else "torus: it ended before the program", file=sys.stderr)
    raise typer.Exit(status if status >= 0 else 128 - status)


def _check_program(program: str) -> None:
    """UsageError unless it can be run; an option is one of the launcher."""
    if program.startswith("-") or shutil.which(program):
        return
    if os.sep in program and Path(program).is_file():
        raise UsageError(f"{program}: not executable; chmod +x {program}")
    raise UsageError(f"{program}: no such program; give its path, such as ./{Path(program).name}")


def _check_places(environment: Mapping[str, str]) -> None:
    """UsageError for paths of the environment that do not exist."""
    if (torus := environment.get("FI_NANET_TORUS")) and not Path(torus).exists():
        raise UsageError(f"FI_NANET_TORUS={torus}: no such file; start a torus with nanet torus serve")
    if (folder := environment.get("FI_NANET_DIRECTORY")) and not Path(folder).is_dir():
        raise UsageError(f"FI_NANET_DIRECTORY={folder}: no such folder; create it, or unset the variable")


def _cards(cards: list[str], processes: int, backend: str | None) -> str:
    """Value of FI_NANET_CARDS. UsageError."""
    if cards and backend != "pcie":
        raise UsageError(f"--card {cards[0]}: only --backend pcie uses cards")
    for card in cards:
        if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]@\d+,\d+,\d+", card):
            raise UsageError(f"--card {card}: name PCI address and node, such as 0000:03:00.0@0,0,0")
    if backend == "pcie" and len(cards) < processes:
        raise UsageError(f"--card: {len(cards)} for {processes} processes; name one for each")
    return " ".join(cards)
