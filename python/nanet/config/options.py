# SPDX-License-Identifier: Apache-2.0
"""Declaration of options: an attrs field with default, range, unit, help text, TOML key and flag."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import attrs

from nanet.errors import UsageError

_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


class Section:
    """A table of the TOML file: subclasses are attrs classes with fields made by option()."""

    name: ClassVar[str] = ""  # of the TOML table


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _words(value: Any) -> Any:
    """A list, or one number, as comma-separated string, the form of the command line."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple) and all(
        isinstance(part, int | str) and not isinstance(part, bool) for part in value
    ):
        return ",".join(str(part) for part in value)
    return value


def right_values(field: attrs.Attribute) -> str:
    """Valid values of a field in words, for error messages and documentation."""
    meta = field.metadata
    unit = f" {meta['unit']}" if meta["unit"] else ""
    if meta["choices"]:
        return "one of " + ", ".join(str(choice) for choice in meta["choices"])
    low, high = meta["low"], meta["high"]
    if low is not None and high is not None:
        text = f"{low:g} to {high:g}" if meta["type"] is float else f"{low} to {high}"
        return f"{text}{unit}"
    if low is not None:
        return f"at least {low:g}{unit}" if meta["type"] is float else f"at least {low}{unit}"
    return _TYPE_NAMES[meta["type"]]


def flag_words(field: attrs.Attribute) -> str:
    """The flag of a field in parentheses, if it is not named like the key; else empty."""
    flag = flag_of(field)
    return "" if flag == "--" + key_of(field).replace("_", "-") else f" ({flag})"


def named(section: type[Section], name: str) -> str:
    """Key of a field for a message, with its flag if that has another name: final.boards (--final-boards)."""
    field = getattr(attrs.fields(section), name)
    return f"{section.name}.{key_of(field)}{flag_words(field)}"


def _origin(instance: Section, field: attrs.Attribute, value: Any) -> str:
    shown = json.dumps(value) if isinstance(value, str | bool | int | float | list) else repr(value)
    return f"{named(type(instance), field.name)} = {shown}"


def _validate(instance: Section, field: attrs.Attribute, value: Any) -> None:
    meta = field.metadata
    expected = meta["type"]
    if type(value) is not expected:
        raise UsageError(f"{_origin(instance, field, value)}: must be {_typed(field)}")
    if meta["choices"] and value not in meta["choices"]:
        raise UsageError(f"{_origin(instance, field, value)}: must be {right_values(field)}")
    low, high = meta["low"], meta["high"]
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise UsageError(f"{_origin(instance, field, value)}: must be {right_values(field)}")
    if meta["check"]:
        wrong = meta["check"](value)
        if wrong:
            raise UsageError(f"{_origin(instance, field, value)}: {wrong}")


def _typed(field: attrs.Attribute) -> str:
    """Type in words, with the range if there is one."""
    kind, right = _TYPE_NAMES[field.metadata["type"]], right_values(field)
    return kind if kind == right else f"{kind}, {right}"


def option(
    default: bool | int | float | str,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Iterable[str] = (),
    offer: Iterable[str] = (),
    unit: str = "",
    check: Callable[[Any], str | None] | None = None,
    off: str = "",
    key: str = "",
    words: bool = False,
    repeat: str = "",
    live: bool = False,
    core: str | None = "",
    to_core: Callable[[Any], Any] | None = None,
) -> Any:
    """Declares an option: an attrs field of a section, of the type of its default.

    help: one sentence. low, high: inclusive range. unit: of the value.
    choices: all valid values. offer: shell completions, where other values are valid too.
    check: returns the error as a clause, or None. words: a string that may also be a list in TOML.
    key: TOML key, default the field's name. off: flag that sets a bool to false, default no-FLAG.
    repeat: the flag may be repeated; separator of the values.
    live: without meaning in a replay. core: key for the C++ core, default the field's name; None: not
    passed to the core. to_core: conversion to the core's value.
    """
    kind = type(default)
    converter = _number if kind is float else _words if words else None
    return attrs.field(
        default=default,
        converter=converter,
        validator=_validate,
        metadata={
            "help": help, "low": low, "high": high, "choices": tuple(choices),
            "offer": tuple(offer) or tuple(choices), "unit": unit, "check": check,
            "off": off, "key": key, "type": kind, "words": words, "repeat": repeat, "live": live,
            "core": core, "to_core": to_core,
        },
    )  # fmt: skip


def key_of(field: attrs.Attribute) -> str:
    """Key of a field in the TOML file."""
    return field.metadata["key"] or field.name


def flag_of(field: attrs.Attribute) -> str:
    """Flag of a field on the command line, with its dashes."""
    return "--" + field.name.replace("_", "-")


def off_flag_of(field: attrs.Attribute) -> str:
    """Flag that sets a bool to false, with its dashes."""
    return "--" + (field.metadata["off"] or f"no-{field.name.replace('_', '-')}")


def live_only(*sections: type[Section]) -> tuple[str, ...]:
    """Names of the fields without meaning in a replay: they need a network or a clock."""
    return tuple(f.name for section in sections for f in attrs.fields(section) if f.metadata["live"])


def core_values(section: Section) -> dict[str, Any]:
    """Values of a section for the C++ core: its key -> converted value."""
    out = {}
    for field in attrs.fields(type(section)):
        meta, value = field.metadata, getattr(section, field.name)
        if meta["core"] is not None:
            out[meta["core"] or field.name] = meta["to_core"](value) if meta["to_core"] else value
    return out


def toml_value(value: bool | int | float | str) -> str:
    """A scalar as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # strings of TOML (basic) and of JSON have the same escapes
