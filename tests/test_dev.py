# SPDX-License-Identifier: Apache-2.0
"""`./dev`: selection of gateware tests by name, and the shell of the environment."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest


def chosen(root: Path, *words: str) -> tuple[list[str], bool]:
    """Arguments of pytest for `./dev test-gateware WORDS`, and whether they select tests."""
    script = (
        'die() { echo "$*"; exit 3; }; root=$1; shift; source "$root/tools/dev/checks.sh"; '
        'gateware_arguments "$@"; printf "%s\\n" "${arguments[@]}" "$chosen"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(root), *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    *arguments, flag = done.stdout.splitlines()
    return ([*arguments, flag], False) if done.returncode else (arguments, flag == "yes")


def test_gateware_tests_by_name(root: Path) -> None:
    gateware = str(root / "gateware")
    assert chosen(root) == ([gateware], False)
    assert chosen(root, "-q") == (["-q", gateware], False)
    assert chosen(root, "-k", "fifo") == (["-k", "fifo", gateware], True)
    assert chosen(root, "-n", "2", "gateware/tb/rx") == (["-n", "2", "gateware/tb/rx"], True)
    proof = f"{gateware}/formal/test_formal.py::test_proof[fifo]"
    assert chosen(root, "fifo") == ([f"{gateware}/tb/common/fifo", proof], True)
    assert chosen(root, "mgp_check", "-s") == ([f"{gateware}/tb/rx/mgp_check", "-s"], True)
    (said,), _ = chosen(root, "mgp")
    assert said == "test-gateware: no bench, proof or file 'mgp'; there are mgp_check"


def test_commands_of_the_help_exist(root: Path) -> None:
    script = (root / "dev").read_text(encoding="utf-8")
    listed = subprocess.run([root / "dev", "help"], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^  ([a-z][a-z-]+) ", listed, re.M)
    functions = re.findall(r"^cmd_(\w+)\(\)", script, re.M)
    assert sorted(names) == sorted(name.replace("_", "-") for name in functions)
    other = subprocess.run([root / "dev", "wheel"], check=False, capture_output=True, text=True)
    assert (other.returncode, other.stderr.splitlines()[-1]) == (2, "dev: no command 'wheel'")
    # a command that begins, and refuses its argument
    refused = subprocess.run([root / "dev", "test", "-x"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, "dev: test: takes --all or nothing, not '-x'\n")


def test_the_shell_stays_here_and_marks_its_prompt(root: Path, tmp_path: Path) -> None:
    if not (root / ".venv" / ".place").exists():
        pytest.skip("the environment is not that of ./dev")
    dev = str(root / "dev")
    before = sorted(path.name for path in (root / ".venv").iterdir())
    done = subprocess.run(
        [dev, "shell", "sh", "-c", "pwd; command -v nanet"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [str(tmp_path), str(root / ".venv" / "bin" / "nanet")]
    main, side = pty.openpty()
    environment = {**os.environ, "SHELL": "/bin/bash", "HOME": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(
        [dev, "shell"], cwd=tmp_path, stdin=side, stdout=side, stderr=side, env=environment
    )
    os.close(side)
    os.write(main, b"exit\n")
    said = b""
    with contextlib.suppress(OSError):  # the terminal's end of the pipe
        while part := os.read(main, 4096):
            said += part
    os.close(main)
    assert process.wait(30) == 0 and b"(nanet) " in said
    assert sorted(path.name for path in (root / ".venv").iterdir()) == before


def test_a_step_shows_the_progress_of_its_build(root: Path, tmp_path: Path) -> None:
    """On a terminal: ninja's newest count in place, then the finished step; else the latter only."""
    script = (
        'root=$1; source "$root/dev" help >/dev/null; state=$2; '
        "step compiling log sh -c 'echo \"[3/10] Building\"; until [ -e go ]; do sleep 0.1; done'"
    )
    command = ["bash", "-c", script, "bash", str(root), str(tmp_path)]
    main, side = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        said = b""
        with contextlib.suppress(OSError):  # the terminal's end of the pipe
            while part := os.read(main, 4096):
                said += part
                if "compiling … [3/10] ".encode() in said:
                    (tmp_path / "go").touch()
    os.close(main)
    assert process.returncode == 0
    *counts, last = said.decode().split("\r\033[K")
    assert "\r· compiling … [3/10] " in counts[0]
    assert re.fullmatch(r"· compiling … done \(\d+ s\)\r\n", last)
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"· compiling … done \(\d+ s\)\n", done.stderr) and not done.stdout
