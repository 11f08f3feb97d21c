# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/configuration.md from the schema: `./dev shell python docs/hooks/configuration.py`.

What stands around the tables is written by hand. The tests hold the page against what this would write.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
from nanet.config import sections
from nanet.config.options import flag_of, key_of, right_values, toml_value

PAGE = Path(__file__).resolve().parent.parent / "configuration.md"
HEAD = "| key | option | default | range | meaning |\n|---|---|---|---|---|\n"
PARAMETER_HEAD = "| key | default | range | meaning |\n|---|---|---|---|\n"


def section_table(section: type[Any]) -> str:
    """One row for each key of a section."""
    return HEAD + "".join(row(field) for field in attrs.fields(section))


def row(field: attrs.Attribute) -> str:
    """A key: its name in the file and on the command line, default, what it takes, what it means."""
    meta, flag = field.metadata, flag_of(field)
    kind = meta["type"]
    option = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    if kind is bool:
        takes = "true, false"
    elif meta["choices"]:
        takes = ", ".join(map(str, meta["choices"]))
    else:
        takes = "text" if kind is str else right_values(field)
    cells = (f"`{key_of(field)}`", f"`{option}`", f"`{toml_value(field.default)}`", takes, meta["help"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def parameter_table(algorithm: str) -> str:
    """One row for each parameter of an algorithm."""
    from nanet import _core

    return PARAMETER_HEAD + "".join(
        f"| `{p['name']}` | `{p['value']:g}` | {p['low']:g} to {p['high']:g} | {sentence(p['meaning'])} |\n"
        for p in _core.algorithm_parameters(algorithm)
    )


def sentence(text: str) -> str:
    """As a sentence of its own."""
    return text[:1].upper() + text[1:] + "."


def rewritten(text: str) -> str:
    """The page with its tables made anew; all else as it is."""
    for section in sections.ALL:
        before, heading, rest = text.partition(f"## [{section.name}]\n")
        if not heading:
            raise SystemExit(f"{PAGE}: has no section '## [{section.name}]': write it, with '{HEAD}' in it")
        text = before + heading + replaced(rest, HEAD, section_table(section))
    for name in sections.ALGORITHMS:
        before, heading, rest = text.partition(f"\n`{name}`:\n")
        if not heading:
            raise SystemExit(f"{PAGE}: has no line '`{name}`:' above a table of its parameters")
        text = before + heading + replaced(rest, PARAMETER_HEAD, parameter_table(name))
    return text


def replaced(text: str, head: str, table: str) -> str:
    """The first table with that head, replaced."""
    return re.sub(re.escape(head) + r"(\|.*\n)*", lambda _: table, text, count=1)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
