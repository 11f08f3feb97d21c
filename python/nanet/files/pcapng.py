# SPDX-License-Identifier: Apache-2.0
"""Conversion of pcapng captures to classic pcap, the format that the core reads.

dpkt decodes the interface blocks. Packet blocks are decoded here, as dpkt's reader drops nanoseconds and the
length on the wire (which marks truncated frames), and supports one interface only.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nanet.errors import UsageError, describe_os_error

MAGIC = b"\x0a\x0d\x0d\x0a"
CLASSIC_MAGIC_NS = 0xA1B23C4D
ETHERNET = 1
MAX_FRAME = 262_144  # largest record of a capture
MAX_BLOCK = 1 << 24

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
OPTION_RESOLUTION, OPTION_OFFSET = 9, 14


class Interface(NamedTuple):
    """Properties of an interface that its packet blocks need."""

    link_type: int
    snap_length: int
    ticks_per_s: int
    offset_s: int


class Packet(NamedTuple):
    """A captured frame: time since the epoch, length on the wire, bytes."""

    time_ns: int
    original: int
    frame: bytes


class _Damaged(Exception):
    """A block is invalid."""


class _CutOff(Exception):
    """The file ends within a block."""


def is_pcapng(path: str | os.PathLike[str]) -> bool:
    """Whether the file starts as a pcapng. OSError if it cannot be read."""
    with open(path, "rb") as file:
        return file.read(4) == MAGIC


def to_pcap(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Writes the packets of the pcapng `source` to the pcap `target` (nanoseconds); returns their number.

    A capture that ends within a block gives a pcap that ends within a record, so the reader detects it
    too. UsageError names file and remedy, if the capture is damaged or a packet is not from Ethernet.
    """
    count = 0
    try:
        with open(source, "rb") as file, open(target, "wb") as out:
            out.write(struct.pack("<IHHiIII", CLASSIC_MAGIC_NS, 2, 4, 0, 0, MAX_FRAME, ETHERNET))
            try:
                for time_ns, original, frame in _packets(file):
                    seconds, fraction = divmod(time_ns, 1_000_000_000)
                    out.write(struct.pack("<IIII", seconds & 0xFFFFFFFF, fraction, len(frame), original))
                    out.write(frame)
                    count += 1
            except _CutOff:
                out.write(bytes(8))  # half a record header
            except _Damaged as error:
                remedy = "give a whole pcapng of an Ethernet interface, or what `editcap -F pcap` makes of it"
                raise UsageError(f"{os.fspath(source)}: {error}: {remedy}") from None
    except OSError as error:
        raise UsageError(f"{describe_os_error(error)}: cannot convert the pcapng to a pcap") from None
    return count


@contextlib.contextmanager
def as_classic_pcap(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the path of a classic pcap: `path`, or a temporary file converted from a pcapng.

    UsageError if the file cannot be read or converted.
    """
    try:
        convert = is_pcapng(path)
    except OSError as error:
        raise UsageError(f"{describe_os_error(error)}: give a pcap or pcapng file that can be read") from None
    if not convert:
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="nanet-") as folder:
        target = Path(folder) / "capture.pcap"
        to_pcap(path, target)
        yield str(target)


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise _CutOff
    return data


def _blocks(file: BinaryIO) -> Iterator[tuple[int, str, bytes]]:
    """Type, byte order and body of each block."""
    order = "<"
    while head := file.read(8):
        if len(head) < 8:
            raise _CutOff
        at = file.tell() - 8
        if head[:4] == MAGIC:  # the same in both byte orders; the next word gives the order
            mark = _read(file, 4)
            order = ">" if mark == b"\x1a\x2b\x3c\x4d" else "<"
            if struct.unpack(f"{order}I", mark)[0] != 0x1A2B3C4D:
                raise _Damaged(f"a section without a byte order at byte {at}")
            head += mark
        kind, length = struct.unpack_from(f"{order}II", head)
        if length < len(head) + 4 or length % 4 or length > MAX_BLOCK:
            raise _Damaged(f"a block of {length} bytes at byte {at}")
        body = head[8:] + _read(file, length - len(head) - 4)
        if struct.unpack(f"{order}I", _read(file, 4))[0] != length:
            raise _Damaged(f"a block whose two lengths differ at byte {at}")
        yield kind, order, body


def _interface(order: str, body: bytes) -> Interface:
    import dpkt
    from dpkt.pcapng import InterfaceDescriptionBlock, InterfaceDescriptionBlockLE

    length = struct.pack(f"{order}I", len(body) + 12)
    block_type = InterfaceDescriptionBlockLE if order == "<" else InterfaceDescriptionBlock
    try:
        block = block_type(struct.pack(f"{order}I", INTERFACE) + length + body + length)
    except (dpkt.Error, struct.error, ValueError):
        raise _Damaged("an interface description that cannot be read") from None
    ticks, offset = 1_000_000, 0
    for option in block.opts:
        if option.code == OPTION_RESOLUTION and len(option.data) == 1:
            exponent = option.data[0] & 0x7F
            ticks = (2 if option.data[0] & 0x80 else 10) ** exponent
        elif option.code == OPTION_OFFSET and len(option.data) == 8:
            offset = struct.unpack(f"{order}q", option.data)[0]
    return Interface(block.linktype, block.snaplen, ticks, offset)


def _packets(file: BinaryIO) -> Iterator[Packet]:
    interfaces: list[Interface] = []

    def packet(index: int, ticks: int, captured: int, original: int, data: bytes) -> Packet:
        if index >= len(interfaces):
            raise _Damaged(f"a packet of interface {index}, which is not described")
        interface = interfaces[index]
        if interface.link_type != ETHERNET:
            raise _Damaged(f"link type {interface.link_type} is not Ethernet (1)")
        if captured > len(data) or captured > MAX_FRAME:
            raise _Damaged(f"a packet of {captured} bytes in a block of {len(data)}")
        time_ns = interface.offset_s * 1_000_000_000 + ticks * 1_000_000_000 // interface.ticks_per_s
        return Packet(time_ns, original, data[:captured])

    for kind, order, body in _blocks(file):
        try:
            if kind == SECTION:
                if struct.unpack_from(f"{order}H", body, 4)[0] != 1:
                    raise _Damaged("an unknown version of pcapng")
                interfaces.clear()
            elif kind == INTERFACE:
                interfaces.append(_interface(order, body))
            elif kind == ENHANCED_PACKET:
                index, high, low, captured, original = struct.unpack_from(f"{order}IIIII", body)
                yield packet(index, high << 32 | low, captured, original, body[20:])
            elif kind == OLD_PACKET:
                index, _, high, low, captured, original = struct.unpack_from(f"{order}HHIIII", body)
                yield packet(index, high << 32 | low, captured, original, body[20:])
            elif kind == SIMPLE_PACKET:  # on the first interface, without a time
                (original,) = struct.unpack_from(f"{order}I", body)
                limit = interfaces[0].snap_length if interfaces else 0
                yield packet(0, 0, min(original, limit or original), original, body[4:])
        except struct.error:
            raise _Damaged(f"a block of type {kind} that is too short") from None
