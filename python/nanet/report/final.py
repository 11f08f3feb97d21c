# SPDX-License-Identifier: Apache-2.0
"""Closed loop of the final trigger: its account from the results of trigger, boards and farm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

FRAME_US = 6.387449
OUTCOMES = ("answered", "joined", "late", "early", "untimed", "flushed")  # of a trigger at a board
LATENCY_FRAMES = 5  # beyond the deadline: filling, batches, and the way of a trigger


@attrs.frozen
class LoopAddresses:
    """Addresses of a closed loop: triggers of the boards, by commas, and events of the farm."""

    boards: str
    farm: str


def default_latency_us(deadline_us: float, speed: float) -> float:
    """L in µs of the experiment: the deadline, which is wall-clock time, and five frames."""
    return deadline_us * speed + LATENCY_FRAMES * FRAME_US


def closed_loop(
    trigger: Mapping[str, Any], readout: Mapping[str, Any], l0tp: Mapping[str, Any], speed: float
) -> dict[str, Any]:
    """Account of the loop, during a run or after it; {} before the first status of all three.

    triggers_in_time_share: triggers that boards answered, of those sent times the boards, without those
    that still wait for t + L. Times in µs of
    the experiment, *_wall_us of this host.
    """
    sent, boards, farm = trigger.get("final"), readout.get("final"), l0tp.get("farm")
    if not (sent and boards and farm):
        return {}
    held = boards["triggers"] - sum(boards[key] for key in OUTCOMES)  # wait for t + L
    wanted = sent["triggers"] * len(boards["boards"]) - held
    return {
        "triggers_in_time_share": min(boards["answered"] / wanted, 1.0) if wanted > 0 else 0.0,
        "events_complete": farm["complete"],
        "events_incomplete": farm["incomplete"],
        "events_twice": farm["twice"],
        "events_untriggered": farm["untriggered"],
        "kept_share": sent["triggers"] / sent["primitives"] if sent["primitives"] else 0.0,
        "dead_share": sent["dead"] / sent["decisions"] if sent["decisions"] else 0.0,
        "latency_us": boards["latency_us"],
        "latency_wall_us": boards["latency_us"] / speed if speed else None,
        **{key: sent[key] for key in ("primitives", "decisions", "triggers", "joined", "dead")},
        **{key: boards[key] for key in ("answered", "late", "early", "untimed", "flushed", "slack_us")},
        "late_by_us": boards["late_by_us"],
        "kept_by_rings": farm["kept_by_rings"],
        "boards_answered": [
            board["answered"] / sent["triggers"] if sent["triggers"] else 0.0 for board in boards["boards"]
        ],
    }


def loop_line(loop: Mapping[str, Any]) -> str:
    """The closed loop in one line."""
    from nanet.report.tables import count, duration, microseconds

    slack = loop["slack_us"]
    in_time = 100 * loop["triggers_in_time_share"]
    here = f" ({duration(loop['latency_wall_us'])} here)" if loop["latency_wall_us"] else ""
    return (
        f"L {duration(loop['latency_us'])}{here} · kept {100 * loop['kept_share']:.2f} % · slack "
        f"p50 {microseconds(slack['p50'])} p99.9 {microseconds(slack['p0_1'])} "
        f"min {microseconds(slack['min'])} · late {count(loop['late'])} · "
        f"dead {100 * loop['dead_share']:.2f} % · boards answered {in_time:.2f} %"
    )


def print_loop(out: Any, loop: Mapping[str, Any]) -> None:
    """Prints the closed loop: its line, the farm's events, the true events kept."""
    from nanet.report.tables import count

    out.print(f"final trigger: {loop_line(loop)}", highlight=False, soft_wrap=True)
    wrong = f", {count(loop['events_untriggered'])} untriggered" if loop["events_untriggered"] else ""
    out.print(
        f"farm: {count(loop['events_complete'])} of {count(loop['triggers'])} events complete, "
        f"{count(loop['events_incomplete'])} incomplete, {count(loop['events_twice'])} answered twice{wrong}"
    )
    if rows := [row for row in loop["kept_by_rings"] if row["expected"]]:
        kept = ", ".join(
            f"{row['rings']}{'+' if row['rings'] == 3 else ''}: {row['kept'] / row['expected']:.1%}"
            for row in rows
        )
        out.print(f"true events kept, by rings: {kept}", highlight=False)
