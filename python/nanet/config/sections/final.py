# SPDX-License-Identifier: Apache-2.0
"""Section of the final trigger: addresses, latency, masks (docs/ttc.md)."""

from __future__ import annotations

from typing import ClassVar

import attrs

from nanet.config import values
from nanet.config.options import Section, option
from nanet.config.values import check_of, optional


@attrs.frozen(kw_only=True)
class Final(Section):
    """Final trigger: boards keep their data for L and answer the triggers."""

    name: ClassVar[str] = "final"

    final_boards: str = option(
        "",
        "Addresses at which the boards take triggers, HOST:PORT by commas in order of board; empty: no final "
        "trigger.",
        check=optional(check_of(values.endpoints)),
        key="boards",
        words=True,
    )
    farm: str = option(
        "",
        "Address at which the farm takes the boards' answers, HOST:PORT; it takes triggers at the next port.",
        check=optional(check_of(values.farm_endpoint)),
    )
    farm_boards: int = option(4, "Boards whose answers make an event complete.", low=1, high=8)
    latency_us: float = option(
        0.0,
        "Latency L of the boards, or of a gateware card, in time of the experiment; 0 in the demo: deadline "
        "and five frames, or 400 µs with the card.",
        low=0.0,
        high=1e5,
        unit="µs",
    )
    sync: str = option(
        "",
        "Address at which the trigger takes sync datagrams of the boards' clock, HOST:PORT; with them a "
        "software card answers no later than 20 µs before t + L; empty: by its deadline alone.",
        check=optional(check_of(values.endpoint)),
    )
    time_source: str = option(
        "udp",
        "How the trigger derives the experiment's time from sync datagrams: udp by their least delay, ptp by "
        "their TAI, for one host or hosts with PTP.",
        choices=("udp", "ptp"),
    )
    clock_speed: float = option(
        1.0, "Speed of the experiment's clock for the trigger, as --speed of the boards.", low=1e-6, high=100
    )
    late: str = option(
        "drop",
        "Frames that a software card answers header-only: drop has no trigger in them; pass gives late_type "
        "to one of late_downscale periods with events.",
        choices=("drop", "pass"),
    )
    late_type: int = option(0, "Type of the triggers in such frames.", low=0, high=63)
    late_downscale: int = option(1, "One of so many periods with events passes.", low=1, high=1_000_000)
    min_ticks: int = option(3, "Least distance of two triggers in periods of 25 ns.", low=1, high=256)
    close_ticks: int = option(
        0,
        "A gateware card closes a frame this many periods after the frame's end by TTC time, if its timeout "
        "has not passed before; 0: at its timeout. Complete frames of 10 MHz need 300.",
        low=0,
        high=65_535,
    )
    masks: str = option(
        "0x3000/0x3000/1/1,0/0/2/100",
        "Triggers by primitive ID, up to 16 by commas: CARE/VALUE/TYPE/N; every Nth match passes. The "
        "default selects three or more rings, and one primitive in 100.",
        check=check_of(values.trigger_masks),
        words=True,
        to_core=values.trigger_masks,
    )
    choke: str = option(
        "",
        "Frames in which the gateware card is choked, FIRST+NUMBER by commas, counted from the run's first; "
        "beside trigger.choke_high.",
        check=check_of(values.frame_ranges),
        words=True,
        to_core=values.frame_ranges,
    )
