# SPDX-License-Identifier: Apache-2.0
"""Closed loop of the final trigger: its account from the results of trigger, boards and farm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    L and slack are the card's. answered_share: of the triggers sent alone. Times in µs of the experiment,
    *_wall_us of this host.
    """
    sent, boards, farm = trigger.get("final"), readout.get("final"), l0tp.get("farm")
    if not (sent and boards and farm):
        return {}
    card = sent.get("card")  # releases the triggers
    held = boards["triggers"] - sum(boards[key] for key in OUTCOMES)  # wait for t + L
    refused = sum(card[key] for key in CARD_REFUSED) if card else 0
    due = sent["triggers"] * len(boards["boards"]) - held
    wanted = due + refused * len(boards["boards"])
    timing = card or boards
    return {
        "triggers_in_time_share": min(boards["answered"] / wanted, 1.0) if wanted > 0 else 0.0,
        "answered_share": min(boards["answered"] / due, 1.0) if due > 0 else None,
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


def slack_words(slack: Mapping[str, Any]) -> str:
    """Percentiles of a slack; without a trigger in time there are none."""
    from nanet.report.tables import microseconds

    if not slack.get("n"):
        return "slack: no trigger"
    return (
        f"slack: median {microseconds(slack['p50'])}, 99.9 % above {microseconds(slack['p0_1'])}, "
        f"least {microseconds(slack['min'])}"
    )


def loop_line(loop: Mapping[str, Any]) -> str:
    """The closed loop in one line."""
    from nanet.report.tables import count, duration

    latency, wall = (float(f"{loop[key] or 0:.4g}") for key in ("latency_us", "latency_wall_us"))
    here = f" ({duration(wall)} here)" if wall else ""
    late = loop["late"] + (loop["card"]["late"] if "card" in loop else 0)
    share = loop["answered_share"]
    answered = "no trigger for the boards" if share is None else f"boards answered {100 * share:.2f} %"
    return (
        f"L {duration(latency)}{here} · kept {100 * loop['kept_share']:.2f} % · "
        f"{slack_words(loop['slack_us'])} · late {count(late)} · "
        f"dead {100 * loop['dead_share']:.2f} % · {answered}"
    )


def decisions_words(account: Mapping[str, Any]) -> str:
    """Decisions as the sum of their outcomes; held: those that wait for t + L."""
    from nanet.report.tables import count

    known = {key: account[key] for key in CARD_OUTCOMES if key in account}
    shown = [f"{count(number)} {key}" for key, number in known.items() if number or key == "sent"]
    if held := account["decisions"] - sum(known.values()):
        shown.append(f"{count(held)} held")
    return f"{count(account['decisions'])} decisions = {' + '.join(shown)}"


def decisions_line(card: Mapping[str, Any]) -> str:
    """Account of the decisions in a card that releases the triggers, and what went wrong."""
    from nanet.report.counters import of_card_trigger
    from nanet.report.tables import count

    cycles = card["release_cycles"]
    released = f"released at t + L + {cycles['min']} to {cycles['max']} cycles"
    wrong = [
        f"{name.replace('_', ' ')} {count(card[name])}" for name in of_card_trigger(faults=True) if card[name]
    ]
    return "; ".join([decisions_words(card), *([released] if card["sent"] else []), *wrong])


def print_final(out: Any, final: Mapping[str, Any]) -> None:
    """Prints the account of a trigger: decisions, share kept; with a card, slack and releases."""
    from nanet.report.tables import count

    card = final.get("card")
    kept = final["triggers"] / final["primitives"] if final["primitives"] else 0.0
    parts = [
        decisions_line(card) if card else decisions_words({**final, "sent": final["triggers"]}),
        *([f"{count(final['passed'])} of them late frames' periods"] if final.get("passed") else []),
        f"kept {100 * kept:.2f} % of {count(final['primitives'])} primitives",
        *([slack_words(card["slack_us"])] if card else []),
    ]
    out.print(f"final trigger: {'; '.join(parts)}", highlight=False, markup=False, soft_wrap=True)


def print_choke_beyond(out: Any, ranges: Sequence[tuple[int, int]], frames: int) -> None:
    """Names the ranges of final.choke that begin after the last frame of the run."""
    from nanet.report.tables import counted

    for first, number in ranges:
        if first >= frames:
            text = f"final.choke: {first}+{number} was not reached: the run had {counted(frames, 'frame')}"
            out.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)


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
