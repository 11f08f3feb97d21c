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
    """A table of the TOML file: subclasses are attrs classes whose fields are made by option()."""

    name: ClassVar[str] = ""  # of the table


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _words(value: Any) -> Any:
    """A list, or one number, as the comma-separated string that the command line takes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple) and all(
        isinstance(part, int | str) and not isinstance(part, bool) for part in value
    ):
        return ",".join(str(part) for part in value)
    return value


def right_values(field: attrs.Attribute) -> str:
    """What a field takes, in words: for error messages and the documentation."""
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


def _origin(instance: Section, field: attrs.Attribute, value: Any) -> str:
    shown = json.dumps(value) if isinstance(value, str | bool | int | float | list) else repr(value)
    return f"{instance.name}.{field.metadata['key'] or field.name} = {shown}"


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
    """The type in words, and the range where there is one."""
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
    flag: str = "",
    key: str = "",
    words: bool = False,
) -> Any:
    """A field of a section. Its type is its default's.

    help: one sentence. low, high: inclusive range. offer: what the shell completes to where others are right
    too. unit: of the value. check: returns what is wrong as a clause, or None. flag: name on the command line
    (no dashes), where it is not the field's. key: name in the TOML file, where it is not the field's.
    words: a string that may also be given as a list.
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
            "flag": flag, "key": key, "type": kind, "words": words,
        },
    )  # fmt: skip


def key_of(field: attrs.Attribute) -> str:
    """A field's name in the TOML file."""
    return field.metadata["key"] or field.name


def flag_of(field: attrs.Attribute) -> str:
    """A field's name on the command line, with its dashes."""
    return "--" + (field.metadata["flag"] or field.name.replace("_", "-"))


def toml_value(value: bool | int | float | str) -> str:
    """A scalar as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a basic string of TOML and a string of JSON escape alike
