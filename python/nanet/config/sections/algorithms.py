# SPDX-License-Identifier: Apache-2.0
"""Ring algorithms that an option accepts: those of the library by name, a plug-in by its file."""

from __future__ import annotations

try:
    from nanet._core import algorithm_names
    from nanet._core import default_algorithm as DEFAULT_ALGORITHM
except ImportError:  # `nanet doctor` reports the missing core
    ALGORITHMS: tuple[str, ...] = ()
    DEFAULT_ALGORITHM = ""
else:
    ALGORITHMS = tuple(algorithm_names())


def names_a_plugin(algorithm: str) -> bool:
    """Whether an algorithm is the file of a plug-in; the same rule as in the core."""
    return "/" in algorithm or algorithm.endswith(".so")


def check(text: str) -> str | None:
    """What an unknown name violates; None: accepted."""
    if text in ALGORITHMS or names_a_plugin(text):
        return None
    return f"must be one of {', '.join(ALGORITHMS)}, or the file of a plug-in, such as ./mine.so"
