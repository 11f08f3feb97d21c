# SPDX-License-Identifier: Apache-2.0
"""Vocabulary check: reports words forbidden by tools/vocabulary.toml in comments, strings and documentation.

    python tools/vocabulary.py [--all] [FILE...]

Without files it reads all tracked files, and fails for offences in the folders listed as `enforced`. `--all`
fails for offences anywhere, and prints the number of offences of each folder.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tools" / "vocabulary.toml"
CODE = "\x01"  # stands for a character that is not prose
C_LIKE = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".sv", ".svh", ".v", ".vlt", ".rdl"}
# Comments, raw strings, strings and characters. A digit before ' marks a digit separator or a Verilog
# literal.
C_PROSE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\n]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<![\w\'])\'(?:\\.|[^\'\\\n])\'',
    re.S,
)
# Comment markers at line starts, and quotes between adjacent string literals.
MARKERS = re.compile(r'(?m)^[\s\x01]*(?://+!?<?|/\*+|\*+/?|#+:?)|"\s*\n\s*[fFrRbBuU]{0,2}"|-->')


def blank(text: str) -> str:
    """Return text of the same length without prose."""
    return re.sub(r"[^\n]", CODE, text)


def prose_of_c(text: str) -> str:
    """Return `text` with everything but comments and strings masked."""
    result, end = [], 0
    for match in C_PROSE.finditer(text):
        gap = text[end : match.start()]
        result += [gap if gap.isspace() else blank(gap), match.group()]
        end = match.end()
    return "".join([*result, blank(text[end:])])


def prose_of_python(text: str) -> str:
    """Return `text` with everything but comments and strings masked."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    result, end = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            begin = starts[token.start[0] - 1] + token.start[1]
            gap = text[end:begin]
            end = starts[token.end[0] - 1] + token.end[1]
            result += [gap if gap.isspace() else blank(gap), text[begin:end]]
    return "".join([*result, blank(text[end:])])


def prose_of_notebook(text: str) -> str:
    """Return the sources of a notebook's cells."""
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def prose(path: Path) -> str:
    """Return what a reader reads of a file: the whole file where its type has no comments to pick out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in C_LIKE:
        text = prose_of_c(text)
    elif path.suffix == ".py":
        text = prose_of_python(text)
    elif path.suffix == ".ipynb":
        text = prose_of_notebook(text)
    return MARKERS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def tracked() -> Iterator[str]:
    """Yield the tracked and new files that exist."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    yield from (name for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file())


def offences(name: str, rules: dict) -> Iterator[tuple[int, str, str]]:
    """Yield line, words and remedy of each offence in a file."""
    try:
        text = prose(ROOT / name)
    except UnicodeDecodeError:
        return
    allowed = [
        (match.start(), match.end())
        for exception in rules["exception"]
        if fnmatch.fnmatch(name, exception["file"])
        for match in re.finditer(re.escape(exception["text"]), text)
    ]
    for word in rules["word"]:
        pattern = r"(?<![\w.])(?:" + word["pattern"].replace(" ", r"\s+") + r")(?!\w)"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if not any(start <= match.start() and match.end() <= end for start, end in allowed):
                found = " ".join(match.group().split())
                yield text.count("\n", 0, match.start()) + 1, found, word["use"]


def within(name: str, folders: Iterable[str]) -> bool:
    """Return whether a file lies in one of the folders, or is one of them; `.` is the whole tree."""
    return any(folder == "." or name == folder or name.startswith(f"{folder}/") for folder in folders)


def main() -> int:
    """Print the offences; return 1 where there are some in enforced folders."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="fail for offences anywhere")
    parser.add_argument("files", nargs="*", help="files to read; all of them count")
    options = parser.parse_args()
    rules = {"skip": [], "exception": [], **tomllib.loads(RULES.read_text())}
    names = [str(Path(file).resolve().relative_to(ROOT)) for file in options.files] or list(tracked())
    names = [name for name in names if not any(fnmatch.fnmatch(name, skip) for skip in rules["skip"])]
    everywhere = options.all or bool(options.files)
    failed, elsewhere = 0, Counter()
    for name in names:
        counts = everywhere or within(name, rules["enforced"])
        for line, found, remedy in sorted(offences(name, rules)):
            if counts:
                print(f"{name}:{line}: '{found}': {remedy}")
                failed += 1
            if not counts or options.all:
                elsewhere["/".join(Path(name).parts[:3][: max(1, len(Path(name).parts) - 1)])] += 1
    if elsewhere:
        listed = ", ".join(f"{folder} {count}" for folder, count in sorted(elsewhere.items()))
        print(f"{'by folder' if options.all else 'not enforced yet'}: {listed}")
    print(f"{len(names)} files, {failed} offences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
