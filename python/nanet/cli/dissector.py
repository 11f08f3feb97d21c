# SPDX-License-Identifier: Apache-2.0
"""`nanet dissector`: location and installation of the Wireshark dissectors for MGP and MTP."""

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
    """Wireshark's folder for the user's Lua plugins: from tshark, else the default on Unix."""
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
        bool, typer.Option("--install", help="Copy it to the plugin folder of Wireshark and tshark.")
    ] = False,
    folder: Annotated[
        str | None,
        typer.Option("--to", metavar="DIR", help="Folder for --install, instead of Wireshark's."),
    ] = None,
) -> None:
    """Wireshark dissectors for MGP and MTP: prints the path of the file, or installs it.

    They decode every field of both formats, and add expert information for each kind of malformed packet,
    with the names of docs/formats.md: `mgp.refusal == "bad_board"`, `mgp.hit.pm == 17`.
    """
    if folder is not None and not install:
        raise UsageError("--to is the folder of --install: give --install too")
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
