# SPDX-License-Identifier: SHL-2.1
"""Bench of trigger_line: every decision leaves in period t + L or is counted; the account holds."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("trigger_line.cpp")


@pytest.mark.parametrize(
    ("decisions", "latency", "min_ticks", "log2_places"),
    [
        (100_000, 1000, 3, 10),
        pytest.param(1_000_000, 500, 0, 10, marks=pytest.mark.complete),
        pytest.param(10_000_000, 32_060, 3, 15, marks=pytest.mark.complete),
    ],
)
def test_trigger_line(decisions, latency, min_ticks, log2_places):
    """The histogram of (release - t - L) has one bin, with bursts, chokes and lost time."""
    run_harness(
        "trigger_line", PROGRAM, [decisions, latency, min_ticks, log2_places], {"LOG2_PLACES": log2_places}
    )
