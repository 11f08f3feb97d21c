# SPDX-License-Identifier: SHL-2.1
"""Reference model of nanet_controller: APEnet+ packets, and the layout of header and footer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

HEADER, PAYLOAD, FOOTER = range(3)
MAX_PAYLOAD = 4096


@dataclass
class Datagram:
    """Input of the controller: a payload, its source, and the checksum and filter results."""

    payload: bytes
    filter: int = 0
    src_ip: int = 0x0A000009
    src_port: int = 40000
    stamp: int = 0
    verdict: int = 0
    refusal: int = 17
    hits: int = 0
    length: int | None = None  # announced length, where it differs

    def info(self) -> int:
        """Return the packed datagram_t."""
        length = len(self.payload) if self.length is None else self.length
        return (((self.filter << 32 | self.src_ip) << 16 | self.src_port) << 16 | length) << 32 | self.stamp

    def words(self) -> list[dict[str, int]]:
        """Return the 64-bit input words."""
        parts = [self.payload[at : at + 8] for at in range(0, len(self.payload), 8)] or [b""]
        return [
            {
                "data": int.from_bytes(part, "little"),
                "bytes": len(part),
                "first": int(number == 0),
                "last": int(number == len(parts) - 1),
                "info": self.info(),
                "verdict": self.verdict,
                "refusal": self.refusal,
                "hits": self.hits,
            }
            for number, part in enumerate(parts)
        ]


def packets(datagram: Datagram, number: int) -> list[tuple[int, int]]:
    """Return the (kind, word) pairs of a datagram's APEnet+ packets, with 0 as the footers' time stamp."""
    out = []
    length = len(datagram.payload) if datagram.length is None else datagram.length
    starts = list(range(0, len(datagram.payload), MAX_PAYLOAD)) or [0]
    for at in starts:
        part = datagram.payload[at : at + MAX_PAYLOAD]
        header = datagram.stamp << 16 | datagram.src_port
        header = (header << 32 | datagram.src_ip) << 16 | at
        header = ((header << 16 | length) << 8 | datagram.filter) << 8 | 1
        out.append((HEADER, header))
        padded = part + bytes(-len(part) % 16 if part else 16)
        for word in range(0, len(padded), 16):
            out.append((PAYLOAD, int.from_bytes(padded[word : word + 16], "little")))
        last = at == starts[-1]
        footer = zlib.crc32(padded) << 16 | number & 0xFFFF
        footer = (footer << 16 | len(part)) << 1 | last
        footer = footer << 6 << 5 | (datagram.refusal if last else 0)
        footer = (footer << 4 | (datagram.verdict if last else 0)) << 16 | (datagram.hits if last else 0)
        out.append((FOOTER, footer))
        number += 1
    return out


def without_unsettled(kind: int, word: int) -> int:
    """Mask the undefined bits of a word: time stamps, and the check results in all footers but the last."""
    if kind != FOOTER:
        return word
    word &= (1 << 96) - 1
    return word if word >> 31 & 1 else word >> 31 << 31
