# SPDX-License-Identifier: Apache-2.0
"""One TOML file for all of nanet: reads it, checks it, merges the command line into it, prints it.

What there is to set stands once, in sections.py, as attrs classes made of option(); command line, checks,
the printed TOML and the tests derive from them. A command takes its sections as options so:

    @options(sections.Readout)
    def readout(config: Config, json: JsonFile = None) -> None: ...

where `config` holds what the file and the command line say together.
"""

from __future__ import annotations

import functools
import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import attrs
import typer

from nanet.errors import UsageError, describe_os_error, near

S = TypeVar("S", bound="Section")
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


@attrs.define
class Config:
    """What the file says, with what the command line says on top of it."""

    path: str | None = None
    tables: dict[str, dict[str, Any]] = attrs.field(factory=dict)  # of the file, by section
    overrides: dict[type[Section], dict[str, Any]] = attrs.field(factory=dict)  # of the command line
    algorithms: dict[str, dict[str, float]] = attrs.field(factory=dict)  # [algorithm.NAME]

    def __getitem__(self, section: type[S]) -> S:
        """The section's values; UsageError names the key, the value and what would be right."""
        values = {}
        names = {key_of(field): field.name for field in attrs.fields(section)}
        for key, value in self.tables.get(section.name, {}).items():
            if key not in names:
                hint = _elsewhere(section, key) or near(key, names)
                raise UsageError(f"{self._where()}{section.name}.{key} = {value!r}: no such key{hint}")
            values[names[key]] = value
        try:
            from_file = section(**values)
        except UsageError as error:
            raise UsageError(f"{self._where()}{error}") from None
        given = self.overrides.get(section, {})
        try:
            return attrs.evolve(from_file, **given) if given else from_file
        except UsageError as error:
            raise UsageError(f"command line: {error}") from None

    def set(self, section: type[Section], **values: Any) -> None:
        """Sets values on top of the file, as if given on the command line."""
        self.overrides.setdefault(section, {}).update(values)

    def _where(self) -> str:
        return f"{self.path}: " if self.path else ""

    def toml(self, *wanted: type[Section]) -> str:
        """The sections as TOML, every key with its value in effect."""
        parts = []
        for section in wanted:
            values = self[section]
            lines = [f"[{section.name}]"]
            for field in attrs.fields(section):
                lines.append(f"{key_of(field)} = {toml_value(getattr(values, field.name))}")
            parts.append("\n".join(lines))
        for name, parameters in self.algorithms.items():
            parts.append("\n".join([f"[algorithm.{name}]", *(f"{k} = {v!r}" for k, v in parameters.items())]))
        return "\n\n".join(parts) + "\n"


def _elsewhere(section: type[Section], key: str) -> str:
    """Where a key belongs that stands in the wrong section."""
    from nanet import sections

    homes = [other.name for other in sections.ALL if key in map(key_of, attrs.fields(other))]
    return f" here, it belongs in [{homes[0]}]" if homes and section.name not in homes else ""


def toml_value(value: bool | int | float | str) -> str:
    """A scalar as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a basic string of TOML and a string of JSON escape alike


def load(path: str | None) -> Config:
    """Reads a TOML file and checks all of it, whichever command asks; None: the defaults.

    UsageError where the file cannot be read, is no TOML, or has an unknown section or key, a wrong type
    or a value out of range.
    """
    if path is None:
        return Config()
    from nanet import sections

    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {describe_os_error(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: is not TOML: {error}") from None
    known = {section.name: section for section in sections.ALL}
    config = Config(path)
    for name, table in tables.items():
        if name == "algorithm":
            config.algorithms = _algorithms(path, table)
            continue
        if name not in known:
            raise UsageError(f"{path}: [{name}]: no such section{near(name, [*known, 'algorithm'])}")
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} = {table!r}: must be a section, [{name}]")
        config.tables[name] = table
    for section in known.values():
        config[section]
    return config


def _algorithms(path: str, table: Any) -> dict[str, dict[str, float]]:
    """[algorithm.NAME] tables: numbers by name. Whether NAME has such a parameter is for it to say."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}: algorithm = {table!r}: must be sections, [algorithm.NAME]")
    for name, parameters in table.items():
        if not isinstance(parameters, dict):
            remedy = "parameters stand under [algorithm.NAME]"
            raise UsageError(f"{path}: algorithm.{name} = {parameters!r}: {remedy}")
        for key, value in parameters.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{path}: algorithm.{name}.{key} = {value!r}: must be a number")
    return {name: {key: float(value) for key, value in ps.items()} for name, ps in table.items()}


# Options that many commands have.
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the results as JSON; -: to standard output, alone there."
    ),
]
StatusFile = Annotated[
    str | None,
    typer.Option("--status", metavar="FILE", help="Write a line of JSON there a few times a second."),
]


def options(
    *wanted: type[Section], omit: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command each option of the sections, --config and --print-config; it receives them as `config`.

    The command's other parameters stay options of its own. omit: fields that have no meaning for it.
    """

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(function).parameters.items()
            if name != "config"
        ]
        mine = [(section, f) for section in wanted for f in attrs.fields(section) if f.name not in omit]
        extra = [_parameter(field) for _, field in mine]
        fields = {field.name: section for section, field in mine}
        extra += [
            _keyword(
                "config", str | None, None, ["--config"], "TOML file; options win over it.", metavar="FILE"
            ),
            _keyword("print_config", bool, False, ["--print-config"], "Print the TOML in effect and exit."),
        ]

        @functools.wraps(function)
        def run(**given: Any) -> None:
            config = load(given.pop("config", None))
            show = given.pop("print_config", False)
            for name, section in fields.items():
                value = given.pop(name)
                if value is not None:
                    config.set(section, **{name: _parsed(value, getattr(attrs.fields(section), name))})
            for section in wanted:
                config[section]  # complains about the command line too, before anything is opened
            if show:
                typer.echo(config.toml(*wanted), nl=False)
                return
            function(config=config, **given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*own, *extra]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__  # typer would look through it at the function's own signature
        return run

    return wrap


def _keyword(
    name: str, kind: Any, default: Any, flags: list[str], help: str, **more: Any
) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, help=help, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parsed(value: bool | str, field: attrs.Attribute) -> Any:
    """The value as the field's type; what is no number stays a string, for the check to refuse."""
    kind = field.metadata["type"]
    if kind not in (int, float):
        return value
    for parse in (int, float):
        try:
            number = parse(value)
        except ValueError:
            continue
        # 1e6 is a whole number too; not so NaN, infinity and 1.5
        return int(number) if kind is int and abs(number) < 1e18 and number == int(number) else number
    return value


def _parameter(field: attrs.Attribute) -> inspect.Parameter:
    meta = field.metadata
    flag = flag_of(field)
    default = field.default
    if meta["type"] is bool:
        return _keyword(
            field.name, bool | None, None, [f"{flag}/--no-{flag[2:]}"], meta["help"], show_default=False
        )
    shown = "none" if default == "" else f"{default:g}" if meta["type"] is float else default
    text = meta["help"].replace("[", "\\[")  # typer's help is in rich's markup
    help = f"{text} ({right_values(field) + '; ' if _worth_saying(meta) else ''}default {shown})"
    metavar = {int: "N", float: "X", str: "TEXT"}[meta["type"]]
    # Text for all: the checks of option() name the key, the value and what would be right, typer's do not.
    more: dict[str, Any] = {"metavar": metavar, "show_default": False}
    if meta["offer"]:
        more["autocompletion"] = lambda: [str(value) for value in meta["offer"]]
    return _keyword(field.name, str | None, None, [flag], help, **more)


def _worth_saying(meta: Mapping[str, Any]) -> bool:
    return bool(meta["choices"]) or meta["low"] is not None
