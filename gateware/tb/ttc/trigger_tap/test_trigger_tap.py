# SPDX-License-Identifier: SHL-2.1
"""Bench of trigger_tap: decisions equal to the C++ masks; discarded packets decide nothing."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("trigger_tap.cpp")


@pytest.mark.parametrize("primitives", [50_000, pytest.param(1_000_000, marks=pytest.mark.complete)])
def test_trigger_tap(primitives):
    """Random IDs, masks and packets."""
    run_harness("trigger_tap", PROGRAM, [primitives])
