# SPDX-License-Identifier: Apache-2.0
"""What the site makes of the sources: configuration tables, commands' help, C++ declarations."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from nanet.cli import COMMANDS

from nanet import rings, truth


def hook(root: Path, name: str) -> ModuleType:
    """A module of docs/hooks."""
    spec = importlib.util.spec_from_file_location(f"hook_{name}", root / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_configuration_page_is_the_schema(root: Path) -> None:
    page = hook(root, "configuration")
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.rewritten(text) == text, "run ./dev shell python docs/hooks/configuration.py"
    assert page.rewritten(text.replace("| `min_hits` |", "| `min_hats` |")) == text


def test_columns_of_files_are_documented(root: Path) -> None:
    text = (root / "docs" / "files.md").read_text(encoding="utf-8")
    short = {
        "uint8": "u8",
        "uint16": "u16",
        "uint32": "u32",
        "uint64": "u64",
        "float": "f32",
        "double": "f64",
    }
    for title, schema in (
        ("rings.parquet", rings.SCHEMA),
        ("run.parquet: the truth", truth.RING_SCHEMA),
        ("True hits", truth.HIT_SCHEMA),
    ):
        table = text.split(f"## {title}\n")[1].split("\n## ")[0]
        found: dict[str, str] = {}
        for names, types in re.findall(r"^\| (`.+?`) \| ([\w, ]+) \|", table, re.M):
            columns, kinds = re.findall(r"`(\w+)`", names), types.split(", ")
            found |= dict(zip(columns, kinds * (len(columns) // len(kinds)), strict=True))
        assert found == {f.name: short.get(str(f.type), str(f.type)) for f in schema}


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The hook that makes the reference pages."""
    return hook(Path(__file__).resolve().parent.parent, "reference")


def test_every_command_has_its_help_on_the_page(reference: ModuleType) -> None:
    text = reference.command_page()
    for name in COMMANDS:
        part = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert f"Usage: nanet {name}" in part
        assert "--help" in part
        assert "Examples:" in part


def test_the_headers_pages_hold_what_they_declare(reference: ModuleType) -> None:
    card = reference.layer_page("card")
    for declared in (
        "class Clop {",
        "bool poll(contract::Event& event);",
        "void give_back(const contract::Event& event);",
        "struct ClopOptions {",
        "std::unique_ptr<Card> open_card(std::string_view kind);",
    ):
        assert declared in card
    assert "private:" not in card
    wire = reference.layer_page("wire")
    assert "inline constexpr std::size_t header_bytes = 16;" in wire
    assert "Checked validate(std::span<const std::byte> datagram, const Rules& rules) noexcept;" in wire
    for layer in reference.LAYERS:
        page = reference.layer_page(layer)
        headers = re.findall(r"^## (.+)$", page, re.M)
        assert len(headers) > 1
        for block in re.findall(r"```cpp\n(.*?)```", page, re.S):
            code = "\n".join(reference.strip_comment(line) for line in block.splitlines())
            assert code.count("{") == code.count("}"), block
