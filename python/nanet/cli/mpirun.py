# SPDX-License-Identifier: Apache-2.0
"""`nanet mpirun`: runs an unmodified MPI program over the fabric (docs/fabric.md)."""

from __future__ import annotations

import os
import subprocess
from typing import Annotated

import typer

from nanet.errors import UsageError
from nanet.fabric import environment, find_mpi


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
) -> None:
    """Runs an unmodified MPI program over the fabric, on this host.

    MPI implementations: Open MPI 4 and 5, and MPICH with libfabric. Variables of the environment that are
    already set win over those of this command.
    """
    variables = environment()
    found = find_mpi(mpi)
    # The caller's settings win, except for the provider: the command's purpose.
    merged = {**found.settings(), **os.environ, **variables}
    try:
        status = subprocess.run([found.launcher, "-n", str(processes), *command], env=merged).returncode
    except OSError as error:
        raise UsageError(f"{found.launcher}: {error.strerror}; name another mpirun with --mpi") from None
    raise typer.Exit(status if status >= 0 else 128 - status)
