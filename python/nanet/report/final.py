# SPDX-License-Identifier: Apache-2.0
"""Closed loop of the final trigger: its account from the results of trigger, boards and farm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

FRAME_US = 6.387449
OUTCOMES = ("answered", "joined", "late", "early", "untimed", "flushed")  # of a trigger at a board
LATENCY_FRAMES = 5  # beyond the deadline: filling, batches, and the way of a trigger
CARD_OUTCOMES = ("sent", "joined", "late", "early", "dead", "choked", "untimed", "flushed")  # of a decision
CARD_REFUSED = ("late", "early", "choked", "untimed", "flushed")  # outcomes of a card alone
CARD_ANSWER_US = 200.0  # from the frame timeout of a card that releases the triggers to its latest answer
CARD_WAY_US = 1e6  # from the release to the boards: wall-clock time by which the simulation may lag behind
CARD_LEAD_FRAMES = 80  # the simulated card stays behind the slowest board, and waits 64 frames for it


@attrs.frozen
class LoopAddresses:
    """Addresses of a closed loop: triggers of the boards, by commas, and events of the farm."""

    boards: str
    farm: str


def default_latency_us(deadline_us: float, speed: float) -> float:
    """L in µs of the experiment: the deadline, which is wall-clock time, and five frames."""
    return deadline_us * speed + LATENCY_FRAMES * FRAME_US


def default_card_latency_us(timeout_us: float) -> float:
    """L in µs of a card that releases the triggers: beyond its frame timeout, of the same clock."""
    return timeout_us + CARD_ANSWER_US


def boards_latency_us(card_latency_us: float, speed: float) -> float:
    """Latency of boards that receive the releases of a simulated card, in µs of the experiment."""
    return card_latency_us + CARD_LEAD_FRAMES * FRAME_US + CARD_WAY_US * speed


def closed_loop(
    trigger: Mapping[str, Any], readout: Mapping[str, Any], l0tp: Mapping[str, Any], speed: float
) -> dict[str, Any]:
    """Account of the loop, during a run or after it; {} before the first status of all three.

    triggers_in_time_share: triggers that boards answered, of those sent times the boards, without those
    that still wait for t + L. With a card that releases the triggers, those which it refused count as sent;
    L and slack are the card's. Times in µs of the experiment, *_wall_us of this host.
    """
    sent, boards, farm = trigger.get("final"), readout.get("final"), l0tp.get("farm")
    if not (sent and boards and farm):
        return {}
    card = sent.get("card")  # releases the triggers
    held = boards["triggers"] - sum(boards[key] for key in OUTCOMES)  # wait for t + L
    refused = sum(card[key] for key in CARD_REFUSED) if card else 0
    wanted = (sent["triggers"] + refused) * len(boards["boards"]) - held
    timing = card or boards
    return {
        "triggers_in_time_share": min(boards["answered"] / wanted, 1.0) if wanted > 0 else 0.0,
        "events_complete": farm["complete"],
        "events_incomplete": farm["incomplete"],
        "events_twice": farm["twice"],
        "events_untriggered": farm["untriggered"],
        "kept_share": sent["triggers"] / sent["primitives"] if sent["primitives"] else 0.0,
        "dead_share": sent["dead"] / sent["decisions"] if sent["decisions"] else 0.0,
        "latency_us": timing["latency_us"],
        "latency_wall_us": timing["latency_us"] / speed if speed else None,
        **{key: sent[key] for key in ("primitives", "decisions", "triggers", "joined", "dead")},
        "passed": sent.get("passed", 0),
        **{key: boards[key] for key in ("answered", "late", "early", "untimed", "flushed")},
        "slack_us": timing["slack_us"],
        "late_by_us": boards["late_by_us"],
        **({"card": card, "boards_latency_us": boards["latency_us"]} if card else {}),
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
    late = loop["late"] + (loop["card"]["late"] if "card" in loop else 0)
    return (
        f"L {duration(loop['latency_us'])}{here} · kept {100 * loop['kept_share']:.2f} % · slack "
        f"p50 {microseconds(slack['p50'])} p99.9 {microseconds(slack['p0_1'])} "
        f"min {microseconds(slack['min'])} · late {count(late)} · "
        f"dead {100 * loop['dead_share']:.2f} % · boards answered {in_time:.2f} %"
    )


def decisions_line(card: Mapping[str, Any]) -> str:
    """Account of the decisions in a card that releases the triggers."""
    from nanet.report.tables import count

    outcomes = ", ".join(f"{count(card[key])} {key}" for key in CARD_OUTCOMES if card[key] or key == "sent")
    cycles = card["release_cycles"]
    wrong = "".join(
        f", {text} {count(card[key])}"
        for key, text in (
            ("overflow", "packets not decided"),
            ("missed", "missed"),
            ("time_lost", "time lost"),
            ("out_of_time", "packets out of time"),
            ("burst_mismatch", "bursts without their SOB"),
            ("differs", "differ"),
        )
        if card[key]
    )
    return (
        f"{count(card['decisions'])} decisions: {outcomes}{wrong}; released at t + L + "
        f"{cycles['min']} to {cycles['max']} cycles"
    )


def print_loop(out: Any, loop: Mapping[str, Any]) -> None:
    """Prints the closed loop: its line, the farm's events, the true events kept."""
    from nanet.report.tables import count

    out.print(f"final trigger: {loop_line(loop)}", highlight=False, soft_wrap=True)
    if "card" in loop:
        out.print(f"card: {decisions_line(loop['card'])}", highlight=False, soft_wrap=True)
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
