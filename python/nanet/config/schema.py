# SPDX-License-Identifier: Apache-2.0
"""JSON schema of the configuration file, for completion and checks in editors (`nanet schema`)."""

from __future__ import annotations

from typing import Any

import attrs

from nanet.config import sections
from nanet.config.options import Section, key_of

_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema() -> dict[str, Any]:
    """The schema, JSON Schema draft 7: all sections, and parameters of the library's algorithms."""
    properties = {section.name: of_section(section) for section in sections.ALL}
    properties["algorithm"] = {
        "type": "object",
        "description": "Parameters of the ring algorithms.",
        "properties": {name: of_algorithm(name) for name in sections.ALGORITHMS},
        # plug-ins
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "nanet configuration",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def of_section(section: type[Section]) -> dict[str, Any]:
    """Schema of a table of the file."""
    properties = {key_of(field): of_option(field) for field in attrs.fields(section)}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def of_option(field: attrs.Attribute) -> dict[str, Any]:
    """Schema of a key: type, range, choices, default, help."""
    meta = field.metadata
    found: dict[str, Any] = {"type": _TYPES[meta["type"]], "default": field.default}
    unit = f" Unit: {meta['unit']}." if meta["unit"] else ""
    found["description"] = meta["help"] + unit
    if meta["words"]:
        found["type"] = ["string", "integer", "array"]
        found["items"] = {"type": ["string", "integer"]}
    if meta["choices"]:
        found["enum"] = list(meta["choices"])
    for key, name in (("low", "minimum"), ("high", "maximum")):
        if meta[key] is not None:
            found[name] = meta[key]
    return found


def of_algorithm(name: str) -> dict[str, Any]:
    """Schema of [algorithm.NAME]."""
    from nanet import _core

    properties = {
        p["name"]: {
            "type": "number", "default": p["value"], "minimum": p["low"], "maximum": p["high"],
            "description": p["meaning"],
        }
        for p in _core.algorithm_parameters(name)
    }  # fmt: skip
    return {"type": "object", "properties": properties, "additionalProperties": False}
