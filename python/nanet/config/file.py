# SPDX-License-Identifier: Apache-2.0
"""Configuration: one TOML file, overridden by the command line, checked and printed as TOML."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import attrs

from nanet.config import sections
from nanet.config.options import Section, flag_words, key_of, toml_value
from nanet.errors import UsageError, describe_os_error, near, parse_toml

S = TypeVar("S", bound=Section)

MOST_OF_A_PARAMETER = 1e9  # far above the range of any; each algorithm checks its own


@attrs.define
class Config:
    """Values of the file, overridden by the command line."""

    path: str | None = None
    tables: dict[str, dict[str, Any]] = attrs.field(factory=dict)  # of the file, by section
    overrides: dict[type[Section], dict[str, Any]] = attrs.field(factory=dict)  # from the command line
    algorithms: dict[str, dict[str, float]] = attrs.field(factory=dict)  # [algorithm.NAME]

    def __getitem__(self, section: type[S]) -> S:
        """Values of a section. UsageError names key, value and remedy."""
        values = {}
        names = {key_of(field): field.name for field in attrs.fields(section)}
        for key, value in self.tables.get(section.name, {}).items():
            if key not in names:
                hint = _elsewhere(section, key) or near(key, names)
                raise UsageError(f"{self.where()}{section.name}.{key} = {value!r}: no such key{hint}")
            values[names[key]] = value
        try:
            from_file = section(**values)
        except UsageError as error:
            raise UsageError(f"{self.where()}{error}") from None
        given = self.overrides.get(section, {})
        try:
            return attrs.evolve(from_file, **given) if given else from_file
        except UsageError as error:
            raise UsageError(f"command line: {error}") from None

    def set(self, section: type[Section], **values: Any) -> None:
        """Overrides values, as the command line does."""
        self.overrides.setdefault(section, {}).update(values)

    def given(self, section: type[Section]) -> dict[str, Any]:
        """Values of a section that the command line gave, by name of the field."""
        return dict(self.overrides.get(section, {}))

    def where(self) -> str:
        """The file as prefix of an error; empty without one."""
        return f"{self.path}: " if self.path else ""

    def source(self, section: str, key: str) -> str:
        """Origin of a value, as prefix of an error: the command line, the file or the defaults."""
        for kind, values in self.overrides.items():
            names = {field.name: key_of(field) for field in attrs.fields(kind)}
            if kind.name == section and key in (names[name] for name in values):
                return "command line: "
        return self.where() if key in self.tables.get(section, {}) else "default: "

    @contextlib.contextmanager
    def sourced(self) -> Iterator[None]:
        """Prefixes a UsageError that starts with a key, such as card.listen, with the origin of its value.

        A flag with another name than the key follows it: final.boards (--final-boards).
        """
        try:
            yield
        except UsageError as error:
            found = re.match(r"(\w+)\.(\w+)(?: \(--[\w-]+\))?(?=: | = )", str(error))
            home = next((section for section in sections.ALL if found and section.name == found[1]), None)
            if not found or not home:
                raise
            fields = {key_of(field): field for field in attrs.fields(home)}
            flag = flag_words(fields[found[2]]) if found[2] in fields else ""
            key = f"{found[1]}.{found[2]}{flag}"
            rest = str(error)[found.end() :]
            raise UsageError(f"{self.source(found[1], found[2])}{key}{rest}") from error

    def toml(self, *wanted: type[Section]) -> str:
        """The sections as TOML, all keys with their values in effect."""
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
    """Hint at the section of a key that stands in the wrong one."""
    homes = [other.name for other in sections.ALL if key in map(key_of, attrs.fields(other))]
    return f" here, it belongs in [{homes[0]}]" if homes and section.name not in homes else ""


def load(path: str | None) -> Config:
    """Reads a TOML file and checks all of its sections; None: the defaults.

    UsageError: the file cannot be read, is not TOML, or has an unknown section or key, a wrong type or a
    value out of range.
    """
    if path is None:
        return Config()
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"--config {describe_os_error(error)}: give a file that can be read") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--config {path}: is not UTF-8 text: byte {error.start}") from None
    tables = parse_toml(text, f"--config {path}: is")
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
    """Parameters of the [algorithm.NAME] tables, by name. The algorithm checks them."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}: algorithm = {table!r}: must be sections, [algorithm.NAME]")
    for name, parameters in table.items():
        if not isinstance(parameters, dict):
            remedy = "parameters stand under [algorithm.NAME]"
            raise UsageError(f"{path}: algorithm.{name} = {parameters!r}: {remedy}")
        for key, value in parameters.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or abs(value) > MOST_OF_A_PARAMETER:
                raise UsageError(f"{path}: algorithm.{name}.{key} = {value!r}: must be a number")
    return {name: {key: float(value) for key, value in ps.items()} for name, ps in table.items()}
