# SPDX-License-Identifier: Apache-2.0
"""Reference implementation of MGP in plain Python, written from docs/formats.md. Slow, to be read."""

import struct

SOB, EOB, TRUNCATED, ERROR, FIXED, LAST, PADDED = (1 << bit for bit in range(7))
HEADER = struct.Struct("<BBBBHBBI3sB")
EVENT = struct.Struct("<IBBBB")


def header(data: bytes) -> dict[str, int]:
    """Fields of the header."""
    source, board, version, flags, length, events, index, sequence, frame, burst = HEADER.unpack_from(data)
    return {
        "source": source,
        "board": board,
        "version": version,
        "flags": flags,
        "length": length,
        "events": events,
        "index": index & 15,
        "encoding": index >> 4,
        "sequence": sequence,
        "frame": int.from_bytes(frame, "little"),
        "burst": burst,
    }


def refusal(
    data: bytes,
    boards: int = 0xF,
    max_payload: int = 1472,
    max_frames: int = 751_500,
    source: int = 0x1C,
) -> str | None:
    """First name of the list of refusals that applies to the packet, or None."""
    if len(data) < 16:
        return "short_header"
    h = header(data)
    sob, eob = bool(h["flags"] & SOB), bool(h["flags"] & EOB)
    allowed = {0xFF} if boards == 0 else {board for board in range(4) if boards >> board & 1}
    length = h["length"]
    if h["version"] != 1:
        return "bad_version"
    if h["source"] != source:
        return "bad_source"
    if h["board"] not in allowed:
        return "bad_board"
    if h["encoding"] != 0:
        return "bad_encoding"
    if length < 16 or len(data) < length or (len(data) > length and not h["flags"] & PADDED):
        return "length_mismatch"
    if (sob and not eob and length != 16) or (eob and not sob and length != 40):
        return "length_mismatch"
    if len(data) > max_payload:
        return "oversized"
    if (sob or eob) and ((sob and eob) or h["events"] or h["flags"] & LAST):
        return "sob_eob_with_events"
    if not (sob or eob):
        broken = event_rules(data[:length], h)
        if broken:
            return broken
    if h["frame"] >= max_frames:
        return "frame_beyond_spill"
    return None


def event_rules(data: bytes, h: dict[str, int]) -> str | None:
    """First rule about events that the packet breaks, or None."""
    events = []
    at = 16
    for _ in range(h["events"]):
        if at + 8 > len(data):
            return "event_past_end"
        timestamp, _, stored, seen, _ = EVENT.unpack_from(data, at)
        size = 72 if h["flags"] & FIXED else 8 + 2 * stored
        if at + size > len(data):
            return "event_past_end"
        words = struct.unpack_from(f"<{min(stored, 32)}H", data, at + 8)
        events.append((timestamp, stored, seen, [word % 2048 for word in words]))
        at += size
    if at != len(data):
        return "trailing_bytes"
    if any(timestamp // 256 != h["frame"] for timestamp, _, _, _ in events):
        return "timestamp_outside_frame"
    if any(stored > 32 for _, stored, _, _ in events):
        return "hits_above_32"
    if any(seen < stored for _, stored, seen, _ in events):
        return "seen_below_stored"
    pms = [pm for _, _, _, event_pms in events for pm in event_pms]
    if any(pm > 1951 for pm in pms):
        return "pm_out_of_range"
    if h["board"] != 0xFF and any(pm // 512 != h["board"] for pm in pms):
        return "pm_of_other_board"
    return None


def encode(fields: dict[str, int], events: list[tuple[int, int, list[tuple[int, int]], int, int]]) -> bytes:
    """A packet; events as in _core.wire.encode_packet: (timestamp, fine, [(PM, LSB)], seen, flags)."""
    body = b""
    for timestamp, fine, hits, seen, flags in events:
        words = [pm | (lsb // 4 % 32) << 11 for pm, lsb in hits]
        if fields.get("flags", 0) & FIXED:
            words += [0xFFFF] * (32 - len(words))
        body += EVENT.pack(timestamp, fine, len(hits), seen, flags) + struct.pack(f"<{len(words)}H", *words)
    h = {
        "source": 0x1C,
        "board": 0,
        "version": 1,
        "flags": 0,
        "index": 0,
        "encoding": 0,
        "sequence": 0,
        "frame": 0,
        "burst": 0,
    }
    h |= fields
    index = h["index"] | h["encoding"] << 4
    frame = h["frame"].to_bytes(3, "little")
    return (
        HEADER.pack(
            h["source"],
            h["board"],
            h["version"],
            h["flags"],
            16 + len(body),
            len(events),
            index,
            h["sequence"],
            frame,
            h["burst"],
        )
        + body
    )
