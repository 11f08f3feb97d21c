# SPDX-License-Identifier: SHL-2.1
"""Bench of frame_merge: the bytes of the software card's frame merger, for ordinary and hostile frames."""

from pathlib import Path

import pytest
from harness import run_harness

HERE = Path(__file__).parent
ORDINARY, HOSTILE, MIX_10, MIX_20 = range(4)


@pytest.mark.parametrize(
    ("frames", "mode", "mean", "slots"),
    [
        (150, ORDINARY, 0, 64),
        (1000, HOSTILE, 0, 64),
        (300, MIX_10, 360, 64),
        pytest.param(10_000, HOSTILE, 0, 16, marks=pytest.mark.complete),
        pytest.param(10_000, ORDINARY, 0, 64, marks=pytest.mark.complete),
        pytest.param(2_000, MIX_20, 0, 64, marks=pytest.mark.complete),
    ],
)
def test_frame_merge(frames, mode, mean, slots):
    """Headers, rows, hits, segments and event bytes equal the reference's, with many frames open."""
    run_harness(
        "frame_merge_bench",
        HERE / "frame_merge.cpp",
        [frames, mode, mean],
        {"SLOTS": slots},
        extra=[HERE / "frame_merge_bench.sv"],
    )
