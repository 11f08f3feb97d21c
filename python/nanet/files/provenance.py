# SPDX-License-Identifier: Apache-2.0
"""Origin of a Parquet file, as metadata of its schema: equal runs give equal files, on any device."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nanet import __version__

DETECTOR = "NA62 RICH"


def of_file() -> dict[str, Any]:
    """Metadata of every file: version of nanet, detector."""
    return {"nanet.version": __version__, "nanet.detector": DETECTOR}


def of_rings(settings: Mapping[str, Any], captures: Sequence[str]) -> dict[str, Any]:
    """Metadata of rings: algorithm, all its parameters, captures with their sizes, conditions.

    settings: options of the core (core_options); captures: files of the run, in order.
    """
    from nanet import _core

    algorithm = settings["algorithm"]
    parameters = {p["name"]: p["value"] for p in _core.algorithm_parameters(algorithm)}
    found = {
        "nanet.algorithm": algorithm,
        "nanet.parameters": json.dumps({**parameters, **settings["parameters"]}, sort_keys=True),
        "nanet.capture": json.dumps({os.path.basename(path): os.path.getsize(path) for path in captures}),
    }
    if settings["conditions"]:
        found["nanet.conditions"] = settings["conditions"]["name"]
    return found


def as_metadata(values: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Metadata of every file and these values, as bytes for a schema."""
    return {str(key).encode(): str(value).encode() for key, value in {**of_file(), **values}.items()}
