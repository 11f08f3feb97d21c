# SPDX-License-Identifier: Apache-2.0
"""Options of several sections, declared once, and limits that other modules use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nanet.config import values
from nanet.config.options import option
from nanet.config.values import check_of, optional

MAX_FRAMES = 751_500  # 4.8 s of detector time
PAGE = optional(check_of(values.page_endpoint))
# Frame timeout and answer deadline (µs) where the option is 0: docs/formats.md, Clocks.
REAL_TIME_TIMEOUT_US, REAL_TIME_DEADLINE_US = 200.0, 1_000.0  # also with the simulated card's exact clock
DEFAULT_TIMEOUT_US, DEFAULT_DEADLINE_US = 20_000.0, 50_000.0


def _ring_count(text: str) -> int:
    return -1 if text == "mix" else int(text)


def _is(value: str) -> Callable[[str], bool]:
    return lambda text: text == value


def event_rate(low: float) -> Any:
    """Rate of the events, from `low` Hz."""
    return option(10e6, "Events per second of detector time.", low=low, high=100e6, unit="Hz")


def noise() -> Any:
    """Noise of the photomultipliers."""
    return option(1.0, "Mean noise hits per event.", low=0.0, high=64.0)


def ring_mix() -> Any:
    """Rings of the generated events."""
    return option(
        "mix",
        "Rings per event: mix, or a number.",
        choices=("mix", "0", "1", "2", "3", "4"),
        words=True,
        to_core=_ring_count,
    )


def seed(help: str) -> Any:
    """Seed of a generator."""
    return option(1, help, low=0, high=(1 << 63) - 1)


def sent_boards() -> Any:
    """Boards of the stream."""
    return option(
        "4",
        "4, or merged (one stream of whole events).",
        choices=("4", "merged"),
        words=True,
        core="merged",
        to_core=_is("merged"),
    )


def slots() -> Any:
    """Layout of the generated events."""
    return option(
        "packed",
        "Event size: packed (variable length), or fixed (32 hit slots).",
        choices=("packed", "fixed"),
        core="fixed",
        to_core=_is("fixed"),
    )


def burst_frames() -> Any:
    """Length of the generated bursts."""
    return option(MAX_FRAMES, "Frames of a burst.", low=1, high=1 << 24, core="burst_frames")


def stop_after(**more: Any) -> Any:
    """Run time of a program, without a limit by default."""
    text = "Stop after this time; 0: run until SIGINT or SIGTERM."
    return option(0.0, text, low=0.0, high=1e9, unit="s", **more)
