# SPDX-License-Identifier: SHL-2.1
"""Bench of nanet_card with two MACs in separate clocks: whole links, overload, resets of the MACs."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("line_rate.cpp")
BENCH = Path(__file__).with_name("line_rate_bench.sv")


@pytest.mark.parametrize("card_ps", [4000, 6400, 11468, 25000], ids=["250MHz", "156MHz", "87MHz", "40MHz"])
def test_line_rate(card_ps):
    """Packets are used or counted once as lost, whatever MAC resets cut."""
    for size in (64, 128, 1518, 0):
        run_harness("line_rate_bench", PROGRAM, (size, card_ps, 400, 6), extra=[BENCH])
