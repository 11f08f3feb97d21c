# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/counters.md and two panels of the dashboard: `./dev shell python docs/hooks/counters.py`.

They follow the core's lists in src/nanet/stats/counter_list.hpp and event_histograms.hpp. A test compares the
page and deploy/grafana/nanet.json with them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "counters.md"
DASHBOARD = PAGE.parent.parent / "deploy" / "grafana" / "nanet.json"
LOSSES, COUNTS = "Losses by name", "Counts by name"  # panels made here
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
        "final": counter_table("final"),
        "final.card": counter_table("final.card"),
        "program": counter_table("program"),
        "stages": "|stage|from|to|\n|---|---|---|\n" + stages,
        "histograms": "|histogram|counts|\n|---|---|\n" + histograms,
    }


def page(text: str) -> str:
    """The page with its tables written again; ValueError names a table that the page lacks."""
    for name, table in tables().items():
        marked = re.compile(rf"(<!-- table: {re.escape(name)} -->\n\n?)(\|.*\n)*")
        if not marked.search(text):
            raise ValueError(f"{PAGE.name} has no marker '<!-- table: {name} -->': write it above the table")
        text = marked.sub(f"<!-- table: {name} -->\n\n{table}".replace("\\", r"\\"), text, count=1)
    return text


def rates(metrics: list[str], only_above_zero: bool) -> list[dict[str, Any]]:
    """Queries of a panel: the rate of each counter; a gauge as it is."""
    from nanet.monitor.metrics import GAUGES, LABELLED, REFUSALS

    targets = []
    for number, metric in enumerate(metrics):
        value = f'{metric}{{instance=~"$instance"}}'
        if metric not in GAUGES:
            value = f'rate({metric}_total{{instance=~"$instance"}}[$__rate_interval])'
        label = LABELLED[metric][0] if metric in LABELLED else "reason" if metric in REFUSALS else ""
        name = metric.removeprefix("nanet_").replace("_", " ")
        targets.append(
            {
                "refId": chr(ord("A") + number),
                "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
                "expr": value + (" > 0" if only_above_zero else ""),
                "legendFormat": f"{name}: {{{{{label}}}}}" if label else name,
            }
        )
    return targets


def dashboard(text: str) -> str:
    """The dashboard with the panels of the list written again: every metric is in one of the two."""
    from nanet.monitor.metrics import REFUSALS, counters
    from nanet.report.counters import losses, of_card_trigger

    wrong = (*losses(), *of_card_trigger(faults=True))
    lost = [
        metric for metric, lines in counters().items()
        if any(line["name"] in wrong or line["family"] in ("lost", "downscaled") for line in lines)
    ]  # fmt: skip
    targets = {
        LOSSES: rates([*lost, *REFUSALS], only_above_zero=True),
        COUNTS: rates([metric for metric in counters() if metric not in lost], only_above_zero=False),
    }
    content = json.loads(text)
    for panel in content["panels"]:
        panel["targets"] = targets.pop(panel["title"], panel["targets"])
    if targets:
        raise ValueError(f"{DASHBOARD.name} has no panel {next(iter(targets))!r}")
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    for file, make in ((PAGE, page), (DASHBOARD, dashboard)):
        file.write_text(make(file.read_text(encoding="utf-8")), encoding="utf-8")
