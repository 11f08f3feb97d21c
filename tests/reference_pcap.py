# SPDX-License-Identifier: Apache-2.0
"""Captures for tests: UDP datagrams in Ethernet frames, foreign frames, classic pcap."""

from __future__ import annotations

import random
import struct
from pathlib import Path

PORT = 58913


def internet_checksum(data: bytes) -> int:
    """Checksum of RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp_frame(
    content: bytes,
    port: int = PORT,
    checksum: str = "right",
    options: bytes = b"",
    fragment: int = 0,
    protocol: int = 17,
    udp_length: int | None = None,
) -> bytes:
    """Ethernet frame with a UDP datagram. checksum: right, none or wrong."""
    length = 8 + len(content) if udp_length is None else udp_length
    addresses = bytes((10, 0, 0, 1, 10, 0, 0, 2))
    udp = struct.pack(">4H", 40000, port, length & 0xFFFF, 0) + content
    check = internet_checksum(addresses + struct.pack(">HH", 17, length & 0xFFFF) + udp) or 0xFFFF
    check = {"right": check, "none": 0, "wrong": check ^ 0x5555}[checksum]
    udp = udp[:6] + struct.pack(">H", check) + udp[8:]
    total = 20 + len(options) + len(udp)
    ip = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, total, 7, fragment, 64, protocol, 0)
    ip += addresses + options
    ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
    return bytes(6) + bytes((2, 0, 0, 0, 0, 1)) + b"\x08\x00" + ip + udp


def not_mgp(rng: random.Random) -> tuple[bytes, int]:
    """A frame that is no packet to the MGP port, and its length on the wire."""
    content = rng.randbytes(rng.randrange(20, 100))
    good = udp_frame(content)
    frame = rng.choice(
        (
            lambda: udp_frame(content, protocol=6),
            lambda: udp_frame(content, port=PORT + 1),
            lambda: udp_frame(content, fragment=0x2000),
            lambda: udp_frame(content, fragment=0x0010),
            lambda: udp_frame(content, checksum="wrong"),
            lambda: good[:24] + bytes((good[24] ^ 1,)) + good[25:],
            lambda: good[:12] + b"\x81\x00\x00\x05\x08\x00" + good[14:],
            lambda: good[:12] + b"\x86\xdd" + good[14:],
            lambda: good[:12] + b"\x08\x06" + good[14:],
            lambda: udp_frame(content, udp_length=rng.choice((0, 7, 9 + len(content), 65535))),
            lambda: good[: rng.randrange(len(good))],
        )
    )()
    return frame, len(frame) if frame != good[: len(frame)] or len(frame) == len(good) else len(good)


def pcap(frames: list[tuple[bytes, int]], order: str = "<", nano: bool = True) -> bytes:
    """Classic pcap of Ethernet frames; (captured bytes, length on the wire)."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 1)]
    for at, (data, original) in enumerate(frames):
        out.append(struct.pack(order + "4I", 1_700_000_000, at % 1_000_000, len(data), original) + data)
    return b"".join(out)


def write_pcap(path: Path, datagrams: list[bytes]) -> Path:
    """A capture of these datagrams alone."""
    path.write_bytes(pcap([(frame, len(frame)) for frame in map(udp_frame, datagrams)]))
    return path


def capture(datagrams: list[bytes], rng: random.Random, foreign: float) -> bytes:
    """A capture of the datagrams in random valid framing, with foreign frames in between."""
    frames: list[tuple[bytes, int]] = []
    for data in datagrams:
        while rng.random() < foreign:
            frames.append(not_mgp(rng))
        frame = udp_frame(
            data,
            checksum="none" if rng.random() < 0.1 else "right",
            options=bytes((1, 1, 1, 0)) if rng.random() < 0.05 else b"",
        )
        frame = frame.ljust(60, b"\0")
        frames.append((frame, len(frame)))
    return pcap(frames, rng.choice("<>"), rng.random() < 0.5)
