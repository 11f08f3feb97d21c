# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_time: equal to the C++ model at every period, with bursts, slips and lost locks."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_time.cpp")


@pytest.mark.parametrize("frames", [20_000, pytest.param(751_500, marks=pytest.mark.complete)])
def test_ttc_time(frames):
    """A burst's worth of frames, 256 periods each."""
    run_harness("ttc_time", PROGRAM, [frames])
