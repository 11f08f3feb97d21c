# SPDX-License-Identifier: SHL-2.1
"""Bench of ttcrq_port: every period and frame crosses once, for clocks at any phase and +- 100 ppm."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttcrq_port.cpp")


@pytest.mark.parametrize(
    ("periods", "ttc_ps"),
    [
        (20_000, 24_951),
        *(pytest.param(1_000_000, ps, marks=pytest.mark.complete) for ps in (24_948, 24_953, 25_600)),
    ],
)
def test_ttcrq_port(periods, ttc_ps):
    """Pins at random; the third long run has a multiple of the card's clock."""
    run_harness("ttcrq_port", PROGRAM, [periods, ttc_ps])
