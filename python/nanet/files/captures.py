# SPDX-License-Identifier: Apache-2.0
"""Captures as Arrow tables: packets, fragments, and merged events by the rules of docs/formats.md.

The core validates the packets; numpy code here decodes and merges them, for the study of traffic. Packets
that the trigger loses for their order or time alone (late packets, sequence jumps) are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise

import attrs
import numpy as np
import pyarrow as pa

from nanet.config.sections import MAX_FRAMES
from nanet.config.values import board_mask
from nanet.detector import Detector, as_detector
from nanet.errors import DataWarning, UsageError, describe_os_error
from nanet.files.pcapng import as_classic_pcap
from nanet.files.provenance import check_captures, marked

PORT = 58913
WINDOW_LSB = 41
FRAME_LSB = 65536
MERGED = 0xFF
SOB, EOB, TRUNCATED, FIXED, LAST = 0x01, 0x02, 0x04, 0x10, 0x20
HEADER = np.dtype(
    [
        ("source", "u1"), ("board", "u1"), ("version", "u1"), ("flags", "u1"), ("length", "<u2"),
        ("events", "u1"), ("index", "u1"), ("sequence", "<u4"), ("frame_burst", "<u4"),
    ]
)  # fmt: skip
MOST_FRAGMENT_HITS = 32
CHUNK = 1 << 18  # fragments per chunk; bounds the memory of intermediate arrays

PACKET_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("bytes", pa.uint32()),
        ("not_mgp", pa.string()),
        ("refusal", pa.string()),
        ("burst", pa.uint16()),
        ("board", pa.uint8()),
        ("flags", pa.uint8()),
        ("events", pa.uint8()),
        ("index", pa.uint8()),
        ("sequence", pa.uint32()),
        ("frame", pa.uint32()),
    ]
)
FRAGMENT_SCHEMA = pa.schema(
    [
        ("packet", pa.uint32()),
        ("burst", pa.uint16()),
        ("board", pa.uint8()),
        ("timestamp", pa.uint32()),
        ("fine_time", pa.uint8()),
        ("seen", pa.uint8()),
        ("truncated", pa.bool_()),
        ("pm", pa.list_(pa.uint16())),
        ("dt", pa.list_(pa.int8())),
    ]
)
EVENT_SCHEMA = pa.schema(
    [
        ("burst", pa.uint16()),
        ("event", pa.uint64()),
        ("timestamp", pa.uint32()),
        ("fine_time", pa.uint8()),
        ("fragments", pa.uint8()),
        ("truncated", pa.bool_()),
        ("pm", pa.list_(pa.uint16())),
        ("dt", pa.list_(pa.int32())),
    ]
)


@attrs.frozen
class Capture:
    """A decoded capture. Columns and units: docs/python.md."""

    packets: pa.Table  # one row per record, in order
    fragments: pa.Table  # one row per fragment of the valid packets, in order
    events: pa.Table  # one row per merged event, in order of burst and time


def read_packets(
    path: str, *, port: int = PORT, boards: str = "auto", detector: str | Detector | None = None
) -> pa.Table:
    """Records of a pcap or pcapng, with the reason for refused ones: PACKET_SCHEMA. UsageError."""
    return read_capture(path, port=port, boards=boards, detector=detector).packets


def read_fragments(
    path: str, *, port: int = PORT, boards: str = "auto", detector: str | Detector | None = None
) -> pa.Table:
    """Event fragments of the boards in a pcap or pcapng: FRAGMENT_SCHEMA. UsageError."""
    return read_capture(path, port=port, boards=boards, detector=detector).fragments


def read_events(
    path: str,
    *,
    port: int = PORT,
    boards: str = "auto",
    window_lsb: int = WINDOW_LSB,
    max_payload: int = 1472,
    max_frames: int = MAX_FRAMES,
    detector: str | Detector | None = None,
) -> pa.Table:
    """Events of a pcap or pcapng, merged as in the trigger: EVENT_SCHEMA. Options as in read_capture."""
    return read_capture(
        path, port=port, boards=boards, window_lsb=window_lsb, max_payload=max_payload,
        max_frames=max_frames, detector=detector,
    ).events  # fmt: skip


def read_capture(
    path: str,
    *,
    port: int = PORT,
    boards: str = "auto",
    window_lsb: int = WINDOW_LSB,
    max_payload: int = 1472,
    max_frames: int = MAX_FRAMES,
    detector: str | Detector | None = None,
) -> Capture:
    """Reads a whole pcap or pcapng into memory: packets, fragments and events. UsageError.

    A capture that ends within a record is read up to that record, with a DataWarning.

    boards: as card.boards (4, a list such as 0,1, or merged); auto: 4 or merged, as found in the capture.
    window_lsb: coincidence window of fragments of one event, in fine-time steps of 0.0975 ns.
    max_payload (bytes), max_frames (of a burst): packets beyond are refused, as by the card.
    detector: a file, a name such as hexagonal, or a Detector; default: NA62's.
    """
    if not 1 <= port <= 65535:
        raise UsageError(f"port = {port}: must be 1 to 65535")
    found_by = as_detector(detector)
    core = found_by.core() if found_by else None
    check_captures([path], core)
    records = _Records(path, port, found_by)
    mask = records.detect() if boards == "auto" else _mask(boards, records.every)
    records.judge(mask, max_payload, max_frames)
    header = np.frombuffer(records.heads(), dtype=HEADER)
    burst = _with_wraps(header["frame_burst"] >> 24, records.sound)
    packets = _packet_table(records, header, burst)
    data, first = records.placed(header, burst)
    found = _fragments(data, first, header, burst, wide=found_by is not None and found_by.wide)
    return Capture(packets, marked(found.table(), core), marked(_merge(found, window_lsb), core))


def _mask(boards: str, every: int) -> int:
    """Mask of --boards; 4 stands for all boards of the detector."""
    try:
        return every if boards == "4" else board_mask(boards)
    except ValueError as error:
        raise UsageError(f"boards = {boards!r}: {error}, or auto") from None


class _Records:
    """All records of a capture: payloads to the port, and the reason for each refused one."""

    def __init__(self, path: str, port: int, detector: Detector | None = None) -> None:
        from nanet._core import wire

        self.every = (1 << detector.boards) - 1 if detector else 0xF
        self._first_pm = detector.first_of_boards() if detector else []

        self.times: list[int] = []
        self.sizes: list[int] = []
        self.not_mgp: list[str | None] = []
        self.refusals: list[str | None] = []
        self.payloads: list[bytes] = []
        try:
            with as_classic_pcap(path) as classic:
                reader = wire.PcapReader(classic)
                for time_ns, frame, original in reader:
                    reason, payload = wire.parse_udp_frame(frame, port, original)
                    self.times.append(time_ns)
                    self.sizes.append(original)
                    self.not_mgp.append(reason)
                    self.payloads.append(payload or b"")
                if reader.truncated:
                    text = f"{path} ends within a record: the packets before it were read"
                    warnings.warn(text, DataWarning, stacklevel=4)
        except OSError as error:
            raise UsageError(f"{describe_os_error(error, path)}: give a pcap or pcapng file") from None
        except ValueError as error:
            raise UsageError(f"{error}: give a pcap or pcapng file") from None
        self.sound = np.zeros(len(self.times), dtype=bool)

    def detect(self) -> int:
        """Boards: 4, or 0 for a merged stream; from the first thousand packets, as in `nanet replay`."""
        from nanet._core import wire

        ours = [data for data, no in zip(self.payloads, self.not_mgp, strict=True) if no is None][:1000]
        merged = sum(wire.validate(data, 0, first_pm=self._first_pm)[0] is None for data in ours)
        return 0 if 2 * merged > len(ours) else self.every

    def judge(self, boards: int, max_payload: int, max_frames: int) -> None:
        """Validates all records."""
        from nanet._core import wire

        self.refusals = [
            wire.validate(data, boards, max_payload, max_frames, first_pm=self._first_pm)[0]
            if no is None
            else None
            for data, no in zip(self.payloads, self.not_mgp, strict=True)
        ]
        for at, (no, refusal) in enumerate(zip(self.not_mgp, self.refusals, strict=True)):
            self.sound[at] = no is None and refusal is None

    def heads(self) -> bytes:
        """First 16 bytes of each record; zeros for shorter ones."""
        return b"".join(data[:16].ljust(16, b"\0") for data in self.payloads)

    def placed(self, header: np.ndarray, burst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes of the packets with events, and the offset of each record in them (-1: not used).

        Of packets with the same board, frame and index the first is used.
        """
        first = np.full(len(header), -1, dtype=np.int64)
        seen: set[tuple[int, int, int, int]] = set()
        parts: list[bytes] = []
        size = 0
        frame, index = header["frame_burst"] & 0xFFFFFF, header["index"] & 15
        for at in np.flatnonzero(self.sound & (header["flags"] & (SOB | EOB) == 0)):
            key = (int(burst[at]), int(frame[at]), int(header["board"][at]), int(index[at]))
            if key in seen:
                continue
            seen.add(key)
            first[at] = size
            parts.append(self.payloads[at])
            size += len(self.payloads[at])
        return np.frombuffer(b"".join(parts), dtype=np.uint8), first


def _with_wraps(number: np.ndarray, sound: np.ndarray) -> np.ndarray:
    """Burst numbers with the wraps of their byte; up to 128 behind is an earlier burst."""
    full = np.zeros(len(number), dtype=np.int64)
    current = -1
    for at in np.flatnonzero(sound):
        byte = int(number[at])
        if current < 0:
            current = byte
        ahead = (byte - current) % 256
        if 0 < ahead <= 127:
            current += ahead
        full[at] = current if ahead <= 127 else max(current - (256 - ahead), 0)
    return full


def _packet_table(records: _Records, header: np.ndarray, burst: np.ndarray) -> pa.Table:
    there = np.array([len(data) >= 16 for data in records.payloads], dtype=bool)
    columns = {
        "burst": np.where(records.sound, burst, header["frame_burst"] >> 24),
        "board": header["board"],
        "flags": header["flags"],
        "events": header["events"],
        "index": header["index"] & 15,
        "sequence": header["sequence"],
        "frame": header["frame_burst"] & 0xFFFFFF,
    }
    arrays = [
        pa.array(records.times, pa.int64()),
        pa.array(records.sizes, pa.uint32()),
        pa.array(records.not_mgp, pa.string()),
        pa.array(records.refusals, pa.string()),
    ]
    for field in list(PACKET_SCHEMA)[4:]:
        arrays.append(pa.array(columns[field.name].astype(field.type.to_pandas_dtype()), mask=~there))
    return pa.Table.from_arrays(arrays, schema=PACKET_SCHEMA)


@attrs.define
class _Fragments:
    """Fragments in order of packet and position; their hits are contiguous from `first_hit` on."""

    packet: np.ndarray
    burst: np.ndarray
    board: np.ndarray
    sequence: np.ndarray
    time: np.ndarray  # LSB since the start of the burst
    seen: np.ndarray
    truncated: np.ndarray
    first_hit: np.ndarray  # length: fragments + 1
    pm: np.ndarray
    dt: np.ndarray  # LSB relative to the fragment's time

    def table(self) -> pa.Table:
        """Table of FRAGMENT_SCHEMA."""
        offsets = pa.array(self.first_hit.astype(np.int32))
        arrays = [
            pa.array(self.packet.astype(np.uint32)),
            pa.array(self.burst.astype(np.uint16)),
            pa.array(self.board),
            pa.array((self.time >> 8).astype(np.uint32)),
            pa.array((self.time & 255).astype(np.uint8)),
            pa.array(self.seen),
            pa.array(self.truncated),
            pa.ListArray.from_arrays(offsets, pa.array(self.pm)),
            pa.ListArray.from_arrays(offsets, pa.array(self.dt)),
        ]
        return pa.Table.from_arrays(arrays, schema=FRAGMENT_SCHEMA)


def _walk(data: np.ndarray, first: np.ndarray, header: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The k-th event of all packets at once: (packets, offsets of their k-th event)."""
    packet = np.flatnonzero(first >= 0)
    at = first[packet] + 16
    left = header["events"][packet].astype(np.int64)
    fixed = header["flags"][packet] & FIXED != 0
    while True:
        more = left > 0
        packet, at, left, fixed = packet[more], at[more], left[more] - 1, fixed[more]
        if not len(packet):
            return
        yield packet, at
        at = at + np.where(fixed, 8 + 2 * MOST_FRAGMENT_HITS, 8 + 2 * data[at + 5].astype(np.int64))


def _fragments(
    data: np.ndarray, first: np.ndarray, header: np.ndarray, burst: np.ndarray, *, wide: bool
) -> _Fragments:
    """All fragments of the packets with an offset `first` in `data`. wide: hit encoding 1."""
    steps = list(_walk(data, first, header))
    nothing = np.zeros(0, dtype=np.int64)
    packet = np.concatenate([p for p, _ in steps] or [nothing])
    at = np.concatenate([a for _, a in steps] or [nothing])
    order = np.argsort(at)  # packets are contiguous
    packet, at = packet[order], at[order]
    periods = sum(data[at + k].astype(np.int64) << 8 * k for k in range(4))
    stored = data[at + 5].astype(np.int64)
    first_hit = np.concatenate(([0], np.cumsum(stored)))
    pm, dt = np.empty(first_hit[-1], np.uint16), np.empty(first_hit[-1], np.int8)
    for begin in range(0, len(at), CHUNK):
        some = slice(begin, begin + CHUNK)
        place = 2 * _positions(stored[some], 0) + np.repeat(at[some] + 8, stored[some])
        word = data[place] | data[place + 1].astype(np.uint16) << 8
        hits = slice(first_hit[begin], first_hit[begin] + len(place))
        pm[hits] = word if wide else word & 2047
        dt[hits] = 0 if wide else 4 * ((word.view(np.int16)) >> 11)
    truncated = (data[at + 7] & 1 != 0) | (data[at + 6] > stored) | (header["flags"][packet] & TRUNCATED != 0)
    return _Fragments(
        packet, burst[packet], header["board"][packet], header["sequence"][packet].astype(np.int64),
        periods * 256 + data[at + 4], data[at + 6], truncated, first_hit, pm, dt,
    )  # fmt: skip


def _positions(lengths: np.ndarray, first: np.ndarray | int) -> np.ndarray:
    """first[i], first[i] + 1, ... for each list of these lengths, concatenated."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(lengths.sum())


def _merge(f: _Fragments, window: int) -> pa.Table:
    """Events from fragments, merged within each frame (docs/formats.md, Merging), in chunks of frames."""
    order = np.lexsort((np.arange(len(f.time)), f.sequence, f.board, f.time, f.burst))
    frame = (f.burst << 24 | f.time >> 16)[order]
    edges = [0]
    while edges[-1] < len(order):  # chunk ends between frames
        last = min(edges[-1] + CHUNK, len(order)) - 1
        edges.append(int(np.searchsorted(frame, frame[last], side="right")))
    parts, events = [EVENT_SCHEMA.empty_table()], 0
    for begin, end in pairwise(edges):
        parts.append(_merge_frames(f, order[begin:end], window, events))
        events += parts[-1].num_rows
    return pa.concat_tables(parts).combine_chunks()


def _merge_frames(f: _Fragments, chosen: np.ndarray, window: int, number: int) -> pa.Table:
    """Events of the chosen fragments, in merging order; the first event has number `number`."""
    time, burst = f.time[chosen], f.burst[chosen]
    event_of = np.asarray(_join(burst, time, f.board[chosen], window), dtype=np.int64)
    events = int(event_of.max()) + 1
    first = np.full(events, -1, dtype=np.int64)  # fragment that opened the event
    first[event_of[::-1]] = np.arange(len(chosen))[::-1]

    # Of several hits of a PM in one fragment the first counts.
    stored = np.diff(f.first_hit)[chosen]
    source = _positions(stored, f.first_hit[chosen])
    fragment = np.repeat(np.arange(len(chosen)), stored)
    pm, when_hit = f.pm[source], time[fragment] + f.dt[source]
    by_pm = np.lexsort((pm, fragment))
    again = (np.diff(fragment[by_pm]) == 0) & (np.diff(pm[by_pm].astype(np.int32)) == 0)
    hit = by_pm[np.concatenate(([True], ~again)) if len(by_pm) else []]
    of = event_of[fragment[hit]]
    n = np.bincount(of, minlength=events)

    # Event time: mean of the hit times, rounded half up, limited to the frame. Without hits: time of the
    # first fragment.
    opened = time[first]
    total = np.bincount(of, weights=when_hit[hit] - opened[of], minlength=events).astype(np.int64)
    mean = opened + (2 * total + n) // np.maximum(2 * n, 1)
    frame = opened // FRAME_LSB * FRAME_LSB
    when = np.where(n > 0, np.clip(mean, frame, frame + FRAME_LSB - 1), opened)

    # Events in order of time, hits in order of PM.
    rank = np.lexsort((np.arange(events), when, burst[first]))
    place = np.empty(events, dtype=np.int64)
    place[rank] = np.arange(events)
    of = place[of]
    sort = np.lexsort((pm[hit], of))
    hit, of = hit[sort], of[sort]
    truncated = np.zeros(events, dtype=bool)
    np.logical_or.at(truncated, place[event_of], f.truncated[chosen])
    when = when[rank]
    offsets = pa.array(np.concatenate(([0], np.cumsum(n[rank]))).astype(np.int32))
    arrays = [
        pa.array(burst[first][rank].astype(np.uint16)),
        pa.array(np.arange(number, number + events, dtype=np.uint64)),
        pa.array((when >> 8).astype(np.uint32)),
        pa.array((when & 255).astype(np.uint8)),
        pa.array(np.bincount(place[event_of], minlength=events).astype(np.uint8)),
        pa.array(truncated),
        pa.ListArray.from_arrays(offsets, pa.array(pm[hit])),
        pa.ListArray.from_arrays(offsets, pa.array((when_hit[hit] - when[of]).astype(np.int32))),
    ]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)


def _join(burst: np.ndarray, time: np.ndarray, board: np.ndarray, window: int) -> list[int]:
    """Event of each fragment, in merging order; events are numbered in order of opening."""
    result: list[int] = []
    open_events: list[list[int]] = []  # time of the first fragment, mask of boards, number
    events = 0
    frame = (-1, -1)
    columns = (column.tolist() for column in (burst, time, board))
    for number, when, source in zip(*columns, strict=True):
        if (number, when >> 16) != frame:
            frame, open_events = (number, when >> 16), []
        while open_events and when - open_events[0][0] > window:
            del open_events[0]
        bit = 1 << source
        for event in open_events:
            if not event[1] & bit:
                event[1] |= bit
                result.append(event[2])
                break
        else:
            open_events.append([when, bit, events])
            result.append(events)
            events += 1
    return result
