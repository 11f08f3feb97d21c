# SPDX-License-Identifier: Apache-2.0
"""Golden vectors in tests/golden: the bytes of one structure each, with its fields."""

from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def read(name: str) -> tuple[dict[str, list[str]], bytes]:
    """Fields (a repeated key has several values, in the order of the file) and bytes."""
    text, _, data = (FOLDER / f"{name}.hex").read_text().partition("bytes:\n")
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition(": ")
            fields.setdefault(key, []).append(value)
    return fields, bytes.fromhex(data)
