# SPDX-License-Identifier: Apache-2.0
"""Torus reference model, from docs/formats.md: packet, link words, route(). Words are 128-bit integers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

# ---------------------------------------------------------------------------------------------------- fields

# Field -> (lowest bit, width) of the header word.
HEADER = {
    "vchan": (0, 5),
    "channel": (5, 16),
    "x": (21, 6),
    "y": (27, 5),
    "z": (32, 5),
    "intra": (37, 4),
    "reserved": (41, 1),
    "out_of_lattice": (42, 1),
    "type": (43, 5),
    "length": (48, 14),
    "address": (62, 48),
    "hops": (110, 10),
    "ecc": (120, 8),
}
FOOTER = {
    "message": (0, 32),
    "source_x": (32, 6),
    "source_y": (38, 5),
    "source_z": (43, 5),
    "source_intra": (48, 4),
    "reserved": (52, 4),
    "flags": (56, 8),
    "immediate": (64, 32),
    "crc": (96, 32),
}
EXTENSION = {"reply_address": (0, 48), "reply_channel": (48, 16), "bytes": (64, 32), "reserved": (96, 32)}
CONTROL = {
    "comma": (0, 8),
    "type": (8, 4),
    "vc": (12, 1),
    "resend": (13, 1),
    "zero": (14, 2),
    "count": (16, 5),
    "zero_2": (21, 3),
    "sequence": (24, 8),
    "acknowledge": (32, 8),
    "freed_0": (40, 16),
    "freed_1": (56, 16),
    "node": (72, 16),
    "port": (88, 3),
    "zero_3": (91, 5),
    "crc": (96, 32),
}
RAW, PUT, ETHERNET, GET, GET_DATA, SEND, DONE, NACK, DATAGRAM = range(9)
CRC_PRESENT, LAST, NOTIFY, ACK = 1, 2, 4, 8  # footer flags
IDLE, CELL, TRAIN, READY = range(4)  # types of control words
COMMA = 0xBC
MAX_PAYLOAD = 4096
MAGIC = int("FFFFAAAA5555AAAA" * 2, 16)
START = int("FFFFBBBB6666BBBB" * 2, 16)
INJECT = 0x10  # VC code of a packet from the node
DATA = (1 << 120) - 1


def pack(layout: dict[str, tuple[int, int]], **values: int) -> int:
    """Word of the named fields; the others are 0. ValueError for a value beyond its field."""
    word = 0
    for name, value in values.items():
        low, width = layout[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name} = {value} must have at most {width} bits")
        word |= value << low
    return word


def unpack(layout: dict[str, tuple[int, int]], word: int) -> dict[str, int]:
    """All fields of a word."""
    return {name: word >> low & (1 << width) - 1 for name, (low, width) in layout.items()}


def header(ecc: bool = True, **values: int) -> int:
    """Header word, with its check byte unless `ecc` is false."""
    word = pack(HEADER, **values)
    return protect(word) if ecc else word


# ---------------------------------------------------------------------------------------------------- SECDED

POSITIONS = [place for place in range(1, 128) if place & place - 1]  # of the 120 data bits


def check_byte(data: int) -> int:
    """Check byte p[7:0] of 120 data bits: extended Hamming code (128,120)."""
    byte = 0
    for k in range(1, 8):
        ones = sum(data >> bit & 1 for bit, place in enumerate(POSITIONS) if place >> (k - 1) & 1)
        byte |= (ones & 1) << k
    return byte | (data.bit_count() + byte.bit_count()) & 1


def protect(word: int) -> int:
    """The word with its check byte in bits 127:120."""
    data = word & DATA
    return check_byte(data) << 120 | data


def correct(word: int) -> tuple[int, int]:
    """(word, errors): errors 0 or 1 (corrected) or 2 (the word is as received)."""
    data, received = word & DATA, word >> 120
    syndrome = (check_byte(data) ^ received) >> 1
    if not word.bit_count() & 1:
        return (word, 2) if syndrome else (word, 0)
    if syndrome & syndrome - 1:
        data ^= 1 << POSITIONS.index(syndrome)
    return protect(data), 1


# ----------------------------------------------------------------------------------------------- link words


def credit(used: Sequence[tuple[int, int]], ecc: bool = True) -> int:
    """CREDIT word of (header words, data words) in use, per virtual channel, waiting cycles included."""
    word = 0
    for vc, (headers, data) in enumerate(used):
        if not 0 <= headers < 256 or not 0 <= data < 1024:
            raise ValueError(f"VC {vc}: {headers} headers and {data} data words must be below 256 and 1024")
        word |= (data << 8 | headers) << 18 * vc
    return protect(word) if ecc else word


def credit_fields(word: int) -> list[tuple[int, int]]:
    """(header words, data words) of the two virtual channels of a CREDIT word."""
    return [(word >> 18 * vc & 0xFF, word >> 18 * vc + 8 & 0x3FF) for vc in range(2)]


def to_bytes(word: int) -> bytes:
    """16 bytes of a word, least significant first."""
    return word.to_bytes(16, "little")


def control(words: Sequence[int] = (), **values: int) -> int:
    """Control word of the reliable link that ends a cell of `words`."""
    word = pack(CONTROL, comma=COMMA, count=len(words), **values)
    crc = zlib.crc32(b"".join(map(to_bytes, words)) + to_bytes(word)[:12])
    return word | crc << 96


def control_is_right(word: int, words: Sequence[int] = ()) -> bool:
    """CRC, comma and count of a control word fit the words of its cell."""
    fields = unpack(CONTROL, word)
    crc = zlib.crc32(b"".join(map(to_bytes, words)) + to_bytes(word)[:12])
    return fields["comma"] == COMMA and fields["count"] == len(words) and fields["crc"] == crc


# --------------------------------------------------------------------------------------------------- packets

# Header bits that routers and links rewrite: vchan, out of lattice, hop counter, ECC.
REWRITTEN = 0x1F | 1 << 42 | 0x3FF << 110 | 0xFF << 120


def payload_words(payload: bytes) -> list[int]:
    """Payload words; the last is filled with zeros."""
    padded = payload + bytes(-len(payload) % 16)
    return [int.from_bytes(padded[at : at + 16], "little") for at in range(0, len(padded), 16)]


def packet_crc(head: int, payload: bytes, foot: int) -> int:
    """CRC-32 of header (without the rewritten bits), payload padded with zeros, and footer bits 95:0."""
    data = to_bytes(head & ~REWRITTEN) + payload + bytes(-len(payload) % 16) + to_bytes(foot)[:12]
    return zlib.crc32(data)


def packet(fields: dict[str, int], payload: bytes, foot: dict[str, int], ecc: bool = True) -> list[int]:
    """Words of a packet: header, payload, footer with CRC. `length` is set from the payload."""
    head = header(ecc, **fields, length=len(payload))
    tail = pack(FOOTER, **{**foot, "flags": foot.get("flags", 0) | CRC_PRESENT})
    return [head, *payload_words(payload), tail | packet_crc(head, payload, tail) << 96]


# --------------------------------------------------------------------------------------------------- routing

LOCAL = 6  # ports 0 - 5: X+, Y+, Z+, X-, Y-, Z-
ZYX = (2, 1, 0)


@dataclass(frozen=True)
class Routed:
    """Output port of a packet, its VC code there, and whether its destination lies outside the lattice."""

    port: int
    vchan: int
    out_of_lattice: bool = False


def route(
    size: Sequence[int],
    me: Sequence[int],
    in_port: int,
    to: Sequence[int],
    vchan: int = INJECT,
    order: Sequence[int] = ZYX,
    balanced: bool = False,
) -> Routed:
    """Next hop of a packet. Direction: the shorter way, plus where both are equal.

    VC 1 up to and including the wrap-around link, else VC 0; chosen at every hop, but kept for a packet from
    the node with a code other than 10000 and 10001. `balanced`, not INFN's rule: a packet that does not wrap
    takes the VC given by the parity of the coordinates where it enters the dimension and of its destination.
    """
    if any(there >= k for there, k in zip(to, size, strict=True)):
        return Routed(LOCAL, 0, True)
    for d in order:
        if to[d] == me[d]:
            continue
        k = size[d]
        forward = (to[d] - me[d]) % k
        plus = forward <= k // 2
        left = forward if plus else k - forward
        wraps = to[d] < me[d] if plus else to[d] > me[d]
        port = d if plus else d + 3
        vc = int(wraps)
        if in_port == LOCAL and vchan not in (0x10, 0x11):
            vc = vchan & 0xF
        elif balanced and not wraps:
            opposite = d + 3 if plus else d  # the input port of packets that stay in this direction
            if in_port != opposite:
                vc = (sum(me) + sum(to)) & 1
            elif me[d] != (0 if plus else k - 1):
                vc = vchan & 0xF
        return Routed(port, vc | (left == 1) << 4)
    return Routed(LOCAL, 0)


def neighbour(size: Sequence[int], node: Sequence[int], port: int) -> tuple[tuple[int, ...], int]:
    """(node, its input port) at the far end of the link of an output port."""
    d, step = port % 3, 1 if port < 3 else -1
    there = list(node)
    there[d] = (there[d] + step) % size[d]
    return tuple(there), (port + 3) % 6
