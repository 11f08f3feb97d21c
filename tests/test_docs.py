# SPDX-License-Identifier: Apache-2.0
"""Generated parts of the site: configuration tables, help of commands, C++ declarations."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import attrs
import pytest
from nanet.cli.app import COMMANDS
from nanet.config import sections
from nanet.config.options import flag_of, key_of
from nanet.files import rings, truth

from nanet import _core


def hook(root: Path, name: str) -> ModuleType:
    """A module of docs/hooks."""
    spec = importlib.util.spec_from_file_location(f"hook_{name}", root / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_configuration_reference_has_every_key(root: Path) -> None:
    text = hook(root, "configuration").page()
    for section in sections.ALL:
        table = text.split(f"## [{section.name}]")[1].split("\n## ")[0]
        for field in attrs.fields(section):
            row = next((line for line in table.splitlines() if line.startswith(f"| `{key_of(field)}` |")), "")
            assert f"`{flag_of(field)}`" in row or f"`{flag_of(field)}/" in row, key_of(field)
    for name in sections.ALGORITHMS:
        table = text.split(f"## [algorithm.{name}]")[1].split("\n## ")[0]
        for known in _core.algorithm_parameters(name):
            low, high = f"{known['low']:g}", f"{known['high']:g}"
            assert f"| `{known['name']}` | `{known['value']:g}` | {low} to {high} |" in table


def tracked(root: Path, *patterns: str) -> list[Path]:
    """Tracked files of the source tree by name, without generated folders."""
    made = {"build", "site", "dist", "node_modules"}
    found = [path for pattern in patterns for path in root.rglob(pattern)]
    kept = [(path, path.relative_to(root).parts) for path in found]
    return [path for path, parts in kept if not made & set(parts) and not parts[0].startswith(".")]


def anchors(text: str) -> set[str]:
    """Link targets of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+?) *$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        number = 0
        while (name := f"{slug}_{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def test_links_between_pages_lead_somewhere(root: Path) -> None:
    """Links of the site are also checked by its strict build; this includes the README and others."""
    links = 0
    for page in tracked(root, "*.md"):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if there.parent == root / "docs" / "gateware":  # a page of the site stored beside the gateware
                sources = (root / "gateware" / folder / there.name for folder in ("doc", "syn"))
                there = next(filter(Path.exists, sources), there)
            if "reference" in there.parts and not there.exists():
                assert (root / "docs" / "hooks" / "reference.py").exists()  # generated with the site
                continue
            assert there.exists(), f"{page}: {target}"
            assert there.is_relative_to(root), f"{page}: {target}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors(there.read_text(encoding="utf-8")), f"{page}: {target}"
            links += 1
    assert links > 100


def test_the_documentation_stays_short(root: Path) -> None:
    """At most 40 000 words in all pages together; rules of tables and signs standing alone are no words."""
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=False)
    if files.returncode:
        pytest.skip("not a git checkout")
    text = " ".join((root / name).read_text(encoding="utf-8") for name in files.stdout.splitlines())
    words = sum(any(c.isalnum() for c in word) for word in text.split())
    assert words <= 40_000


def test_every_gateware_module_has_its_row(root: Path) -> None:
    """The generated table has every module with a sentence, and every proof that has a module."""
    gateware = root / "gateware"
    text = (gateware / "doc" / "modules.md").read_text(encoding="utf-8")
    rows = {name: rest.split("|") for name, rest in re.findall(r"^\|`(\w+)`\|(.*)\|$", text, re.M)}
    modules = {path.stem for path in (gateware / "rtl").rglob("*.sv") if not path.stem.endswith("_pkg")}
    assert set(rows) == modules
    assert all(does for does, *_ in rows.values())
    proofs = re.findall(r'^    "(\w+)": Proof\(', (gateware / "formal" / "prove.py").read_text(), re.M)
    page = (gateware / "doc" / "proofs.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.M)) == sorted(proofs)


def test_the_architecture_page_lists_the_folders(root: Path) -> None:
    """Every folder of the layout has one line, and every line a folder."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Folders\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([\w/]+)` \|", table, re.M)
    files = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if files.returncode:
        pytest.skip("not a git checkout")
    folders = {parent for name in files.stdout.split("\n") for parent in map(str, Path(name).parents)} - {"."}
    deep = {"src/nanet", "python/nanet", "gateware"}  # each of their folders has a line
    wanted = {f for f in folders if "/" not in f or f.rpartition("/")[0] in deep} - {"src", "python"}
    wanted |= deep
    wanted = {f for f in wanted if not f.startswith(".") and f != "LICENSES"}
    assert sorted(listed) == sorted(wanted)


def test_includes_follow_the_order_of_the_architecture_page(root: Path) -> None:
    """A folder of src/nanet includes only folders above it in the table; python and bench may include all."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    order = re.findall(r"^\| `src/nanet/(\w+)` \|", text, re.M)
    for path in sorted((root / "src" / "nanet").glob("*/**/*.[hc]*")):
        folder = path.relative_to(root / "src" / "nanet").parts[0]
        if folder in {"python", "bench"} or "test" in str(path.relative_to(root)):
            continue
        for other in re.findall(r'#include "nanet/(\w+)/', path.read_text(encoding="utf-8")):
            if other != folder and other != "generated":
                assert order.index(other) < order.index(folder), f"{path} includes nanet/{other}"


def test_addresses_are_well_formed_and_public(root: Path) -> None:
    """No address of a private host or network in any file of the tree."""
    for path in tracked(
        root, "*.md", "*.html", "*.js", "*.css", "*.toml", "*.json", "*.ipynb", "*.service", "Containerfile"
    ):
        text = path.read_text(encoding="utf-8")
        for address in re.findall(r"\bhttps?://[^\s\"'`<>()|\\]+", text):
            if "${" in address or "{" in address:
                continue
            parts = urlsplit(address.rstrip(".,;:"))
            assert parts.hostname and parts.username is None, f"{path}: {address}"
            host = parts.hostname
            try:
                private = ipaddress.ip_address(host).is_private and not ipaddress.ip_address(host).is_loopback
            except ValueError:
                private = host != "localhost" and not re.fullmatch(
                    r"([a-z0-9-]+\.)+(org|com|net|io|dev|ch|edu|eu|it)", host
                )
            assert not private, f"{path}: {address}"


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
        "std::unique_ptr<Card> open_card(std::string_view name);",
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
