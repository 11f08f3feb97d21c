# SPDX-License-Identifier: Apache-2.0
"""Counters of the core's list by kind: plain counts, losses, groups. Terminal, live view and page follow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

# Plain counts. Every other counter is a loss, which the views show when it is not zero.
PLAIN = (
    "packets_in", "packets_used", "burst_markers", "events_in", "events_built", "hits_in", "rings",
    "primitives_out", "frames_in", "frames_out", "frames_answered",
)  # fmt: skip
NOT_SHOWN = ("bytes_in", "bursts", "account_checks")
# Terms of the account that are properties of the data, not losses.
HARMLESS = ("below_min_hits", "duplicate_hits", "masked_hits", "split_at_frame_edge")
DECISIONS = "nanet_final_decisions"  # metric of the final trigger's decisions by outcome
# Objects of a result with a count by name.
GROUPS = ("lost", "bad_packets", "downscaled", "not_mgp")


@cache
def listed() -> tuple[str, ...]:
    """All counters outside groups, in the order of the list (src/nanet/stats/counter_list.hpp)."""
    from nanet import _core

    return tuple(line["name"] for line in _core.counter_descriptions() if not line["family"])


@cache
def of_card_trigger(*, faults: bool) -> tuple[str, ...]:
    """Counters of `final.card`: faults, each with a separate metric, or outcomes of decisions."""
    from nanet import _core

    lines = [line for line in _core.counter_descriptions() if line["family"] == "final.card"]
    outcomes = ("", DECISIONS)
    return tuple(line["name"] for line in lines if (line["metric"] not in outcomes) is faults)


def losses() -> list[str]:
    """Counters that the views show when they are not zero."""
    return [name for name in listed() if name not in (*PLAIN, *NOT_SHOWN)]


def inside(result: Mapping[str, Any], family: str) -> Mapping[str, Any]:
    """Object of a family, such as final.card, in a result; empty where the result has none."""
    for part in filter(None, family.split(".")):
        result = result.get(part) or {}
    return result


def for_page() -> dict[str, list[str]]:
    """Names for the monitor page: plain counts, losses, harmless losses, faults of a card's final trigger."""
    return {
        "plain": [*PLAIN, "frames_late"],
        "losses": losses(),
        "harmless": list(HARMLESS),
        "card_faults": list(of_card_trigger(faults=True)),
    }
