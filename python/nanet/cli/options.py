# SPDX-License-Identifier: Apache-2.0
"""Configuration sections as command-line options of a typer command.

    @options(sections.Readout)
    def readout(config: Config, json: JsonFile = None) -> None: ...

`config` holds the values of the file and of the command line together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_type_hints

import attrs
import typer

from nanet.config.file import load
from nanet.config.options import Section, flag_of, off_flag_of, right_values
from nanet.detector import SHIPPED
from nanet.report import log

LONGEST_WORD = 24  # of a help of 80 columns

# Options of many commands.
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the results as JSON; -: to standard output, messages to standard error.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=4096,
        help="Processes on this host that share the captures; more than one needs Dask.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask scheduler whose workers share the captures; they see the same files.",
    ),
]
DetectorOption = Annotated[
    str,
    typer.Option(
        "--detector",
        metavar="FILE",
        help=f"Detector file, or one of {', '.join(SHIPPED)}; default: NA62's RICH.",
        autocompletion=lambda: list(SHIPPED),
        show_default=False,
    ),
]
StatusFile = Annotated[
    str | None,
    typer.Option(
        "--status", metavar="FILE", help="Write a line of JSON to this file a few times per second."
    ),
]


def options(
    *wanted: type[Section], omit: Iterable[str] = (), check: Callable[..., None] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: options of the sections, --config and --print-config, passed to the command as `config`.

    Other parameters of the command remain separate options. omit: fields without meaning for the command.
    check: called instead of the command with --check; takes the same arguments.
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
        if len(wanted) > 1:  # a panel of the help for each section
            for (section, _), parameter in zip(mine, extra, strict=True):
                parameter.annotation.__metadata__[0].rich_help_panel = f"Options of {section.name}"
        fields = {field.name: section for section, field in mine}
        extra += [
            _keyword(
                "config",
                str | None,
                None,
                ["--config"],
                "TOML file; command-line options override it.",
                metavar="FILE",
            ),
            _keyword("print_config", bool, False, ["--print-config"], "Print the TOML in effect and exit."),
        ]
        if check:
            text = "Check configuration, algorithm, device and addresses as a run does, and exit."
            extra.append(_keyword("check", bool, False, ["--check"], text))

        @functools.wraps(function)
        def run(**given: Any) -> None:
            config = load(given.pop("config", None))
            show = given.pop("print_config", False)
            call = check if check and given.pop("check", False) else function
            for name, section in fields.items():
                value = given.pop(name)
                if isinstance(value, list):  # a repeated flag
                    value = getattr(attrs.fields(section), name).metadata["repeat"].join(value) or None
                if value is not None:
                    config.set(section, **{name: _parsed(value, getattr(attrs.fields(section), name))})
            for section in wanted:
                config[section]  # checks the command line too, before anything is opened
            log.line("debug", "configuration", toml=config.toml(*wanted))
            if show:
                typer.echo(config.toml(*wanted), nl=False)
                return
            call(config=config, **given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*own, *extra]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__  # typer would read the signature of the wrapped function
        return run

    return wrap


def _keyword(
    name: str, kind: Any, default: Any, flags: list[str], help: str, **more: Any
) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, help=help, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parsed(value: bool | str, field: attrs.Attribute) -> Any:
    """Value as the type of the field; text that is no number stays a string, which the check refuses."""
    kind = field.metadata["type"]
    if kind not in (int, float):
        return value
    for parse in (int, float):
        try:
            number = parse(value)
        except ValueError:
            continue
        # 1e6 counts as a whole number; NaN, infinity and 1.5 do not
        return int(number) if kind is int and abs(number) < 1e18 and number == int(number) else number
    return value


def _parameter(field: attrs.Attribute) -> inspect.Parameter:
    meta = field.metadata
    flag = flag_of(field)
    default = field.default
    if meta["type"] is bool:
        return _keyword(
            field.name, bool | None, None, [f"{flag}/{off_flag_of(field)}"], meta["help"], show_default=False
        )
    shown = "none" if default == "" else f"{default:g}" if meta["type"] is float else default
    if len(str(shown)) > LONGEST_WORD:
        shown = shown.replace(",", ", ")  # the help cuts words that are longer than its column
    text = meta["help"].replace("[", "\\[")  # typer's help is rich markup
    help = f"{text} ({right_values(field) + '; ' if _worth_saying(meta) else ''}default {shown})"
    metavar = {int: "N", float: "X", str: "TEXT"}[meta["type"]]
    # Text for all types: the checks of option() name key, value and remedy, typer's do not.
    more: dict[str, Any] = {"metavar": metavar, "show_default": False}
    if meta["offer"]:
        more["autocompletion"] = lambda: [str(value) for value in meta["offer"]]
    kind = list[str] | None if meta["repeat"] else str | None
    return _keyword(field.name, kind, None, [flag], help, **more)


def _worth_saying(meta: Mapping[str, Any]) -> bool:
    return bool(meta["choices"]) or meta["low"] is not None
