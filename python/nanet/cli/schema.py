# SPDX-License-Identifier: Apache-2.0
"""`nanet schema`: JSON schema of the configuration file, for editors."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """JSON schema of the configuration file, for completion and checks in editors.

    With a TOML language server such as Taplo or tombi, the first line of the configuration names it:
    `#:schema nanet.schema.json`.
    """
    from nanet.config import schema as description

    typer.echo(json.dumps(description.schema(), indent=2, ensure_ascii=False))
