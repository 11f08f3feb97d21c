# SPDX-License-Identifier: SHL-2.1
"""Reference model of the Ethernet receive path: sound and malformed frames with their expected results."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

VERDICTS = [
    "udp",
    "not_udp",
    "other_port",
    "ip_fragment",
    "bad_checksum",
    "not_ipv4",
    "cut_short",
    "udp_length",
    "bad_fcs",
    "other_mac",
    "other_ip",
    "arp",
    "overflow",
]


@dataclass
class Filter:
    """filter_t of nanet_pkg."""

    dst_port: int = 58913
    enable: int = 1
    vlan: int = 0
    vlan_id: int = 0
    dst_ip: int = 0
    src_ip: int = 0
    src_mask: int = 0
    src_port: int = 0

    def pack(self) -> int:
        """Return the structure as a number."""
        value = 0
        for width, part in (
            (1, self.enable),
            (1, self.vlan),
            (12, self.vlan_id),
            (32, self.dst_ip),
            (16, self.dst_port),
            (32, self.src_ip),
            (32, self.src_mask),
            (16, self.src_port),
        ):
            value = value << width | part
        return value


FILTER_BITS = 142


@dataclass
class Host:
    """host_t of nanet_pkg, with its filters."""

    mac: int = 0x02_00_0A_00_00_01
    ip: int = 0x0A000001
    filters: list[Filter] = field(default_factory=lambda: [Filter()])


def checksum(data: bytes, start: int = 0) -> int:
    """Return the ones' complement sum of big-endian words, folded, not inverted."""
    if len(data) % 2:
        data += b"\0"
    total = start + sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp_frame(
    payload: bytes,
    host: Host,
    dst_mac: int | None = None,
    src_mac: int = 0x02_00_0A_00_00_09,
    dst_ip: int | None = None,
    src_ip: int = 0x0A000009,
    dst_port: int = 58913,
    src_port: int = 40000,
    vlan: int | None = None,
    ethertype: int = 0x0800,
    version: int = 4,
    options: bytes = b"",
    ihl: int | None = None,
    total: int | None = None,
    fragment: int = 0x4000,
    protocol: int = 17,
    udp_length: int | None = None,
    udp_checksum: int | None = None,
    ip_checksum_error: int = 0,
    udp_checksum_error: int = 0,
    pad: bool = True,
) -> bytes:
    """Build a UDP frame; every field can be overridden with a wrong value."""
    dst_ip = host.ip if dst_ip is None else dst_ip
    length = 8 + len(payload) if udp_length is None else udp_length
    header = bytearray(
        struct.pack(
            ">BBHHHBBHII",
            version << 4 | (5 + len(options) // 4 if ihl is None else ihl),
            0,
            20 + len(options) + 8 + len(payload) if total is None else total,
            0x1234,
            fragment,
            64,
            protocol,
            0,
            src_ip,
            dst_ip,
        )
        + options
    )
    right = ~checksum(bytes(header)) & 0xFFFF
    struct.pack_into(">H", header, 10, right ^ ip_checksum_error)
    udp = struct.pack(">HHHH", src_port, dst_port, length, 0) + payload
    pseudo = struct.pack(">IIBBH", src_ip, dst_ip, 0, 17, length)
    if udp_checksum is None:
        udp_checksum = (~checksum(pseudo + udp) & 0xFFFF) or 0xFFFF
    udp = udp[:6] + struct.pack(">H", udp_checksum ^ udp_checksum_error) + udp[8:]
    mac = host.mac if dst_mac is None else dst_mac
    frame = mac.to_bytes(6, "big") + src_mac.to_bytes(6, "big")
    if vlan is not None:
        frame += struct.pack(">HH", 0x8100, vlan)
    frame += struct.pack(">H", ethertype) + bytes(header) + udp
    return frame + bytes(max(0, 60 - len(frame))) if pad else frame


def arp_frame(
    host: Host,
    operation: int = 1,
    target: int | None = None,
    mac: int = 0x02_00_0A_00_00_09,
    ip: int = 0x0A000009,
    dst_mac: int = 0xFFFFFFFFFFFF,
) -> bytes:
    """Build an ARP packet (RFC 826)."""
    target = host.ip if target is None else target
    body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + mac.to_bytes(6, "big")
    body += struct.pack(">I", ip) + bytes(6) + struct.pack(">I", target)
    frame = dst_mac.to_bytes(6, "big") + mac.to_bytes(6, "big") + b"\x08\x06" + body
    return frame + bytes(60 - len(frame))


@dataclass
class Judged:
    """Expected result of a frame."""

    verdict: str
    payload: bytes = b""
    filter: int = 0
    src_ip: int = 0
    src_port: int = 0


def judge(frame: bytes, host: Host, bad: bool = False) -> Judged:
    """Return a frame's result, in the priority order of nanet_pkg, and an accepted datagram's payload."""
    if bad:
        return Judged("bad_fcs")
    if len(frame) < 14:
        own = len(frame) > 8 and frame[:6] != host.mac.to_bytes(6, "big") and not frame[0] & 1
        return Judged("other_mac" if own else "cut_short")
    if frame[:6] != host.mac.to_bytes(6, "big") and not frame[0] & 1:
        return Judged("other_mac")
    ethertype, at, tag = int.from_bytes(frame[12:14], "big"), 14, None
    if ethertype == 0x0806:
        return Judged("arp")
    if ethertype == 0x8100:
        tag = int.from_bytes(frame[14:16], "big") & 0xFFF
        ethertype, at = int.from_bytes(frame[16:18], "big"), 18
    tagged = [
        f.enable and f.vlan == (tag is not None) and (tag is None or f.vlan_id == tag) for f in host.filters
    ]
    if ethertype != 0x0800 or (tag is not None and not any(tagged)):
        return Judged("not_ipv4")
    ip = frame[at:]
    if len(ip) < 20:
        return Judged("cut_short")
    header, total = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
    if ip[0] >> 4 != 4 or header < 20 or total < header:
        return Judged("not_ipv4")
    if len(ip) < header:
        return Judged("cut_short")
    if checksum(ip[:header]) != 0xFFFF:
        return Judged("bad_checksum")
    if ip[9] != 17:
        return Judged("not_udp")
    if int.from_bytes(ip[6:8], "big") & 0x3FFF:
        return Judged("ip_fragment")
    if total - header < 8:
        return Judged("udp_length")
    if len(ip) < header + 8:
        return Judged("cut_short")
    src_ip, dst_ip = struct.unpack(">II", ip[12:20])
    src_port, dst_port, length, given = struct.unpack(">HHHH", ip[header : header + 8])
    heard = [t and dst_ip == (f.dst_ip or host.ip) for t, f in zip(tagged, host.filters, strict=True)]
    if not any(heard):
        return Judged("other_ip")
    fits = [
        h and dst_port == f.dst_port and not (src_ip ^ f.src_ip) & f.src_mask and f.src_port in (0, src_port)
        for h, f in zip(heard, host.filters, strict=True)
    ]
    if not any(fits):
        return Judged("other_port")
    if len(ip) < total:
        return Judged("cut_short")
    if length < 8 or length > total - header:
        return Judged("udp_length")
    udp = ip[header : header + length]
    if given and checksum(struct.pack(">IIHH", src_ip, dst_ip, 17, length) + udp) != 0xFFFF:
        return Judged("bad_checksum")
    return Judged("udp", udp[8:], fits.index(True), src_ip, src_port)


def malformed(rng: random.Random, host: Host, size: int | None = None) -> bytes:
    """Return a frame with none, one or two random faults."""
    payload = rng.randbytes(rng.choice([0, 1, 16, 18, 40, 100]) if size is None else size)
    changes = {}
    for _ in range(rng.choice([0, 1, 1, 2])):
        name, values = rng.choice(
            [
                ("dst_mac", [0x02_00_0A_00_00_02, 0xFFFFFFFFFFFF, 0x01005E000001]),
                ("ethertype", [0x86DD, 0x0800, 0x88F7, 0x0806]),
                ("version", [6, 4, 0]),
                ("options", [bytes(4), bytes(8), rng.randbytes(12), rng.randbytes(40)]),
                ("ihl", [0, 4, 6, 15]),
                ("total", [0, 19, 27, 28, 60, 1500, 65535]),
                ("fragment", [0, 0x2000, 1, 0x1FFF]),
                ("protocol", [6, 1, 17]),
                ("udp_length", [0, 7, 8, 9, 100, 65535]),
                ("udp_checksum", [0, 1, 0xFFFF]),
                ("ip_checksum_error", [1, 0x8000, 0xFFFF]),
                ("udp_checksum_error", [1, 0x8000, 0xFFFF]),
                ("dst_ip", [0x0A000002, 0xE0000001, 0xFFFFFFFF]),
                ("dst_port", [58914, 0, 58913]),
                ("src_ip", [0, 0xFFFFFFFF]),
                ("vlan", [5, 7, 0x2005]),
            ]
        )
        changes[name] = rng.choice(values)
    frame = udp_frame(payload, host, pad=rng.random() < 0.7, **changes)
    cut = rng.random()
    if cut < 0.15:
        frame = frame[: rng.randrange(1, len(frame))]
    elif cut < 0.25:
        frame += rng.randbytes(rng.randrange(1, 30))
    return frame
