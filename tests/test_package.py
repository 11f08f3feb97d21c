# SPDX-License-Identifier: Apache-2.0
"""The package is light to import, and its dependencies are pinned and documented."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


def test_every_runtime_dependency_is_pinned_for_development(root: Path) -> None:
    table = tomllib.loads((root / "pyproject.toml").read_text())
    names = {re.split(r"[<>=]", line)[0] for line in table["project"]["dependencies"]}
    pins = {
        name
        for group in table["dependency-groups"].values()
        for name, _ in (line.split("==") for line in group)
    }
    assert names == {line.split("==")[0] for line in table["dependency-groups"]["run"]}
    documented = (root / "docs" / "dependencies.md").read_text()
    for name in pins:
        assert f"\n| {name} |" in documented, f"docs/dependencies.md has no line for {name}"


def test_import_is_light() -> None:
    code = (
        "import sys, nanet; print({'numpy', 'scipy', 'pyarrow', 'matplotlib'} & set(sys.modules) or 'light')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "light"


def test_a_command_starts_light() -> None:
    code = (
        "import sys; from nanet.cli import main; main(['trigger', '--print-config']);"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'matplotlib', 'pydantic', 'aiohttp'};"
        "print(heavy & set(sys.modules) or 'light')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "light"


def test_show_loads_no_part_of_arrow_that_it_does_not_use(tmp_path: Path) -> None:
    code = (
        "import sys; from nanet.cli import main;"
        "main(['generate', '--events', '200', '--seed', '1', '--out', 'run.pcap']);"
        "main(['show', 'run.pcap', '--event', '3']);"
        "heavy = {'pyarrow.compute', 'pyarrow.dataset', 'pyarrow.parquet', 'scipy', 'matplotlib'};"
        "print(heavy & set(sys.modules) or 'light')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "ring" in done.stdout and done.stdout.splitlines()[-1] == "light"


USER_SCRIPT = """
import numpy as np
from nanet import _core, analysis
from nanet._core import wire

events = analysis.read_events("run.pcap", boards="4")
found = analysis.reconstruct_hits(np.array([0, 3]), np.array([1, 2, 3]), "math", min_hits=3)
print(found["x"].mean(), len(_core.algorithm_names()), wire.validate(b"")[0], events.num_rows)
"""


def mypy(folder: Path, root: Path, text: str) -> list[str]:
    """Errors that mypy --strict finds in a script."""
    (folder / "script.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--ignore-missing-imports",
    ]
    done = subprocess.run(
        [*command, "script.py"], cwd=folder, env={**os.environ, "MYPYPATH": str(root / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.splitlines()[:-1]


@pytest.mark.complete
def test_types_of_the_package_serve_a_users_script(root: Path, tmp_path: Path) -> None:
    assert mypy(tmp_path, root, USER_SCRIPT) == []
    wrong = USER_SCRIPT.replace("algorithm_names()", "algorithm_nmes()").replace(
        'validate(b"")', "validate(3)"
    )
    errors = "\n".join(mypy(tmp_path, root, wrong))
    assert "algorithm_nmes" in errors and "incompatible type" in errors
