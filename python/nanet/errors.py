# SPDX-License-Identifier: Apache-2.0
"""What the user did wrong, said in one sentence; the command line turns it into exit status 2."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable, Iterator


class UsageError(Exception):
    """Bad usage or configuration: the text names the key or option, its value and what would be right."""


class DataWarning(UserWarning):
    """What is odd with data that can be used all the same: a finished sentence that names the file."""


def near(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: " (did you mean X?)", or the known names where none is near."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]}?)"
    return f" (known: {', '.join(known)})" if known else ""


def describe_os_error(error: OSError, path: str | None = None) -> str:
    """One sentence for an error of the operating system, with the file, if it or `path` names one."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return f"{path}: {reason}" if path else reason
    names = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    return f"{names}: {reason}"


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Turns what the core refuses at set-up (with a finished sentence) into UsageError.

    Wrap only the set-up in it, so that a ValueError out of a defect still shows its traceback.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(describe_os_error(error)) from error
    except (ValueError, RuntimeError) as error:
        raise UsageError(str(error)) from error
