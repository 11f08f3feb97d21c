# SPDX-License-Identifier: Apache-2.0
"""Version of the package from the tags of Git; metadata provider of scikit-build-core, and a script.

At tag v0.2.0: 0.2.0. Five commits later: 0.2.1.dev5+gHASH. Without a tag, or outside Git: the version of an
sdist (PKG-INFO), else RELEASE of python/nanet/__init__.py. CMakeLists.txt follows the same rule.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)-(g[0-9a-f]+)")


def from_git(root: Path) -> str:
    """Version by the nearest tag; empty without one."""
    if not (root / ".git").exists():  # of another repository around an sdist
        return ""
    command = ["git", "-C", str(root), "describe", "--tags", "--long", "--match", "v[0-9]*.[0-9]*.[0-9]*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # git is not installed
        return ""
    found = DESCRIBED.fullmatch(done.stdout.strip())
    if not found:
        return ""
    major, minor, patch, commits, commit = found.groups()
    if commits == "0":
        return f"{major}.{minor}.{patch}"
    return f"{major}.{minor}.{int(patch) + 1}.dev{commits}+{commit}"


def from_file(path: Path, pattern: str) -> str:
    """First group of a pattern in a file; empty if there is none."""
    try:
        found = re.search(pattern, path.read_text(encoding="utf-8"), re.M)
    except OSError:
        return ""
    return found.group(1) if found else ""


def version(root: Path = ROOT) -> str:
    """Version of a source tree or an sdist."""
    return (
        from_git(root)
        or from_file(root / "PKG-INFO", r"^Version: (.+)$")
        or from_file(root / "python" / "nanet" / "__init__.py", r'^RELEASE = "(.+)"')
    )


def dynamic_metadata(field: str, settings: Mapping[str, Any] | None = None, *_: Any) -> str:
    """The field `version` for scikit-build-core."""
    if field != "version" or settings:
        raise RuntimeError(f"nanet_version provides the version, without settings, not {field}")
    return version()


if __name__ == "__main__":
    print(version())
