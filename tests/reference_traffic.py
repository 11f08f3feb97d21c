# SPDX-License-Identifier: Apache-2.0
"""Traffic of readout boards for tests, valid and malformed: random with a seed, encoded without nanet."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SOB, EOB, TRUNCATED, ERROR, FIXED, LAST, PADDED = (1 << bit for bit in range(7))
PORT = 58913
FRAME_LSB = 65536

Hit = tuple[int, int]  # PM ID, time difference in steps of 4 LSB
EventTuple = tuple[int, list[Hit], int, int]  # time in LSB since SOB, hits, hits seen, flags


def header(
    board: int,
    flags: int,
    length: int,
    events: int,
    index: int,
    sequence: int,
    frame: int,
    burst: int,
    source: int = 0x1C,
    version: int = 1,
) -> bytes:
    """Header of an MGP packet, 16 B."""
    head = struct.pack("<BBBBHBBI", source, board, version, flags, length & 0xFFFF, events, index, sequence)
    return head + (frame & 0xFFFFFF).to_bytes(3, "little") + bytes([burst & 0xFF])


def event_bytes(event: EventTuple, fixed: bool) -> bytes:
    """One event of an MGP packet."""
    time, hits, seen, flags = event
    words = [pm | (steps & 31) << 11 for pm, steps in hits]
    if fixed:
        words += [0xFFFF] * (32 - len(words))
    return struct.pack(
        f"<IBBBB{len(words)}H", time >> 8 & 0xFFFFFFFF, time & 255, len(hits), seen, flags, *words
    )


@dataclass
class Sender:
    """One board; numbers its packets."""

    board: int
    burst: int = 0
    sequence: int = 0
    fixed: bool = False
    room: int = 1472  # largest datagram

    def sob(self) -> bytes:
        """Start of burst; the sequence starts again."""
        self.sequence = 0
        return self.packet(SOB, 0, 0, [])

    def eob(self, frame: int) -> bytes:
        """End of burst."""
        return self.packet(EOB, frame, 0, [], struct.pack("<IIQQ", frame + 1, self.sequence + 1, 0, 0))

    def packet(
        self, flags: int, frame: int, index: int, events: list[EventTuple], tail: bytes = b""
    ) -> bytes:
        """A packet with the next sequence number."""
        fixed = bool(flags & FIXED)
        body = b"".join(event_bytes(event, fixed) for event in events) + tail
        head = header(self.board, flags, 16 + len(body), len(events), index, self.sequence, frame, self.burst)
        self.sequence = (self.sequence + 1) & 0xFFFFFFFF
        return head + body

    def frame(self, frame: int, events: list[EventTuple], rng: random.Random, most: int = 255) -> list[bytes]:
        """All packets of a frame, split at `most` events or at the largest datagram."""
        groups: list[list[EventTuple]] = [[]]
        size = 16
        for event in events:
            need = len(event_bytes(event, self.fixed))
            if size + need > self.room or len(groups[-1]) >= most:
                groups.append([])
                size = 16
            groups[-1].append(event)
            size += need
        truncated = TRUNCATED if len(groups) > 16 else 0
        groups = groups[:16]
        flags = (FIXED if self.fixed else 0) | truncated | (ERROR if rng.random() < 0.02 else 0)
        return [
            self.packet(flags | (LAST if index == len(groups) - 1 else 0), frame, index, group)
            for index, group in enumerate(groups)
        ]


# ------------------------------------------------------------------------------------------------ events


def board_of(pm: int) -> int:
    """Board that reads a PM."""
    return pm // 512


def ring_hits(rng: random.Random, plane: list[tuple[float, float]]) -> list[int]:
    """Some PMs within 9 mm of a random circle, in random order."""
    x, y, r = rng.gauss(-152, 60), rng.gauss(0, 60), rng.uniform(100, 195)
    near = [pm for pm, (px, py) in enumerate(plane) if abs(math.hypot(px - x, py - y) - r) < 9]
    return rng.sample(near, min(len(near), rng.randint(3, 16)))


def random_fragments(
    rng: random.Random, boards: tuple[int, ...], time: int, plane: list[tuple[float, float]]
) -> dict[int, EventTuple]:
    """One physics event, split into the fragments of the boards."""
    kind = rng.random()
    if kind < 0.5:
        pms = ring_hits(rng, plane)
    elif kind < 0.9:
        pms = [rng.randrange(1952) for _ in range(rng.choice((0, 1, 2, 3, 5, 20, 60)))]
    else:
        pms = []
    if pms and rng.random() < 0.1:
        pms += rng.choices(pms, k=rng.randint(1, 3))
    merged = boards == (0xFF,)
    per_board: dict[int, list[Hit]] = {}
    for pm in pms:
        steps = rng.randint(-16, 15) if rng.random() < 0.05 else rng.randint(-3, 3)
        per_board.setdefault(0xFF if merged else board_of(pm), []).append((pm, steps))
    if rng.random() < 0.1:
        per_board.setdefault(rng.choice(boards), [])
    fragments = {}
    for board, hits in per_board.items():
        if board not in boards:
            continue
        shift = rng.randint(-12, 12) if rng.random() < 0.9 else rng.randint(-60, 60)
        truncated = len(hits) > 32 or rng.random() < 0.03
        seen = min(len(hits) + (rng.randint(0, 300) if truncated else 0), 255)
        flags = truncated | (rng.randrange(128) << 1 if rng.random() < 0.05 else 0)
        fragments[board] = (max(time + shift, 0), hits[:32], seen, flags)
    return fragments


def frame_events(
    rng: random.Random, boards: tuple[int, ...], frames: int, first: int, plane: list, mean: float
) -> dict[tuple[int, int], list[EventTuple]]:
    """Fragments of random events by (frame, board); some events lie at the edges between frames."""
    out: dict[tuple[int, int], list[EventTuple]] = {}
    for frame in range(first, first + frames):
        if rng.random() < 0.02:
            many = rng.choice((40, 300))
            times = [frame * FRAME_LSB + rng.randrange(FRAME_LSB) for _ in range(many)]
            few = True
        else:
            count = min(int(rng.expovariate(1 / mean)), 40) if mean else 0
            times = [frame * FRAME_LSB + rng.randrange(FRAME_LSB) for _ in range(count)]
            few = False
        if rng.random() < 0.2:
            times.append(frame * FRAME_LSB + rng.randint(-15, 15))
        if times and rng.random() < 0.2:
            times += [times[0] + rng.randint(-60, 60) for _ in range(3)]
        for time in times:
            if few:
                board = rng.choice(boards)
                pm = rng.randrange(1952) if board == 0xFF else min(512 * board + rng.randrange(512), 1951)
                fragments = {board: (time, [(pm, 0)] * (rng.random() < 0.9), 1, 0)}
            else:
                fragments = random_fragments(rng, boards, max(time, 0), plane)
            for board, event in fragments.items():
                if first * FRAME_LSB <= event[0] < (first + frames) * FRAME_LSB:
                    out.setdefault((event[0] // FRAME_LSB, board), []).append(event)
    for events in out.values():
        if rng.random() < 0.5:
            events.sort(key=lambda event: event[0])
    return out


# ---------------------------------------------------------------------------------------------- hostility


def edit(data: bytes, at: int, value: int, size: int = 1) -> bytes:
    """The bytes with one little-endian field replaced."""
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def sized(data: bytes) -> bytes:
    """The packet with a correct length field."""
    return edit(data, 4, len(data), 2)


def with_event(data: bytes, event: bytes) -> bytes:
    """The packet with one more event, its header unchanged."""
    return sized(edit(edit(data, 6, data[6] + 1), 3, data[3] & ~FIXED)[:] + event)


def bare(data: bytes, board: int | None = None) -> bytes:
    """Header of the packet as an empty packet."""
    out = edit(edit(edit(data[:16], 6, 0), 4, 16, 2), 3, data[3] & ~FIXED & ~PADDED)
    return out if board is None else edit(out, 1, board)


def _event_of(
    data: bytes, fine: int = 0, stored: int = 0, seen: int | None = None, words: Sequence[int] = ()
) -> bytes:
    timestamp = int.from_bytes(data[12:15], "little") << 8
    seen = stored if seen is None else seen
    return struct.pack(f"<IBBBB{len(words)}H", timestamp, fine, stored, seen, 0, *words)


def _own_pm(data: bytes) -> int:
    return 0 if data[1] == 0xFF else 512 * (data[1] & 3)


# name -> (valid packet, random) -> packet that must be refused with that name
MALFORMED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "short_header": lambda d, r: d[: r.randrange(16)],
    "bad_version": lambda d, r: edit(d, 2, r.choice((0, 2, 255))),
    "bad_source": lambda d, r: edit(d, 0, r.choice((0, 0x1D, 255))),
    "bad_board": lambda d, r: edit(d, 1, r.choice((4, 8, 200, 254))),
    "bad_encoding": lambda d, r: edit(d, 7, d[7] & 15 | r.randint(1, 15) << 4),
    "length_mismatch": lambda d, r: r.choice(
        (
            lambda: bare(d) + bytes(r.randint(1, 40)),
            lambda: edit(bare(d), 4, r.choice((0, 15, 17, 0xFFFF)), 2),
            lambda: edit(edit(bare(d), 3, SOB | PADDED), 4, 15, 2) + b"\0",
            lambda: sized(edit(bare(d), 3, SOB) + bytes(2)),
            lambda: sized(edit(bare(d), 3, EOB) + bytes(r.choice((0, 23, 25)))),
        )
    )(),
    "oversized": lambda d, r: edit(bare(d), 3, PADDED) + bytes(1473 - 16 + r.randrange(200)),
    "sob_eob_with_events": lambda d, r: r.choice(
        (
            lambda: edit(edit(bare(d), 3, SOB), 6, 1),
            lambda: edit(bare(d), 3, SOB | LAST),
            lambda: sized(edit(edit(bare(d), 3, EOB), 6, 3) + bytes(24)),
            lambda: sized(edit(bare(d), 3, EOB | LAST) + bytes(24)),
            lambda: edit(bare(d), 3, SOB | EOB),
        )
    )(),
    "event_past_end": lambda d, r: r.choice(
        (
            lambda: edit(bare(d), 6, r.randint(1, 255)),
            lambda: with_event(bare(d), _event_of(d, stored=3, words=[_own_pm(d)] * 2)),
            lambda: edit(with_event(bare(d), _event_of(d)), 3, FIXED),
            lambda: with_event(bare(d), _event_of(d, stored=255, words=[_own_pm(d)] * 33)),
            lambda: edit(edit(with_event(bare(d), _event_of(d)), 6, 2), 16, 0, 4),
        )
    )(),
    "trailing_bytes": lambda d, r: r.choice(
        (
            lambda: sized(bare(d) + bytes(r.randint(1, 60))),
            lambda: sized(with_event(bare(d), _event_of(d, stored=1, words=[_own_pm(d)])) + b"\0"),
        )
    )(),
    "timestamp_outside_frame": lambda d, r: with_event(
        bare(d), edit(_event_of(d), 0, (int.from_bytes(d[12:15], "little") + 1 << 8) & 0xFFFFFFFF, 4)
    ),
    "hits_above_32": lambda d, r: r.choice(
        (
            lambda: with_event(bare(d), _event_of(d, stored=33, words=[_own_pm(d)] * 33)),
            lambda: edit(with_event(bare(d), _event_of(d, stored=255, words=[_own_pm(d)] * 32)), 3, FIXED),
        )
    )(),
    "seen_below_stored": lambda d, r: with_event(
        bare(d), _event_of(d, stored=2, seen=1, words=[_own_pm(d), _own_pm(d) + 1])
    ),
    "pm_out_of_range": lambda d, r: with_event(
        bare(d), _event_of(d, stored=1, words=[r.randint(1952, 2047) | 0x8000])
    ),
    "pm_of_other_board": lambda d, r: with_event(
        bare(d, d[1] & 3), _event_of(d, stored=1, words=[(512 * (d[1] & 3) + 512) % 1951])
    ),
    "frame_beyond_spill": lambda d, r: edit(bare(d), 12, r.choice((751_500, 0xFFFFFF)), 3),
}


def corrupt(data: bytes, rng: random.Random) -> bytes:
    """The packet with some bytes changed."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if out:
            at = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 16))
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


@dataclass
class Faults:
    """Probabilities for each packet."""

    drop: float = 0
    dup: float = 0
    reorder: float = 0
    corrupt: float = 0
    delay: float = 0
    malformed: float = 0
    wild: float = 0  # some fields of the header replaced

    def apply(self, packets: list[bytes], rng: random.Random) -> list[bytes]:
        """The packets in order of arrival."""
        slots: list[tuple[float, bytes]] = []
        for at, data in enumerate(packets):
            if rng.random() < self.drop:
                continue
            place = float(at)
            if rng.random() < self.reorder:
                place += rng.uniform(-12, 12)
            if rng.random() < self.delay:
                place += rng.choice((50, 400, 3000, 6000))
            if rng.random() < self.corrupt:
                data = corrupt(data, rng)
            if rng.random() < self.malformed:
                name = rng.choice(list(MALFORMED))
                slots.append((place, MALFORMED[name](data.ljust(16, b"\0"), rng)))
            if rng.random() < self.wild:
                slots.append((place, wild(data, rng)))
            slots.append((place, data))
            if rng.random() < self.dup:
                slots.append((place + rng.choice((0, 0, 3, 40, 2000)), data))
        return [data for _, data in sorted(slots, key=lambda slot: slot[0])]


def wild(data: bytes, rng: random.Random) -> bytes:
    """The packet, empty, with some header fields replaced by other valid values."""
    if len(data) < 16:
        return data
    out = bare(data)
    frame, sequence = int.from_bytes(data[12:15], "little"), int.from_bytes(data[8:12], "little")
    for _ in range(rng.randint(1, 2)):
        field_ = rng.randrange(6)
        if field_ == 0:
            step = rng.choice((-2000, -1, 1, 2, 1023, 1024, 1025, 1026, 5000, 700_000))
            out = edit(out, 12, min(max(frame + step, 0), 751_499), 3)
        elif field_ == 1:
            step = rng.choice((-5000, -4096, -4095, -1, 1, 4095, 4096, 4097, 4098, 100_000, 2**32))
            out = edit(out, 8, min(max(sequence + step, 0), 2**32 - 1), 4)
        elif field_ == 2:
            out = edit(out, 15, (data[15] + rng.choice((-1, 1, 2, 127, 128, 200))) % 256)
        elif field_ == 3:
            out = edit(out, 7, rng.randrange(16))
        elif field_ == 4:
            out = edit(out, 3, out[3] ^ rng.choice((LAST, TRUNCATED, ERROR, 128)))
        else:
            out = sized(edit(out, 3, SOB)) if rng.random() < 0.5 else sized(edit(out, 3, EOB) + bytes(24))
    return out


# ----------------------------------------------------------------------------------------------- scenario


@dataclass
class Scenario:
    """Contents of a capture."""

    seed: int
    boards: tuple[int, ...] = (0, 1, 2, 3)
    bursts: int = 1
    frames: int = 30
    mean: float = 3.0  # events per frame
    faults: Faults = field(default_factory=Faults)
    foreign: float = 0.0
    hostile: bool = False  # jumps, reboots, lost markers, other burst numbers
    first_burst: int = 0

    def datagrams(self, plane: list[tuple[float, float]]) -> list[bytes]:
        """The packets in order of arrival."""
        rng = random.Random(self.seed)
        out: list[bytes] = []
        number = self.first_burst
        for _ in range(self.bursts):
            packets = self._burst(rng, number, plane)
            if self.hostile and out and rng.random() < 0.3:  # end of the old burst among the new packets
                cut = rng.randrange(min(len(out), 40) + 1)
                tail, out = out[len(out) - cut :], out[: len(out) - cut]
                head, packets = packets[:cut], packets[cut:]
                mixed = [(i + rng.uniform(0, cut), p) for i, p in enumerate(tail)]
                mixed += [(i + rng.uniform(0, cut), p) for i, p in enumerate(head)]
                out += [p for _, p in sorted(mixed, key=lambda m: m[0])]
            out += packets
            number += rng.choice((1, 1, 1, 2, 100, 127, 128)) if self.hostile else 1
        return self.faults.apply(out, rng)

    def _burst(self, rng: random.Random, number: int, plane: list[tuple[float, float]]) -> list[bytes]:
        hostile = self.hostile
        first = rng.choice((0, 0, 0, 1, 7, 1500)) if hostile else 0
        events = frame_events(rng, self.boards, self.frames, first, plane, self.mean)
        senders = [
            Sender(b, number & 0xFF, fixed=rng.random() < 0.3, room=rng.choice((400, 1472)))
            for b in self.boards
        ]
        shift = 0  # frames skipped by jumps
        out: list[bytes] = []
        with_sob = not hostile or rng.random() < 0.7
        for sender in senders:
            if with_sob and not (hostile and rng.random() < 0.1):
                out.append(sender.sob())
            else:
                sender.sequence = rng.choice((0, 1, 1, 100_000))
        jump_at = rng.randrange(self.frames) if hostile and rng.random() < 0.4 else -1
        reboot_at = rng.randrange(self.frames) if hostile and rng.random() < 0.4 else -1
        for frame in range(first, first + self.frames):
            if frame - first == jump_at:
                shift = rng.choice((5, 1023, 1024, 1025, 1026, 3000, 40_000))
                if rng.random() < 0.4:
                    step = rng.choice((1, 4095, 4096, 4097, 50_000))
                    for sender in rng.sample(senders, rng.randint(1, len(senders))):
                        sender.sequence += step
            if frame - first == reboot_at:
                out.append(rng.choice(senders).sob())
            of_frame = []
            for sender in senders:
                own = [
                    (time + shift * FRAME_LSB, hits, seen, flags)
                    for time, hits, seen, flags in events.get((frame, sender.board), [])
                ]
                of_frame.append(sender.frame(frame + shift, own, rng, rng.choice((2, 255))))
            rng.shuffle(of_frame)
            out += [packet for packets in of_frame for packet in packets]
        last = first + self.frames - 1 + shift
        for sender in senders:
            if not (hostile and rng.random() < 0.2):
                out.append(
                    sender.eob(
                        last + (rng.choice((-3, 1, 40, 2000)) if hostile and rng.random() < 0.1 else 0)
                    )
                )
        return [pad(p, rng) if rng.random() < 0.1 else p for p in out]


def pad(data: bytes, rng: random.Random) -> bytes:
    """The same packet in a longer datagram."""
    return edit(data, 3, data[3] | PADDED) + bytes(rng.randrange(0, min(200, 1473 - len(data))))
