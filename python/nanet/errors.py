# SPDX-License-Identifier: Apache-2.0
"""Errors of the user in one sentence; the command line maps them to exit status 2."""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any


class UsageError(Exception):
    """Bad usage or configuration; the message names the key or option, its value and the remedy."""


class DataWarning(UserWarning):
    """An irregularity in usable data; the message is a sentence that names the file."""


def near(name: str, known: Iterable[str]) -> str:
    """Hint for a misspelt name: " (did you mean X?)", or the known names."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]}?)"
    return f" (known: {', '.join(known)})" if known else ""


def describe_os_error(error: OSError, path: str | None = None) -> str:
    """One sentence for an error of the operating system, with the file if it or `path` names one."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return f"{path}: {reason}" if path else reason
    names = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    return f"{names}: {reason}"


def parse_toml(text: str, what: str) -> dict[str, Any]:
    """Tables of a TOML text. what: subject and verb of the UsageError, such as "run.toml: is"."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{what} not TOML: {error}") from None
    except ValueError:
        raise UsageError(f"{what} not TOML: a number has too many digits") from None
    except RecursionError:
        raise UsageError(f"{what} not TOML: brackets are nested too deeply") from None


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Prefixes a UsageError with the place of the wrong value, such as "run.toml: "."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Converts errors of the core's set-up (with a finished sentence) to UsageError.

    Wrap only the set-up: a ValueError from a defect must keep its traceback.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(describe_os_error(error)) from error
    except (ValueError, RuntimeError) as error:
        raise UsageError(str(error)) from error
