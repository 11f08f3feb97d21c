# SPDX-License-Identifier: Apache-2.0
"""TTC frames: a second implementation of the check bits, against the golden vectors."""

from __future__ import annotations

import golden_vectors
import pytest

# Data bits of each check bit, h0 first (docs/formats.md).
SHORT = (0x0F, 0x71, 0xB6, 0xDA, 0xED)
LONG = (0x0000003F, 0x001FFFC0, 0x0FE03FC0, 0x71E3C3C7, 0xB66CCCD9, 0xDAB5556A, 0xED3A65B4)


def encode(addressed: bool, data: int) -> int:
    """Bits of a frame, right-aligned, the first one highest."""
    masks = LONG if addressed else SHORT
    check = sum(((data & mask).bit_count() & 1) << i for i, mask in enumerate(masks))
    return addressed << 40 | (data << len(masks) | check) << 1 | 1


@pytest.mark.parametrize("name", ["ttc_bcr", "ttc_eob", "ttc_sob", "ttc_brcst", "ttc_long"])
def test_golden_frame(name: str) -> None:
    fields, data = golden_vectors.read(name)
    assert encode(fields["addressed"] == ["1"], int(fields["data"][0])) == int.from_bytes(data, "big")
