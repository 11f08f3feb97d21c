# SPDX-License-Identifier: Apache-2.0
"""Configuration reference of the site, from the schema (docs/hooks/reference.py adds it)."""

from __future__ import annotations

from typing import Any

import attrs
from nanet.config import sections
from nanet.config.options import flag_of, key_of, off_flag_of, right_values, toml_value

HEAD = "| key | option | default | range | meaning |\n|---|---|---|---|---|\n"
PARAMETER_HEAD = "| key | default | range | meaning |\n|---|---|---|---|\n"


def section_table(section: type[Any]) -> str:
    """One row for each key of a section."""
    return HEAD + "".join(row(field) for field in attrs.fields(section))


def row(field: attrs.Attribute) -> str:
    """A key: its name in the file and on the command line, default, what it takes, what it means."""
    meta, flag = field.metadata, flag_of(field)
    kind = meta["type"]
    option = f"{flag}/{off_flag_of(field)}" if kind is bool else flag
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
    """A sentence: capital letter, full stop."""
    return text[:1].upper() + text[1:] + "."


def page() -> str:
    """Reference of all keys and algorithm parameters, in Markdown."""
    parts = ["# Configuration: every key\n\nLists: TOML lists, or strings with commas.\n"]
    parts += [f"## [{section.name}]\n\n{section_table(section)}" for section in sections.ALL]
    parts += [f"## [algorithm.{name}]\n\n{parameter_table(name)}" for name in sections.ALGORITHMS]
    return "\n".join(parts)
