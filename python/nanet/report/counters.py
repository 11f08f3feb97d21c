# SPDX-License-Identifier: Apache-2.0
"""Counters of the core's list by kind: plain counts, losses, groups. Terminal, live view and page follow."""

from __future__ import annotations

from functools import cache

# Plain counts. Every other counter is a loss, which the views show when it is not zero.
PLAIN = (
    "packets_in", "packets_used", "burst_markers", "events_in", "events_built", "hits_in", "rings",
    "primitives_out", "frames_in", "frames_out", "frames_answered",
)  # fmt: skip
NOT_SHOWN = ("bytes_in", "bursts", "account_checks")
# Terms of the account that are properties of the data, not losses.
HARMLESS = ("below_min_hits", "duplicate_hits", "masked_hits", "split_at_frame_edge")
# Objects of a result with a count by name.
GROUPS = ("lost", "bad_packets", "downscaled", "not_mgp")


@cache
def listed() -> tuple[str, ...]:
    """All counters outside groups, in the order of the list (src/nanet/stats/counter_list.hpp)."""
    from nanet import _core

    return tuple(line["name"] for line in _core.counter_descriptions() if not line["family"])


def losses() -> list[str]:
    """Counters that the views show when they are not zero."""
    return [name for name in listed() if name not in (*PLAIN, *NOT_SHOWN)]


def for_page() -> dict[str, list[str]]:
    """Names for the monitor page: plain counts, losses, harmless losses."""
    return {"plain": [*PLAIN, "frames_late"], "losses": losses(), "harmless": list(HARMLESS)}
