# SPDX-License-Identifier: SHL-2.1
"""Bench of ttc_encode: the C++ receiver gives back every frame; trigger pulses are exact."""

from pathlib import Path

import golden_vectors
import pytest
from harness import run_harness

PROGRAM = Path(__file__).with_name("ttc_encode.cpp")


@pytest.mark.parametrize("periods", [20_000, pytest.param(2_000_000, marks=pytest.mark.complete)])
def test_ttc_encode(periods):
    """Frames of both formats, back to back and with pauses, and the golden vectors."""
    vectors = []
    for name in ("ttc_bcr", "ttc_eob", "ttc_sob", "ttc_brcst", "ttc_long"):
        fields, data = golden_vectors.read(name)
        vectors += [fields["addressed"][0], fields["data"][0], int.from_bytes(data, "big")]
    run_harness("ttc_encode", PROGRAM, [periods, *vectors])
