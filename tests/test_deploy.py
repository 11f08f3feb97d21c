# SPDX-License-Identifier: Apache-2.0
"""Files in deploy/ are consistent: the configuration loads; paths and options exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nanet.config.values import cpu_list


@pytest.fixture
def unit(root: Path) -> dict[str, list[str]]:
    """Keys of the unit with their values."""
    found: dict[str, list[str]] = {}
    for line in (root / "deploy" / "nanet-trigger.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_site_is_a_configuration(nanet: Callable[..., Any], root: Path) -> None:
    site = root / "deploy" / "site.toml"
    shown = tomllib.loads(nanet("trigger", "--config", site, "--print-config").stdout)
    for section in ("trigger", "card"):
        for key, value in tomllib.loads(site.read_text())[section].items():
            value = ",".join(value) if isinstance(value, list) else value
            assert str(shown[section][key]) == str(value)
    # keys in comments exist, too
    for key in re.findall(r"^# (\w+) = ", site.read_text(), re.M):
        assert key in shown["trigger"] or key in shown["card"]


def test_the_unit_fits_the_site(nanet: Callable[..., Any], root: Path, unit: dict[str, list[str]]) -> None:
    site = tomllib.loads((root / "deploy" / "site.toml").read_text())
    pinned = cpu_list(site["card"]["pin"])
    assert len(pinned) == site["trigger"]["threads"] + 1
    assert set(pinned) < {int(cpu) for cpu in unit["CPUAffinity"][0].split()}
    command = unit["ExecStart"][0].split()
    assert command[1] == "trigger"
    first = unit["ExecStartPre"][0].split()
    assert first[-1] == "--check" and first[:-1] == command[: len(first) - 1]
    said = nanet("trigger", "--help").stdout
    assert all(option in said for option in command if option.startswith("--"))
    state = f"/var/lib/{unit['StateDirectory'][0]}/"
    for path in (command[command.index("--json") + 1], site["card"]["keep_bad"]):
        assert path.startswith(state), "the unit may write nowhere else"
    guide = (root / "docs" / "deploying.md").read_text()
    assert command[0].rsplit("/", 2)[0] in guide
    assert command[command.index("--config") + 1] in guide


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(root: Path, tmp_path: Path) -> None:
    text = (root / "deploy" / "nanet-trigger.service").read_text()
    # an existing program, and no special user
    text = text.replace("/opt/nanet/bin/nanet", "/bin/true").replace("User=nanet\nGroup=nanet\n", "")
    place = tmp_path / "nanet-trigger.service"
    place.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(place)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "nanet-trigger" in line]
    assert not complaints


def test_the_container_copies_what_there_is(root: Path) -> None:
    text = (root / "deploy" / "Containerfile").read_text()
    presets = (root / "CMakeLists.txt").read_text() + (root / "docs" / "building.md").read_text()
    for option in re.findall(r"cmake\.define\.(\w+)=", text):
        assert option in presets
    ignored = (root / ".containerignore").read_text().split()
    assert not {"src", "python", "pyproject.toml", "cmake", "CMakeLists.txt", "README.md", "LICENSE"} & set(
        ignored
    )
    assert re.search(r'ENTRYPOINT \["nanet"\]', text)
