# SPDX-License-Identifier: Apache-2.0
"""`nanet dissector`: where the Wireshark dissectors for MGP and MTP are, and their installation."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from nanet.errors import UsageError, describe_os_error

SOURCE = Path(__file__).resolve().parent.parent / "wireshark" / "nanet.lua"


def plugin_folder() -> Path:
    """Wireshark's folder for a user's Lua plugins: as tshark says, else where Wireshark looks on Unix."""
    tshark = shutil.which("tshark")
    if tshark:
        try:
            said = subprocess.run([tshark, "-G", "folders"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            said = None
        for line in said.stdout.splitlines() if said else ():
            name, _, folder = line.partition(":")
            if name == "Personal Lua Plugins" and folder.strip():
                return Path(folder.strip())
    return Path(os.path.expanduser("~")) / ".local" / "lib" / "wireshark" / "plugins"


def dissector(
    install: Annotated[
        bool, typer.Option("--install", help="Copy it to where Wireshark and tshark look for plugins.")
    ] = False,
    folder: Annotated[
        str | None,
        typer.Option("--to", metavar="DIR", help="Another folder to copy it to (with --install)."),
    ] = None,
) -> None:
    """Wireshark dissectors for MGP and MTP: prints where the file is, or installs it.

    Every field of both formats, and expert information for each way in which a packet can be malformed,
    by the names of the formats page: `mgp.refusal == "bad_board"`, `mgp.hit.pm == 17`.
    """
    if folder is not None and not install:
        raise UsageError("--to says where --install copies to: give --install too")
    if not install:
        typer.echo(SOURCE)
        return
    target = Path(folder) if folder is not None else plugin_folder()
    try:
        target.mkdir(parents=True, exist_ok=True)
        placed = Path(shutil.copyfile(SOURCE, target / SOURCE.name))
    except OSError as error:
        raise UsageError(f"--install {describe_os_error(error)}; give another folder with --to") from None
    typer.echo(placed)
