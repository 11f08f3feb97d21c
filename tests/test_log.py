# SPDX-License-Identifier: Apache-2.0
"""Options of the command line before the command: log as lines of JSON, amount of output, help."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest


def lines(path: Path) -> list[dict[str, Any]]:
    """Lines of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_has_messages_results_and_errors(nanet, tmp_path: Path) -> None:
    shown = nanet("--log", "log", "generate", "--events", 200, "--out", "run.pcap").stdout
    found = lines(tmp_path / "log")
    assert [line["event"] for line in found] == ["start", "configuration", "message", "result", "end"]
    assert found[2]["message"] == shown.strip()
    assert found[3]["result"]["events"] == 200 and found[4]["status"] == 0
    assert "events = 200" in found[1]["toml"] and found[1]["level"] == "debug"
    assert all(line["time"].endswith("+00:00") for line in found)
    said = nanet("--log", "log", "replay", "none.pcap", status=2).stderr
    error, end = lines(tmp_path / "log")[-2:]
    assert error["level"] == "error" and said == f"nanet: {error['message']}\n"
    assert end["event"] == "end" and end["status"] == 2
    assert "--log none/log" in nanet("--log", "none/log", "doctor", status=2).stderr


def test_the_log_names_what_is_worth_a_look(nanet, tmp_path: Path) -> None:
    nanet("generate", "--events", 200, "--out", "run.pcap")
    shown = nanet("--log", "log", "replay", "run.pcap", "--boards", "0,1", "--device", "cpu").stdout
    assert "worth a look\n" in shown
    said = [line["message"] for line in lines(tmp_path / "log") if line["event"] == "message"]
    (named,) = [message for message in said if message.startswith("worth a look")]
    refused = lines(tmp_path / "log")[-2]["result"]["bad_packets"]["bad_board"]
    assert named == f"worth a look: bad packet: bad board {refused}" and refused > 0


def test_quiet_and_verbose(nanet) -> None:
    generate = ("generate", "--events", 200, "--out", "run.pcap")
    done = nanet("-q", *generate)
    assert done.stdout == done.stderr == ""
    assert "[generate]\nevents = 200\n" in nanet("-v", *generate).stderr
    assert json.loads(nanet("--quiet", *generate, "--json", "-").stdout)["events"] == 200
    assert "exclude each other" in nanet("-q", "-v", *generate, status=2).stderr


def test_help_as_a_command(nanet) -> None:
    assert nanet("help", "replay").stdout == nanet("replay", "--help").stdout
    assert "Usage: nanet [OPTIONS] COMMAND" in nanet("help").stdout
    assert "relpay" in nanet("help", "relpay", status=2).stderr


def on_terminal(command: list[str], folder: Path, more: dict[str, str]) -> str:
    """Output of a command on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **more}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # Linux: the other end is closed
            pass
    os.close(ours)
    return text.decode()


@pytest.mark.parametrize(
    ("terminal", "more", "moves"),
    [
        (True, {}, True),
        (True, {"JPY_PARENT_PID": "1"}, False),
        (False, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_progress_moves_the_cursor_on_terminals_only(
    nanet_program: str, tmp_path: Path, terminal: bool, more: dict[str, str], moves: bool
) -> None:
    command = [nanet_program, "generate", "--events", "200", "--out", "run.pcap"]
    if terminal:
        said = on_terminal(command, tmp_path, more)
    else:
        said = subprocess.run(
            command,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], **more},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert "200 events" in said
    assert ("\x1b[2K" in said) == moves and ("\x1b[?25l" in said) == moves
