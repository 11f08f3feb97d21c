# SPDX-License-Identifier: SHL-2.1
"""Bench of stream_trigger: registers, TTC line and packets of a stream, releases at t + L."""

from pathlib import Path

import pytest
from harness import run_harness

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("triggers", "latency"), [(2_000, 1000), pytest.param(50_000, 900, marks=pytest.mark.complete)]
)
def test_stream_trigger(triggers, latency):
    """Every decision leaves at t + L, within a cycle of the card's clock, or is counted."""
    run_harness(
        "stream_trigger_bench",
        HERE / "stream_trigger.cpp",
        [triggers, latency],
        extra=[HERE / "stream_trigger_bench.sv"],
    )
