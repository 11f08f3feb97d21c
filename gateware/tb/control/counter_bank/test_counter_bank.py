# SPDX-License-Identifier: SHL-2.1
"""Bench of counter_bank: no pulse is lost, and reads lag by a turn of the sweep at most."""

from pathlib import Path

from harness import run_harness


def test_counter_bank():
    """Pulses of any density in all counters, and resets at any time."""
    run_harness("counter_bank", Path(__file__).with_name("counter_bank.cpp"), [2_000])
