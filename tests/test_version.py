# SPDX-License-Identifier: Apache-2.0
"""Version from the tags of Git, and the manylinux wheels in fresh environments."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import nanet
from nanet import _core


def module(path: Path) -> ModuleType:
    """A module from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_version_follows_the_tags(root: Path, tmp_path: Path) -> None:
    version = module(root / "tools" / "build" / "nanet_version.py").version
    package = tmp_path / "python" / "nanet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('RELEASE = "0.1.0"\n')
    assert version(tmp_path) == "0.1.0"  # outside Git
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    assert version(tmp_path) == "0.1.0"  # a clone without tags
    git(tmp_path, "tag", "-a", "v0.2.0", "-m", "release")
    git(tmp_path, "tag", "other")
    assert version(tmp_path) == "0.2.0"
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "second")
    assert re.fullmatch(r"0\.2\.1\.dev1\+g[0-9a-f]+", version(tmp_path))


def test_an_sdist_keeps_its_version(root: Path, tmp_path: Path) -> None:
    version = module(root / "tools" / "build" / "nanet_version.py").version
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: nanet\nVersion: 0.3.1.dev2+gabc\n")
    assert version(tmp_path) == "0.3.1.dev2+gabc"


def test_core_and_package_state_one_release(root: Path) -> None:
    release = module(root / "tools" / "build" / "nanet_version.py").version(root)
    assert nanet.__version__ == nanet.RELEASE  # a source tree
    assert re.match(r"\d+\.\d+\.\d+$", _core.__version__)
    assert release.startswith(_core.__version__) or ".dev" in release


USE = """
import sys, nanet
from nanet import _core, analysis
assert nanet.__file__.startswith(sys.prefix), nanet.__file__
found = analysis.reconstruct([[0, 90, 0, -90, 64]], [[90, 0, -90, 0, 64]], algorithm="math", min_hits=4)
print(nanet.__version__, _core.__version__, found["ring"].to_pylist())
"""
VARIANTS = "from nanet import _core; print(*_core.simd_variants())"


@pytest.mark.complete
@pytest.mark.serial
@pytest.mark.timeout(3600)  # two wheels, compiled on two cores
def test_the_wheels_serve_fresh_environments(root: Path, tmp_path: Path, building: dict[str, str]) -> None:
    """Built by one command, installed without compiler or source tree as pipx does, and used."""
    wheels = tmp_path / "wheels"
    command = [sys.executable, root / "tools" / "wheels.py", "--out", wheels]
    subprocess.run(command, check=True, env={"NANET_CUDA": "OFF", **building})
    tools = module(root / "tools" / "wheels.py")
    built = sorted(wheels.glob("nanet-*.whl"))
    assert built and all("manylinux" in wheel.name for wheel in built)
    expected = module(root / "tools" / "build" / "nanet_version.py").version(root)
    for version, python in tools.installed().items():
        tag = "cp312-abi3" if version >= tools.STABLE else "cp311-cp311"
        (wheel,) = (path for path in built if tag in path.name)
        place = tmp_path / f"venv-{version[0]}.{version[1]}"
        subprocess.run([python, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment["PATH"] = f"{place / 'bin'}:/usr/bin:/bin"

        def run(*words: str | Path, env: dict[str, str] = environment) -> str:
            return subprocess.run(
                [str(word) for word in words],
                check=True,
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
            ).stdout

        said = run(place / "bin" / "python", "-c", USE).split(maxsplit=2)
        assert said[0] == expected and expected.startswith(said[1]) | (".dev" in expected)
        assert said[2].strip() == "[0]"
        assert run(place / "bin" / "nanet", "--version") == f"nanet {expected}\n"
        run(
            place / "bin" / "nanet",
            "generate",
            "--events",
            "500",
            "--out",
            "run.pcap",
            "--truth",
            "run.parquet",
        )
        replay = (place / "bin" / "nanet", "replay", "run.pcap", "--device", "cpu", "--json", "run.json")
        run(*replay)
        assert json.loads((tmp_path / "run.json").read_text())["account_closes"]
        # Each CPU variant that this processor has, as on processors that lack the next one.
        answers = set()
        for variant in ("avx2", "avx512"):
            if variant in run(place / "bin" / "python", "-c", VARIANTS).split():
                run(*replay, "--out", "rings.parquet", env={**environment, "NANET_SIMD": variant})
                answers.add((tmp_path / "rings.parquet").read_bytes())
        # And a processor without AVX-512, where QEMU emulates one with AVX2 (7.2 or newer).
        emulated = ("qemu-x86_64", "-cpu", "Haswell", place / "bin" / "python")
        if shutil.which(emulated[0]):
            found = subprocess.run(
                [*emulated, "-c", VARIANTS], capture_output=True, text=True, env=environment, check=False
            )
            if found.stdout.split() == ["avx2"]:
                run(*emulated, *replay, "--out", "rings.parquet")
                answers.add((tmp_path / "rings.parquet").read_bytes())
        assert len(answers) == 1
