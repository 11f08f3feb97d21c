# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/counters.md from the core's lists: `./dev shell python docs/hooks/counters.py`.

The lists are in src/nanet/stats/counter_list.hpp and event_histograms.hpp. A test compares the page with
these tables.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "counters.md"
HEAD = "|key|metric|counts|\n|---|---|---|\n"


def counter_table(family: str) -> str:
    """Key, metric and description of each counter of a family ('': no family)."""
    from nanet import _core

    rows = []
    for counter in _core.counter_descriptions():
        if counter["family"] == family:
            key = f"{family}.{counter['name']}" if family else counter["name"]
            metric = f"`{counter['metric']}`" if counter["metric"] else "–"
            rows.append(f"|`{key}`|{metric}|{counter['text']}|\n")
    return HEAD + "".join(rows)


def tables() -> dict[str, str]:
    """Each table by the name in its marker."""
    from nanet import _core

    stages = "".join(f"|`{name}`|{start}|{end}|\n" for name, start, end in _core.stage_descriptions())
    histograms = "".join(f"|`{name}`|{text}|\n" for name, text in _core.histogram_descriptions())
    return {
        "run": counter_table(""),
        "downscaled": counter_table("downscaled"),
        "lost": counter_table("lost"),
        "recorded": counter_table("recorded"),
        "stages": "|stage|from|to|\n|---|---|---|\n" + stages,
        "histograms": "|histogram|counts|\n|---|---|\n" + histograms,
    }


def page(text: str) -> str:
    """The page with its tables written again; ValueError names a table that the page lacks."""
    for name, table in tables().items():
        marked = re.compile(rf"(<!-- table: {name} -->\n\n?)(\|.*\n)*")
        if not marked.search(text):
            raise ValueError(f"{PAGE.name} has no marker '<!-- table: {name} -->': write it above the table")
        text = marked.sub(f"<!-- table: {name} -->\n\n{table}".replace("\\", r"\\"), text, count=1)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
