# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_frames: equal to the C++ receiver on all errors of one and two bits, noise, bad stop bits."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_frames.cpp")


@pytest.mark.parametrize(
    ("long_words", "short_words"),
    [(20, 32), pytest.param(1000, 256, marks=pytest.mark.complete)],
    ids=["short", "exhaustive"],
)
def test_ttc_frames(long_words, short_words):
    """Every error of one bit is corrected and every error of two refused, frames back to back."""
    run_harness("ttc_frames", PROGRAM, [long_words, short_words])
