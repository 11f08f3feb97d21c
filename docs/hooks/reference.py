# SPDX-License-Identifier: Apache-2.0
"""Generated pages of the site (mkdocs hook): commands, configuration, C++ headers, gateware documents."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "src" / "nanet"
# Layers in include order, with the introduction of each page.
LAYERS = {
    "wire": "Byte layouts: encode, decode, validate; Ethernet framing; pcap.",
    "os": "Clocks, UDP sockets, thread affinity, memory regions.",
    "contract": "The memory between card and consumer: CLOP, event queue, return slots, send ring.",
    "torus": "The 3D torus: packets, link words, routing, rings, model.",
    "card": "The card, and the application library over it (begin with `card.hpp`).",
    "rich": "Geometry, Monte Carlo and ring algorithms: plain functions, no threads, no I/O.",
    "trigger": "Frame builder, decisions, executors, the account; the live trigger and the replay.",
    "readout": "The emulated readout boards.",
    "l0tp": "The emulated L0 trigger processor.",
}
# Documents of the gateware folder, and the table of ./dev synth.
CARD = [*sorted((ROOT / "gateware" / "doc").glob("*.md")), ROOT / "gateware" / "syn" / "results.md"]
WORTH_A_PAGE = re.compile(r"(?<!_test)\.hpp$")


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages."""
    from mkdocs.structure.files import File

    pages = {"reference/commands.md": command_page(), "reference/cpp.md": cpp_index()}
    pages["reference/configuration.md"] = configuration_page()
    pages |= {f"reference/cpp-{layer}.md": layer_page(layer) for layer in LAYERS}
    pages |= {f"gateware/{page.stem}.md": page.read_text() for page in CARD}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirects links to documents of the gateware folder to their copies in the site."""
    for there, copy in (
        ("../gateware/README.md", "gateware/architecture.md"),
        ("../../gateware/doc/", "../gateware/"),
        ("../../gateware/syn/", "../gateware/"),
        ("../gateware/doc/", "gateware/"),
        ("../gateware/syn/", "gateware/"),
        ("../syn/", ""),
        ("../../docs/", "../"),
    ):
        markdown = markdown.replace(f"]({there}", f"]({copy}")
    return markdown


# ----------------------------------------------------------------------------------------------- commands


def configuration_page() -> str:
    """Keys and algorithm parameters (configuration.py)."""
    sys.path.insert(0, str(ROOT / "python"))
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import configuration

    return configuration.page()


def help_of(name: str) -> str:
    """Output of `nanet NAME --help`, without boxes."""
    sys.path.insert(0, str(ROOT / "python"))
    from nanet.cli.app import make_app
    from nanet.cli.examples import epilog

    out = io.StringIO()
    app = make_app([name])
    app.rich_markup_mode = None
    for command in app.registered_commands:
        command.epilog = None  # without rich, its lines would be joined
    with redirect_stdout(out):
        app(args=[name, "--help"], prog_name="nanet", standalone_mode=False)
    return f"{out.getvalue().rstrip()}\n\n{epilog(name) or ''}".rstrip()


def command_page() -> str:
    """Every command's help."""
    sys.path.insert(0, str(ROOT / "python"))
    from nanet.cli.app import COMMANDS

    parts = ["# Commands: every option\n\nOutput of `nanet COMMAND --help`."]
    for name in COMMANDS:
        parts.append(f"## {name}\n\n```text\n{help_of(name)}\n```")
    return "\n\n".join(parts) + "\n"


# -------------------------------------------------------------------------------------------------- C++


def cpp_index() -> str:
    """Index of the layer pages."""
    rows = "\n".join(f"- [`{layer}`](cpp-{layer}.md): {text}" for layer, text in LAYERS.items())
    return (
        "# C++ reference\n\nGenerated from the headers: declarations with their comments. "
        "Linking: [building](../building.md#as-a-c-library); example: "
        f"[application library](../application.md).\n\n{rows}\n"
    )


def layer_page(layer: str) -> str:
    """All headers of a layer."""
    parts = [f"# C++: {layer}\n\n{LAYERS[layer]}"]
    for path in sorted((SOURCES / layer).rglob("*.hpp")):
        if WORTH_A_PAGE.search(path.name):
            parts.append(header_section(path))
    return "\n\n".join(parts) + "\n"


def header_section(path: Path) -> str:
    """One header: opening comment, then declarations with comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = [f'## {path.name}\n\n`#include "nanet/{path.relative_to(SOURCES)}"`']
    opening = comment_text(
        lines[1 : next(i for i, line in enumerate(lines) if i and not line.startswith("//"))]
    )
    parts.append(opening)
    for comment, code in declarations(lines):
        if comment:
            parts.append(comment_text(comment))
        parts.append("```cpp\n" + "\n".join(code) + "\n```")
    return "\n\n".join(part for part in parts if part)


def comment_text(lines: list[str]) -> str:
    """A // comment as Markdown, with markup characters escaped."""
    text = "\n".join(line.strip().removeprefix("//").removeprefix(" ") for line in lines)
    return re.sub(r"([<>\[\]*_|])", r"\\\1", text).strip()


def declarations(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """(comment, code) of each declaration in a namespace, without function bodies."""
    comment: list[str] = []
    chunk: list[str] = []
    hidden = 0  # depth of an unnamed or detail namespace
    for line in lines[1:]:
        text = line.strip()
        code = strip_comment(text)
        if chunk:
            chunk.append(line)
        elif hidden:
            hidden += code.count("{") - code.count("}")
            continue
        elif not text or text.startswith(("#", "namespace nanet", "}")):
            comment = [] if not text else comment
            continue
        elif re.match(r"(inline )?namespace( detail)? \{|namespace detail", text):
            hidden = code.count("{") - code.count("}")
            comment = []
            continue
        elif text.startswith("namespace"):
            comment = []
            continue
        elif text.startswith("//"):
            comment.append(line)
            continue
        else:
            chunk = [line]
        if complete(chunk):
            if not unwanted(chunk):
                yield comment, tidy(chunk)
            chunk, comment = [], []


def strip_comment(text: str) -> str:
    """A line without // comment and string contents."""
    return re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', '""', text).split("//")[0]


def complete(chunk: list[str]) -> bool:
    """Whether braces and brackets are balanced and the declaration has ended."""
    code = "\n".join(strip_comment(line) for line in chunk).strip()
    even = all(code.count(a) == code.count(b) for a, b in ("{}", "()"))
    return even and code.endswith((";", "}"))


def unwanted(chunk: list[str]) -> bool:
    """Whether a declaration is a check or a forward declaration."""
    code = " ".join(strip_comment(line).strip() for line in chunk)
    return code.startswith(("static_assert", "using namespace")) or bool(
        re.fullmatch(r"(class|struct|enum class) \w+( : [\w:]+)?;", code)
    )


def tidy(chunk: list[str]) -> list[str]:
    """A declaration without function bodies and private parts."""
    out: list[str] = []
    body = 0  # depth within a function's body
    private = False
    is_class = bool(re.match(r"\s*(template.*)?\s*(class|struct|union|enum)\b", " ".join(chunk[:2])))
    for at, line in enumerate(chunk):
        code = strip_comment(line)
        if body:
            body += code.count("{") - code.count("}")
            continue
        if is_class and re.match(r"\s*(private|protected):", line):
            private = True
            continue
        if is_class and re.match(r"\s*public:", line):
            private = False
        last = at == len(chunk) - 1
        if private and not last:
            continue
        opened = code.count("{") - code.count("}")
        holds = re.match(r"\s*(template.*)?\s*(class|struct|union|enum)\b", code)
        if (
            opened > 0
            and not holds
            and re.search(r"\)[\w\s:,<>()&*]*(\{|: .*\{)\s*$", code)
            and (at or not is_class)
        ):
            out.append(re.sub(r"\s*(:\s.*)?\{\s*$", ";", code.rstrip()))
            body = opened
            continue
        out.append(line)
    return [line.rstrip() for line in out]
