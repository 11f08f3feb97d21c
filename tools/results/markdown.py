# SPDX-License-Identifier: Apache-2.0
"""Markdown of numbers, tables and sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from results.measurements import Measurement

NONE = "–"


def number(value: Any, digits: int = 3) -> str:
    """A number with `digits` significant digits; text as it is; a dash for None and NaN."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return NONE
    if value == 0 or (isinstance(value, int) and abs(value) < 10**5):
        return f"{value:g}"
    if abs(value) >= 10**6:
        power = math.floor(math.log10(abs(value)))
        mantissa = f"{value / 10**power:.2f}".rstrip("0").rstrip(".")
        return f"{mantissa} × 10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def rate(value: float | None) -> str:
    """Events per second, with a prefix."""
    if value is None:
        return NONE
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{number(value / size)} {prefix}"
    return number(value)


def fixed(digits: int) -> Callable[[float | None], str]:
    """Formatter with a fixed number of decimals."""
    return lambda value: NONE if value is None or value != value else f"{value:.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown table: the first column left, all others right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("|" + "|".join(cells) + "|" for cells in lines) + "\n"


def sources(measurements: Sequence[Measurement]) -> str:
    """Provenance of a table: file (its name has the machine), command, date."""
    lines = []
    for m in measurements:
        source = m["transcribed_from"].replace(" at ", "@") if "transcribed_from" in m else m["commit"]
        lines.append(f"- `{m['name']}`: `{m['command']}`, {m['date'][:10]} ({source})")
    return "\n" + "\n".join(lines) + "\n"
