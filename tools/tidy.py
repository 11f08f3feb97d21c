# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the files of build/lint/compile_commands.json, with results kept between runs.

    python tools/tidy.py [--all] [--seconds S] [--jobs N]

A clean file is skipped while its text, the project headers that it includes, its flags, the rules and the
versions of the tools stay the same. Files changed against the main branch come first; after S seconds the
rest is left to `--all`, which ignores kept results and has no time limit. Results are kept in
$XDG_CACHE_HOME/nanet/tidy.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
FOLDERS = (
    ROOT / "src",
    ROOT / "gateware" / "sim",
    ROOT / "gateware" / "regs",
    ROOT / "gateware" / "firmware",
    ROOT,
)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def output(*command: str) -> str:
    """Return the output of a command in the root; empty after a failure."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


@cache
def included(path: Path) -> frozenset[Path]:
    """Return the project's files that `path` includes in its text, whatever the conditions around them."""
    found = set()
    for name in INCLUDE.findall(path.read_text(errors="replace")):
        place = next((p for p in (folder / name for folder in (path.parent, *FOLDERS)) if p.is_file()), None)
        if place:
            found.add(place.resolve())
    return frozenset(found)


def closure(path: Path) -> list[Path]:
    """Return `path` and all project files that it includes, directly or not."""
    seen, todo = set(), [path.resolve()]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo += included(file)
    return sorted(seen)


def changed() -> set[str]:
    """Return the names of the files that differ from the main branch, or from ten commits ago on it."""
    base = ""
    for branch in ("origin/main", "main"):
        base = base or output("git", "merge-base", "HEAD", branch).strip()
    if not base or base == output("git", "rev-parse", "HEAD").strip():
        base = output("git", "rev-parse", "HEAD~10").strip() or base
    return set(output("git", "diff", "--name-only", base).splitlines()) if base else set()


def tidy(path: Path, place: Path) -> tuple[Path, str]:
    """Check a file; return the report of clang-tidy, empty for a clean file, which is kept in `place`."""
    command = ["clang-tidy", "--quiet", "-p", str(BUILD), str(path)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        place.touch()
        return path, ""
    return path, done.stdout or f"{path}: clang-tidy failed with {done.returncode}"


def main() -> int:
    """Check the files; return 1 where clang-tidy reports something."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="all files, without kept results")
    parser.add_argument(
        "--seconds", type=float, default=240, help="time after which no further file is begun"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nanet" / "tidy"
    kept.mkdir(parents=True, exist_ok=True)
    listed = set(
        output("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp").splitlines()
    )
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    commands = {Path(entry["file"]): entry["command"] for entry in entries}
    commands = {
        p: c for p, c in commands.items() if p.is_relative_to(ROOT) and str(p.relative_to(ROOT)) in listed
    }
    tools = (
        output("clang-tidy", "--version") + output("c++", "--version") + (ROOT / ".clang-tidy").read_text()
    )
    todo = []
    for path, command in commands.items():
        key = hashlib.sha256(f"{tools}\0{command.replace(str(ROOT), '')}".encode())
        for file in closure(path):
            key.update(f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
        place = kept / key.hexdigest()
        if options.all or not place.exists():
            todo.append((path, place))
        else:
            os.utime(place)
    first = changed()
    todo.sort(key=lambda item: (str(item[0].relative_to(ROOT)) not in first, item[0]))
    deadline = time.monotonic() + options.seconds
    failed, left = [], []

    def run(item: tuple[Path, Path]) -> None:
        path, place = item
        is_changed = str(path.relative_to(ROOT)) in first
        if not options.all and not is_changed and time.monotonic() > deadline:
            left.append(path)
            return
        _, report = tidy(path, place)
        if report:
            failed.append(path)
            print(report, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, todo))
    for file in kept.iterdir():  # results that no run has used for two months
        if file.stat().st_mtime < time.time() - 60 * 86400:
            file.unlink()
    print(
        f"{len(commands)} files: {len(commands) - len(todo)} unchanged since a clean result, "
        f"{len(todo) - len(left)} checked, {len(failed)} with findings, {len(left)} left to --all"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
