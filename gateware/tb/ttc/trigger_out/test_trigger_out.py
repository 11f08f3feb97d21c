# SPDX-License-Identifier: SHL-2.1
"""Bench of trigger_out: every pulse leaves in its period, for clocks at any phase and +- 100 ppm."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("trigger_out.cpp")


@pytest.mark.parametrize(
    ("releases", "ttc_ps"),
    [
        (20_000, 24_951),
        *(pytest.param(1_000_000, ps, marks=pytest.mark.complete) for ps in (24_948, 24_953, 25_600)),
    ],
)
def test_trigger_out(releases, ttc_ps):
    """The third long run has a multiple of the card's clock."""
    run_harness("trigger_out", PROGRAM, [releases, ttc_ps])
