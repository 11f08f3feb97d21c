# SPDX-License-Identifier: Apache-2.0
"""Program output: strict JSON for machines, a console for people, and the identities of the account."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from nanet.errors import UsageError, describe_os_error
from nanet.report import log

if TYPE_CHECKING:
    from rich.console import Console


def plain(value: Any) -> Any:
    """`value` for strict JSON: numpy values as numbers and lists, NaN and infinities as null."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):  # numpy, without an import
        return plain(value.tolist())
    if isinstance(value, Sequence | set | frozenset):
        return [plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def write_json(result: Mapping[str, Any], target: str | None) -> None:
    """Writes a result to a file, to standard output ("-"), or nowhere (None); and to the log."""
    if log.is_open():
        log.line("info", "result", result=plain(result))
    if target is None:
        return
    text = json.dumps(plain(result), indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--json {describe_os_error(error, target)}") from None


def check_writable(**targets: str | None) -> None:
    """UsageError for files that could not be written at the end of a long run.

    targets: option name (underscores for dashes) -> file, None or "-". Existing files are unchanged; new
    ones are removed again, so a run that is refused later leaves no empty files.
    """
    for name, target in targets.items():
        if not target or target == "-":
            continue
        new = not os.path.lexists(target)
        try:
            with open(target, "ab"):
                pass
            if new:
                os.unlink(target)
        except OSError as error:
            flag = "--" + name.strip("_").replace("_", "-")
            text = f"{flag} {describe_os_error(error)}; give a file that can be written"
            raise UsageError(text) from None


def check_folder(option: str, folder: str) -> None:
    """UsageError for a folder in which no file could be made; an empty name is none."""
    if not folder:
        return
    there = os.path.abspath(folder)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(f"{option} {folder}: {there}: {reason}; give a folder that can be written") from None


def check_distinct(**files: str | None) -> None:
    """UsageError if two options name the same file, which one of them would overwrite.

    files: option name (underscores for dashes), or `input` for an argument -> file, None, "" or "-".
    """
    seen: dict[str, str] = {}
    for name, file in files.items():
        if not file or file == "-" or (os.path.exists(file) and not os.path.isfile(file)):
            continue
        real = os.path.realpath(file)
        flag = "the input" if name == "input" else "--" + name.strip("_").replace("_", "-")
        if real in seen:
            raise UsageError(f"{flag} {file}: is the file of {seen[real]} too; give another")
        seen[real] = flag


def console(json_target: str | None = None) -> Console:
    """Console on standard output, or on standard error if standard output carries the JSON.

    Its sentences also go to the log.
    """
    from rich.console import Console
    from rich.text import Text

    class Logged(Console):
        """A console whose sentences also go to the log."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*objects, **options)
            if log.is_open():
                plain = options.get("markup") is False
                for text in (part for part in objects if isinstance(part, str) and part.strip()):
                    said = text if plain else Text.from_markup(text).plain
                    log.line("info", "message", message=said.strip())

    # FORCE_COLOR, set in notebooks and by CI systems, and a notebook's pseudo-terminal give colours only: the
    # cursor movements of progress would stand in the text.
    shown = (sys.stderr if json_target == "-" else sys.stdout).isatty()
    moves = shown and "JPY_PARENT_PID" not in os.environ
    coloured: Literal["auto", "standard"] | None = "auto"
    if not moves:
        coloured = "standard" if shown or os.environ.get("FORCE_COLOR") else None
    out = Logged(
        stderr=json_target == "-",
        highlight=False,
        quiet=log.quiet,
        force_terminal=moves,
        color_system=coloured,
    )
    if not out.is_terminal:
        out.width = 100
    return out


@contextlib.contextmanager
def working(out: Console, text: str, *, plain: bool = True) -> Iterator[None]:
    """Shows `text` during the body: on a terminal with the elapsed time, erased at the end; else once.

    plain: whether the line is printed without a terminal, too.
    """
    if not out.is_terminal:
        if plain:
            out.print(text)
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as line:
        line.add_task(text)
        yield


# Account at the end of docs/formats.md: total = sum of terms; "name.*" stands for all values of an object.
IDENTITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "packets_in",
        (
            "packets_used",
            "burst_markers",
            "bad_packets.*",
            "lost.duplicate",
            "lost.late",
            "lost.replayed_sequence",
            "lost.overrun",
            "lost.segment_overflow",
            "lost.unconfirmed_jump",
            "lost.other_node",
        ),
    ),
    ("frames_in", ("frames_out",)),
    ("frames_out", ("frames_answered", "frames_late")),
    (
        "events_built",
        ("primitives_out", "below_min_hits", "downscaled.*", "mtp_overflow", "in_late_frames"),
    ),
)


# Packets that the kernel drops are among `missing`, too. One count may stand for a train of packets.
DROPPED = ("socket_overflow", "ring_overflow")


def lost_by_cause(lost: Mapping[str, int]) -> dict[str, int]:
    """Packets of a result's `lost` by cause, each packet once: drops of the kernel are `missing`.

    No later sequence number shows the packets missing at the end of a run; then the drops may be more.
    """
    causes = {name: int(n) for name, n in lost.items() if name not in DROPPED}
    dropped = sum(int(lost.get(name, 0)) for name in DROPPED)
    return causes | {"missing": max(causes.get("missing", 0), dropped)}


def packets_lost(lost: Mapping[str, int]) -> int:
    """Packets of a result's `lost`, each once."""
    return sum(lost_by_cause(lost).values())


def term(result: Mapping[str, Any], name: str) -> int:
    """Value of a term of the account: a key, `object.key`, or `object.*` for the sum of an object."""
    head, _, tail = name.partition(".")
    value = result.get(head, {} if tail else 0)
    if not tail:
        return int(value)
    if tail == "*":
        return sum(int(part) for part in value.values())
    return int(value.get(tail, 0))


def account(result: Mapping[str, Any]) -> list[tuple[str, int, list[tuple[str, int]], bool]]:
    """Identities with numbers: (name of the total, total, [(name of the term, value)], agreement)."""
    rows = []
    for total, names in IDENTITIES:
        terms = [(name, term(result, name)) for name in names]
        value = term(result, total)
        rows.append((total, value, terms, value == sum(number for _, number in terms)))
    return rows


def account_closes(result: Mapping[str, Any]) -> bool:
    """Whether every identity holds, calculated here and reported by the program."""
    return all(agrees for *_, agrees in account(result)) and bool(result.get("account_closes", True))
