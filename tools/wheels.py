# SPDX-License-Identifier: Apache-2.0
"""manylinux wheels for Python 3.11 to 3.14, in dist/ (./dev wheels).

    python tools/wheels.py [--out FOLDER] [PYTHON...]

Two wheels serve all four: cp311, and cp312-abi3 (stable ABI) for 3.12 and newer. PYTHON: interpreters to
build with, by default the first 3.11 and the first 3.12 or newer of PATH and pyenv. Each builds in a separate
environment with the pinned tools; auditwheel checks the symbols and names the oldest glibc that serves,
abi3audit that the wheel of the stable ABI uses no symbol that a newer Python may lack.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STABLE = (3, 12)  # oldest Python of the wheel with the stable ABI
NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
# Libraries of the user's system, for the probe of `nanet bench fabric`. A copy would bring ten more, with
# their licences.
SYSTEM = ("libfabric.so.1",)
# Serve any x86-64 processor since 2013 and any libstdc++.
DEFINES = {"NANET_ARCH": "x86-64-v3", "CMAKE_MODULE_LINKER_FLAGS": "-static-libstdc++ -static-libgcc"}


def run(*command: str | Path, **more: str) -> str:
    """Output of a command; its messages end the program if it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, **more},
    )  # fmt: skip
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-40:])
        sys.exit(f"wheels: {' '.join(str(word) for word in command[:4])} failed:\n{tail}")
    return done.stdout


def release(python: str) -> tuple[int, int]:
    """Version of an interpreter with headers; (0, 0) for one that cannot build."""
    code = (
        "import sys, sysconfig, os, venv, ensurepip;"
        "ok = os.path.exists(sysconfig.get_path('include') + '/Python.h');"
        "print(*sys.version_info[:2] if ok else (0, 0))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    found = re.fullmatch(r"(\d+) (\d+)\n", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def installed() -> dict[tuple[int, int], str]:
    """First interpreter of each version from 3.11 on, of PATH and pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [path for name in NAMES if (path := shutil.which(name))]
    known += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    found: dict[tuple[int, int], str] = {}
    for python in known:
        version = release(python)
        if version >= (3, 11):
            found.setdefault(version, python)
    return dict(sorted(found.items()))


def interpreters() -> list[str]:
    """First interpreter of 3.11, and first one of STABLE or newer."""
    found: dict[bool, str] = {}
    for version, python in installed().items():
        found.setdefault(version >= STABLE, python)
    if len(found) < 2:
        print(
            f"wheels: no Python {'3.12 or newer' if False in found else '3.11'} with headers", file=sys.stderr
        )
    return list(found.values())


def foreign(wheel: Path) -> list[str]:
    """Libraries that auditwheel copied into a wheel."""
    with zipfile.ZipFile(wheel) as file:
        return [name for name in file.namelist() if re.fullmatch(r"nanet\.libs/.+", name)]


def build(python: str, out: Path) -> Path:
    """Builds and repairs one wheel."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    version = release(python)
    with tempfile.TemporaryDirectory(prefix="nanet-wheel-") as place:
        environment = Path(place) / "venv"
        run(python, "-m", "venv", environment)
        inside = environment / "bin"
        run(inside / "python", "-m", "pip", "install", "--quiet", *groups["build"], *groups["wheels"])
        options = [f"--config-settings=cmake.define.{name}={value}" for name, value in DEFINES.items()]
        if "NANET_CUDA" in os.environ:
            options.append(f"--config-settings=cmake.define.NANET_CUDA={os.environ['NANET_CUDA']}")
        if version >= STABLE:
            options.append("--config-settings=wheel.py-api=cp312")
        path = f"{inside}{os.pathsep}{os.environ['PATH']}"
        raw = Path(place) / "raw"
        run(inside / "python", "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation",
            "--wheel-dir", raw, *options, PATH=path)  # fmt: skip
        (wheel,) = raw.glob("*.whl")
        repaired = Path(place) / "repaired"
        excluded = [f"--exclude={name}" for name in SYSTEM]
        run(inside / "auditwheel", "repair", wheel, "--wheel-dir", repaired, *excluded, PATH=path)
        (final,) = repaired.glob("*.whl")
        if copied := foreign(final):
            sys.exit(
                f"wheels: {final.name} holds libraries of others: {', '.join(copied)}; name them in SYSTEM"
            )
        if version >= STABLE:
            run(inside / "abi3audit", "--strict", final)
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(final, out / final.name))


def main() -> None:
    """Builds a wheel per interpreter and prints their names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels")
    parser.add_argument("python", nargs="*", help="interpreters to build with")
    given = parser.parse_args()
    pythons = given.python or interpreters()
    if not pythons:
        sys.exit("wheels: no Python 3.11 or newer with headers: install python3-dev")
    for python in pythons:
        version = release(python)
        if version < (3, 11):
            sys.exit(f"wheels: {python} is no Python 3.11 or newer with headers")
        wheel = build(python, given.out.resolve())
        print(
            f"{wheel}  ({wheel.stat().st_size / 2**20:.1f} MiB, built with Python {version[0]}.{version[1]})"
        )


if __name__ == "__main__":
    main()
