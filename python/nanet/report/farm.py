# SPDX-License-Identifier: Apache-2.0
"""Account of a farm: frames sent to each trigger node, answered and missing; sums over the nodes' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

FAMILIES = ("bad_packets", "lost", "not_mgp", "downscaled", "recorded")
SUMMED = ("frames_sent", "frames_answered", "frames_late", "frames_missing", "frames_silent")


def farm_account(readout: Mapping[str, Any], l0tp: Mapping[str, Any]) -> dict[str, Any]:
    """The account of all nodes, from the results of readout and l0tp (of the same number of nodes).

    Per node and in total: frames_sent = frames_answered + frames_missing. frames_silent: part of
    frames_missing, passed over while the node was silent.
    """
    nodes = []
    for sent, answered in zip(readout["nodes"], l0tp["nodes"], strict=True):
        row = {
            "node": sent["node"],
            "to": sent["to"],
            "from": answered["from"],
            "frames_sent": sent["frames_sent"],
            "frames_answered": answered["frames"],
            "frames_late": answered["frames_late"],
            "frames_missing": answered["frames_missing"],
            "frames_silent": answered["frames_silent"],
            "silent": answered["silent"],
            "silences": answered["silences"],
            "returns": answered["returns"],
            "send_errors": sent["send_errors"],
        }
        row["closes"] = row["frames_sent"] == row["frames_answered"] + row["frames_missing"]
        nodes.append(row)
    total = {key: sum(row[key] for row in nodes) for key in SUMMED}
    closes = all(row["closes"] for row in nodes) and total["frames_sent"] == readout["frames_sent"]
    return {**total, "closes": closes, "nodes": nodes}


def print_farm(out: Console, account: Mapping[str, Any]) -> None:
    """Prints the account, a line per node."""
    from nanet.report.tables import count

    for row in account["nodes"]:
        text = (
            f"node {row['node']}: {count(row['frames_sent'])} frames sent = "
            f"{count(row['frames_answered'])} answered + {count(row['frames_missing'])} missing"
        )
        if row["silences"]:
            silent = f"silent {row['silences']} times, back {row['returns']} times"
            text += f" ({count(row['frames_silent'])} while silent; {silent})"
        out.print(text, highlight=False)
    verdict = "closes" if account["closes"] else "[red]DOES NOT CLOSE[/]"
    out.print(
        f"farm: {count(account['frames_sent'])} frames sent = {count(account['frames_answered'])} answered + "
        f"{count(account['frames_missing'])} missing: the account {verdict}"
    )


def node_changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences for the nodes that fell silent or came back between two `nodes` lists of l0tp."""
    said = []
    for old, new in zip(before, now, strict=True):
        node, last = new["node"], new["last_frame"]
        if new["silences"] > old["silences"]:
            since = (
                "it has never answered"
                if old["last_frame"] is None
                else f"its last frame is {old['last_frame']}"
            )
            said.append(f"node {node} is silent: {since}")
        if new["returns"] > old["returns"]:
            said.append(f"node {node} is back, at frame {last}")
    return said


def totals(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One result (or snapshot) for all nodes, from those of the nodes.

    Counters and rates are sums, bursts and seconds maxima. A latency is the largest of the nodes at each
    percentile. Other values are those of the first node.
    """
    if len(results) == 1:
        return dict(results[0])
    from nanet import _core

    names = {one["name"] for one in _core.counter_descriptions() if not one["family"]} | {"events_per_s"}
    out = dict(results[0])
    for key, value in results[0].items():
        values = [result[key] for result in results if key in result]
        if key in ("bursts", "elapsed_s"):  # of the same boards
            out[key] = max(values)
        elif key in FAMILIES:
            out[key] = {name: sum(one.get(name, 0) for one in values) for name in value}
        elif key in names:
            out[key] = sum(values)
        elif key == "latency_us":
            out[key] = {stage: _largest([one[stage] for one in values]) for stage in value}
        elif key == "account_closes":
            out[key] = all(values)
    return out


def _largest(percentiles: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Largest value of each percentile, and the number of all measurements."""
    return {key: (sum if key == "n" else max)(one[key] for one in percentiles) for key in percentiles[0]}


def merged_histograms(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum of latency histograms by stage, each with edges_us and counts."""
    out: dict[str, Any] = {}
    for stage in parts[0]:
        bins: dict[float, int] = {}
        for part in parts:
            for edge, count in zip(part[stage]["edges_us"], part[stage]["counts"], strict=True):
                bins[edge] = bins.get(edge, 0) + count
        edges = sorted(bins)
        out[stage] = {"edges_us": edges, "counts": [bins[edge] for edge in edges]}
    return out
