# SPDX-License-Identifier: SHL-2.1
"""Bench of final_trigger: from MTP packets to pulses in the experiment's clock, without jitter."""

from pathlib import Path

import pytest
from harness import run_harness

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("triggers", "ttc_ps"),
    [
        (20_000, 24_951),
        *(pytest.param(1_000_000, ps, marks=pytest.mark.complete) for ps in (24_948, 24_953, 25_600)),
    ],
)
def test_final_trigger(triggers, ttc_ps):
    """(pulse - SOB - t - L) has one bin, for clocks at any phase and +- 100 ppm."""
    run_harness(
        "final_trigger_bench",
        HERE / "final_trigger.cpp",
        [triggers, ttc_ps],
        extra=[HERE / "final_trigger_bench.sv"],
    )
