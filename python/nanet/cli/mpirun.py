# SPDX-License-Identifier: Apache-2.0
"""`nanet mpirun`: runs an unmodified MPI program over the fabric (docs/fabric.md)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Annotated

import typer

from nanet.config import values
from nanet.errors import UsageError
from nanet.fabric import find_mpi, job_environment
from nanet.torus import serve

BACKENDS = ("shm", "model", "rtl")


def mpirun(
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGS]...", help="MPI program with its arguments.")
    ],
    processes: Annotated[int, typer.Option("-n", "--processes", min=1, help="Number of processes.")] = 2,
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
            help="shm: shared memory; model, rtl: cards of a torus (default: FI_NANET_TORUS, else shm).",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="XxYxZ", help="Nodes of the torus per dimension (default: 2x2x2)."),
    ] = None,
) -> None:
    """Runs an unmodified MPI program over the fabric, on this host.

    MPI implementations: Open MPI 4 and 5, and MPICH with libfabric. Variables of the environment that are
    already set win over those of this command.
    """
    if backend is not None and backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: must be one of {', '.join(BACKENDS)}")
    if size is not None and backend not in ("model", "rtl"):
        raise UsageError(f"--size {size}: only a torus has one: use --backend model or rtl")
    found = find_mpi(mpi)
    merged = job_environment(found)
    if backend is not None:
        merged.pop("FI_NANET_TORUS", None)
    carried: serve.Carried | None = None
    with contextlib.ExitStack() as stack:
        if backend in ("model", "rtl"):
            size = size or "2x2x2"
            try:
                values.torus_size(size)
            except ValueError as error:
                raise UsageError(f"--size {size}: {error}") from None
            merged["FI_NANET_TORUS"], carried = stack.enter_context(serve.running(size, backend))
        try:
            status = subprocess.run([found.launcher, "-n", str(processes), *command], env=merged).returncode
        except OSError as error:
            raise UsageError(f"{found.launcher}: {error.strerror}; name another mpirun with --mpi") from None
    if carried is not None:
        print(serve.summary(carried) if carried else "torus: it ended before the program", file=sys.stderr)
    raise typer.Exit(status if status >= 0 else 128 - status)
