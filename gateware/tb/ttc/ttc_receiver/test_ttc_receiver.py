# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_receiver: from samples of the line to time, with missing edges, gaps and a wrong rate."""

from pathlib import Path

import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_receiver.cpp")


@pytest.mark.parametrize(
    ("bursts", "periods", "errors", "ppm"),
    [
        (6, 10_000, 0, 100),
        *(pytest.param(30, 100_000, errors, 3.5, marks=pytest.mark.complete) for errors in (0, 1, 30, 1000)),
    ],
)
def test_ttc_receiver(bursts, periods, errors, ppm):
    """The time is right where it is not marked as lost."""
    run_harness("ttc_receiver", PROGRAM, [bursts, periods, errors, ppm])
