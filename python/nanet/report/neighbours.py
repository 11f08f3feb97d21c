# SPDX-License-Identifier: Apache-2.0
"""Readout boards and L0 trigger processor in the words of the report; all counters are in run.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nanet.report.tables import count, microseconds, rate

Rows = list[tuple[str, str]]

FAULTS = {
    "drop": "packets dropped on purpose",
    "dup": "packets sent twice on purpose",
    "reorder": "packets sent out of order on purpose",
    "corrupt": "packets corrupted on purpose",
    "delay": "packets delayed on purpose",
}
UNPAIRED = {
    "merged_with_neighbour": "without: merged with an event less than 8 ns away",
    "frame_late": "without: the frame was late",
    "frame_missing": "without: the frame is missing",
    "out_of_order": "without: the frame came behind a later one",
    "other": "without, for another reason",
}
UNEXPECTED = {
    "split_at_frame_edge": "further primitives: second part of an event at a frame's edge",
    "outside_frame": "further primitives: time outside the frame",
    "other": "further primitives: mostly second parts of events",
}
# Counters of losses, shown when they are not zero.
ANSWER_LOSSES = {
    "duplicates": "frames answered twice",
    "out_of_order": "frames answered out of order",
    "socket_overflow": "packets dropped by the kernel",
    "latency_unknown": "packets without a send time",
}
NODE_LOSSES = {
    "frames_missing": "missing",
    "frames_silent": "missed while silent",
    "frames_late": "late",
    "silences": "silences",
    "stale": "answers too old",
    "misdealt": "answers from another node's address",
}
TRIGGER_OUTCOMES = {
    "answered": "answered",
    "joined": "in the period of another",
    "late": "late, not answered",
    "early": "too early, not answered",
    "untimed": "of another burst, not answered",
    "flushed": "dropped by a second start of burst",
}
FARM_LOSSES = {
    "incomplete": "events incomplete",
    "open": "events open at the end",
    "twice": "answers received twice",
    "untriggered": "answers without a trigger",
    "wrong_time": "answers of a wrong time",
    "datagrams_lost": "packets lost on the way to the farm",
}


def _nonzero(
    values: Mapping[str, Any], names: Mapping[str, str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    for key, name in names.items():
        if values.get(key):
            yield prefix + name, count(values[key])


def _by_name(what: str, values: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Counts whose names are those of the documentation: refusals and errors."""
    for key, value in values.items():
        if value:
            yield f"{what}: {key.replace('_', ' ')}", count(value)


def readout_rows(sent: Mapping[str, Any]) -> Rows:
    """What the boards sent, faults and errors by name."""
    rows = [
        ("events", count(sent["events_sent"])),
        ("frames", count(sent["frames_sent"])),
        ("packets", count(sent["packets_sent"])),
        ("payload", f"{sent['bytes_sent'] / 1e6:,.1f} MB".replace(",", " ")),
        ("bursts", count(sent["bursts"])),
        ("rate", rate(sent["events_per_s"], "events")),
        ("largest delay behind the schedule", microseconds(sent["behind_max_us"])),
        *_nonzero(sent.get("faults", {}), FAULTS),
        *_by_name("send error", sent.get("send_errors", {})),
    ]
    nodes = sent.get("nodes", [])
    for node in nodes if len(nodes) > 1 else []:
        rows.append((f"frames to node {node['node']} ({node['to']})", count(node["frames_sent"])))
    if final := sent.get("final"):
        rows.append(("final triggers, all boards", count(final["triggers"])))
        rows += _nonzero(final, TRIGGER_OUTCOMES, "final triggers: ")
        rows += _by_name("final trigger refused", final["refused_datagrams"])
    return rows


def l0tp_rows(received: Mapping[str, Any]) -> Rows:
    """What the L0 trigger processor received, compared with the truth."""
    rows = [
        ("frames answered", count(received["frames"])),
        ("of these late, without primitives", count(received["frames_late"])),
        ("frames missing", count(received["frames_missing"])),
        ("primitives", count(received["primitives"])),
    ]
    rings = received.get("rings", [])
    for number, found in enumerate(rings):
        more = " or more" if number and number == len(rings) - 1 else ""
        rows.append((f"primitives with {number}{more} ring{'s' * (number != 1)}", count(found)))
    if expected := received.get("primitives_expected"):  # null without the truth
        paired = received["primitives_paired"]
        share = f"{count(paired)} ({paired / expected:.2%})"
        rows += [("true events in these frames", count(expected)), ("of these with a primitive", share)]
        rows += _nonzero(received["unpaired"], UNPAIRED)
        rows += _nonzero(received["unexpected"], UNEXPECTED)
    rows += _nonzero(received, ANSWER_LOSSES)
    rows += _by_name("bad packet", received.get("bad_packets", {}))
    nodes = received.get("nodes", [])
    for node in nodes if len(nodes) > 1 else []:
        rows.append((f"node {node['node']}: frames answered", count(node["frames"])))
        rows += _nonzero(node, NODE_LOSSES, f"node {node['node']}: ")
    if farm := received.get("farm"):
        rows += [
            ("farm: triggers", count(farm["triggered"])),
            ("farm: events complete", count(farm["complete"])),
        ]
        rows += _nonzero(farm, FARM_LOSSES, "farm: ")
        rows += _by_name("farm: packet refused", {**farm["refused_datagrams"], **farm["refused_packets"]})
    return rows
