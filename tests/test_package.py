# SPDX-License-Identifier: Apache-2.0
"""The package is light to import, and its dependencies are pinned and documented."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path


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
