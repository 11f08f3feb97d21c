# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_align: locks within 64 idle periods from either phase, never swaps on legal traffic."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_align.cpp")


@pytest.mark.parametrize("periods", [20_000, pytest.param(3_000_000, marks=pytest.mark.complete)])
def test_ttc_align(periods):
    """Every period of legal traffic comes out once, with a constant delay."""
    run_harness("ttc_align", PROGRAM, [periods])
