# SPDX-License-Identifier: Apache-2.0
"""`nanet tune`: applies the kernel settings of a trigger host, and restores the former ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import attrs
import typer

from nanet.cli.options import JsonFile
from nanet.config.values import cpu_list
from nanet.errors import UsageError
from nanet.report.output import check_writable, console, write_json
from nanet.run import tuning

Pin = Annotated[
    str, typer.Option("--pin", metavar="TEXT", help="CPUs of the trigger's threads, as card.pin: 2,3 or 2-5.")
]


def pinned_cpus(text: str) -> list[int]:
    """CPUs of --pin. UsageError for a wrong list."""
    try:
        return cpu_list(text)
    except ValueError as error:
        raise UsageError(f"--pin {text}: {error}") from None


def tune(
    pin: Pin = "",
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the values from before the first call.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands and change nothing.")
    ] = False,
    state: Annotated[
        str, typer.Option("--state", metavar="FILE", help="File of the former values; default in /run.")
    ] = "",
    json_file: JsonFile = None,
) -> None:
    """Kernel settings of a trigger host: applies those that the user may; --undo restores them."""
    check_writable(json=json_file)
    out, file = console(json_file), Path(state) if state else tuning.state_file()
    if undo and dry_run:
        raise UsageError("--undo with --dry-run: give one of them")
    if undo:
        changes = tuning.undo(file)
        if not changes:
            out.print(f"Nothing to undo: {file} has no former values.", highlight=False, markup=False)
    else:
        wanted = [setting for setting in tuning.settings(pinned_cpus(pin)) if not setting.fit]
        if dry_run:
            for setting in wanted:
                out.print(setting.command, highlight=False, markup=False, soft_wrap=True)
            write_json({"commands": [setting.command for setting in wanted]}, json_file)
            return
        changes = tuning.apply(wanted, file)
        if not changes:
            out.print("Nothing to change: all settings are fit.", highlight=False, markup=False)
    for change in changes:
        now = (
            change.setting.needed
            if change.done
            else f"not changed ({change.reason}): {change.setting.command}"
        )
        text = f"{change.setting.name}: {change.setting.found} -> {now}"
        out.print(text, highlight=False, markup=False, soft_wrap=True)
    write_json(
        {"changes": [{**attrs.asdict(c.setting), "done": c.done, "reason": c.reason} for c in changes]},
        json_file,
    )
    if any(not change.done for change in changes):
        raise typer.Exit(1)
