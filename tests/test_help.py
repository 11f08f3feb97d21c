# SPDX-License-Identifier: Apache-2.0
"""Help and completion: every command has valid examples, and the shell completes options and values."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap

import pytest
from nanet.cli.app import COMMANDS, command_function
from nanet.cli.examples import EXAMPLES, WIDTH, lines_of

# Prints the help of the given commands, separated by form feeds.
ALL = """
import contextlib, sys
from nanet.cli import main
for at, name in enumerate(sys.argv[1:]):
    print(end="\\f" if at else "")
    with contextlib.suppress(SystemExit):
        main([name, "--help"])
"""


def helps_at(columns: int) -> dict[str, str]:
    """Help of every command, from one process."""
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALL, *COMMANDS], env=environment, capture_output=True, text=True, check=True
    )
    return dict(zip(COMMANDS, done.stdout.split("\f"), strict=True))


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """Help of every command on a wide terminal."""
    return helps_at(200)


def test_nothing_is_cut_at_80_columns() -> None:
    for name, said in helps_at(80).items():
        for line in said.splitlines():
            assert len(line) <= 80 and "… │" not in line, (name, line)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_of_each_command_hold(helps: dict[str, str], name: str) -> None:
    said = helps[name]
    assert "Examples:" in said
    for command, what in EXAMPLES[name]:
        lines = [f"# {what}", *lines_of(command)]
        assert "\n".join(f" {line}" for line in lines) in re.sub(r" +\n", "\n", said)
        assert all(len(line) <= WIDTH + 2 for line in lines[1:])
        assert shlex.split("\n".join(lines[1:]).replace("\\\n", "")) == shlex.split(command)
        words = shlex.split(command)
        if words[:2] != ["nanet", name]:
            assert f"nanet {name}" in command
            continue
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"(^|[\s/│]){option}\b", said), f"{name} has no {option}"


def test_paragraphs_fill_a_narrow_terminal() -> None:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALL, *COMMANDS], env=environment, capture_output=True, text=True, check=True
    )
    for name, said in zip(COMMANDS, done.stdout.split("\f"), strict=True):
        shown = [line.strip() for line in said.splitlines()]
        for paragraph in (inspect.getdoc(command_function(name)) or "").split("\n\n"):
            words = re.sub(r"\s+", " ", paragraph)
            assert set(textwrap.wrap(words, 78, break_on_hyphens=False)) <= set(shown), name


def test_every_option_is_explained(helps: dict[str, str]) -> None:
    for said in helps.values():
        rows = re.findall(r"^│ [* ]? *(--[\w-]+).*│$", said, re.M)
        assert "--help" in rows
        for row in re.findall(r"^│ [* ]? *--[\w-]+.*│$", said, re.M):
            assert len(re.sub(r"[│*]|--[\w/-]+|-\w\b|<\w+>|\b[A-Z]+\b", "", row).split()) >= 2, row


def test_flags_take_no_value_and_options_stand_in_panels(helps: dict[str, str]) -> None:
    assert "bool" not in "".join(helps.values()).lower()
    for section in ("trigger", "card", "realtime", "monitor"):
        assert f"─ Options of {section} ─" in helps["trigger"]


def complete(program: str, line: str) -> set[str]:
    """Completions that bash offers at the end of a line."""
    words = line.split(" ")
    environment = {"_NANET_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.stderr
    return set(done.stdout.split())


def test_completion_of_commands_options_and_values(nanet_program: str) -> None:
    assert complete(nanet_program, "nanet ") >= set(COMMANDS)
    assert complete(nanet_program, "nanet re") == {"readout", "replay"}
    assert complete(nanet_program, "nanet trigger --li") == {"--listen"}
    assert {"--truth", "--rings"} <= complete(nanet_program, "nanet evaluate --")
    assert complete(nanet_program, "nanet readout --slots ") == {"packed", "fixed"}
    assert complete(nanet_program, "nanet replay --algorithm mu") == {"multiring"}
    assert complete(nanet_program, "nanet show --algorithm d") == {"domh"}


def test_what_a_shell_sources(nanet_program: str) -> None:
    environment = {**os.environ, "_NANET_COMPLETE": "source_bash"}
    done = subprocess.run(
        [nanet_program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "_NANET_COMPLETE=complete_bash" in done.stdout
    assert "complete -o default -F" in done.stdout
