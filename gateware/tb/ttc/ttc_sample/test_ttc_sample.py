# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_sample: no wrong bit with jitter, distortion and clock difference; loss of lock; noise."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_sample.cpp")
LHC, NA62 = 40_078_966, 40_078_458  # Hz


@pytest.mark.parametrize(
    ("bits", "jitter", "distortion", "ppm", "line"),
    [
        (20_000, 100, 200, 100, NA62),
        *(
            pytest.param(1_000_000, 100, distortion, ppm, line, marks=pytest.mark.complete)
            for distortion, ppm, line in ((0, 100, NA62), (200, -100, LHC), (200, 0, 40_079_000))
        ),
    ],
)
def test_ttc_sample(bits, jitter, distortion, ppm, line):
    """Random bits, each received once."""
    run_harness("ttc_sample", PROGRAM, [bits, jitter, distortion, ppm, line])
