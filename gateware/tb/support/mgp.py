# SPDX-License-Identifier: SHL-2.1
"""MGP packet generator: sound packets, and every fault that docs/formats.md names."""

from __future__ import annotations

import random

import reference_mgp as mgp

REFUSALS = [
    "short_header",
    "bad_version",
    "bad_source",
    "bad_board",
    "bad_encoding",
    "length_mismatch",
    "oversized",
    "sob_eob_with_events",
    "event_past_end",
    "trailing_bytes",
    "timestamp_outside_frame",
    "hits_above_32",
    "seen_below_stored",
    "pm_out_of_range",
    "pm_of_other_board",
    "frame_beyond_spill",
    "wrong_burst",
    None,
]


def packet(
    rng: random.Random,
    board: int = 0,
    frame: int = 0,
    sequence: int = 0,
    index: int = 0,
    last: bool = True,
    events: int | None = None,
    flags: int = 0,
    burst: int = 0,
    hits: int = 32,
    room: int = 1472,
) -> bytes:
    """Return a sound packet with random events within `room` bytes."""
    fixed = bool(flags & mgp.FIXED)
    first, end = (0, 1952) if board == 0xFF else (512 * board, min(512 * board + 512, 1952))
    count = rng.randrange(0, 8) if events is None else events
    chosen, size = [], 16
    for _ in range(count):
        stored = rng.randrange(0, hits + 1)
        size += 72 if fixed else 8 + 2 * stored
        if size > room:
            break
        pms = [(rng.randrange(first, end), rng.randrange(-16, 16) * 4) for _ in range(stored)]
        chosen.append(
            (frame << 8 | rng.randrange(256), rng.randrange(256), pms, rng.randrange(stored, 256), 0)
        )
    fields = {"board": board, "frame": frame, "sequence": sequence, "index": index, "burst": burst}
    fields["flags"] = flags | (mgp.LAST if last else 0)
    return mgp.encode(fields, chosen)


def marker(board: int, flag: int, frame: int = 0, sequence: int = 0, burst: int = 0) -> bytes:
    """Return an SOB or EOB."""
    head = mgp.encode(
        {"board": board, "flags": flag, "frame": frame, "sequence": sequence, "burst": burst}, []
    )
    if flag & mgp.EOB:
        head = head[:4] + (40).to_bytes(2, "little") + head[6:] + bytes(24)
    return head


def broken(rng: random.Random, board: int = 0) -> bytes:
    """Return a packet with up to a few random faults in its headers and sizes."""
    kind = rng.random()
    frame = rng.choice([0, 1, 1000, 751_499])
    if kind < 0.1:
        data = marker(board, rng.choice([mgp.SOB, mgp.EOB, mgp.SOB | mgp.EOB, mgp.SOB | mgp.LAST]), frame)
    else:
        flags = rng.choice([0, 0, mgp.FIXED, mgp.TRUNCATED])
        data = packet(rng, board, frame, rng.getrandbits(32), rng.randrange(16), True, flags=flags, hits=9)
    data = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        way = rng.random()
        if way < 0.35:
            data[rng.randrange(min(16, len(data)))] = rng.choice(
                [0, 1, 2, 0x1C, 0x30, 0xFF, rng.randrange(256)]
            )
        elif way < 0.6 and len(data) > 16:
            data[rng.randrange(16, len(data))] = rng.choice([0, 33, 0xFF, rng.randrange(256)])
        elif way < 0.7:
            data[4:6] = max(0, int.from_bytes(data[4:6], "little") + rng.randrange(-9, 10)).to_bytes(
                2, "little"
            )
        elif way < 0.8 and len(data) > 1:
            del data[rng.randrange(len(data)) :]
        elif way < 0.9:
            data += rng.randbytes(rng.randrange(1, 40))
            if rng.random() < 0.7:
                data[3 % len(data)] |= mgp.PADDED
        elif len(data) > 6:
            data[6] = max(0, min(255, data[6] + rng.choice([-1, 1])))
    return bytes(data)
