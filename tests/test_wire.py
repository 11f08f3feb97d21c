# SPDX-License-Identifier: Apache-2.0
"""Wire layer through Python: golden vectors, and comparison with a second implementation."""

import random
import struct
from collections import Counter

import golden_vectors
import pytest
import reference_mgp as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nanet._core import wire

HEADER_KEYS = tuple(reference.header(bytes(16)))
RULES = {
    "boards": st.sampled_from([0xF, 0, 0b0001, 0b1010]),
    "max_payload": st.sampled_from([1472, 9000, 100]),
    "max_frames": st.sampled_from([751_500, 1, 1000]),
}


def event_of(text: str) -> tuple[int, int, list[tuple[int, int]], int, int]:
    timestamp, fine, seen, flags, *hits = text.split()
    pairs = [(int(pm), 4 * int(quarter)) for pm, quarter in (hit.split(":") for hit in hits)]
    return int(timestamp), int(fine), pairs, int(seen), int(flags)


@pytest.mark.parametrize(
    "name", ["mgp_header", "mgp_packed", "mgp_fixed", "mgp_merged", "mgp_wide", "mgp_sob", "mgp_eob"]
)
def test_golden_header(name: str) -> None:
    fields, data = golden_vectors.read(name)
    header = {key: int(fields[key][0]) for key in HEADER_KEYS}
    assert wire.decode_header(data) == header
    assert wire.encode_header(header) == data[:16]
    assert reference.header(data) == header


@pytest.mark.parametrize("name", ["mgp_packed", "mgp_fixed", "mgp_merged"])
def test_golden_events(name: str) -> None:
    fields, data = golden_vectors.read(name)
    header = {key: int(fields[key][0]) for key in HEADER_KEYS}
    events = [event_of(text) for text in fields["event"]]
    padding = bytes(int(fields.get("padding", ["0"])[0]))
    assert wire.encode_packet(header, events) + padding == data
    assert (
        reference.encode({k: v for k, v in header.items() if k not in ("length", "events")}, events) + padding
        == data
    )
    boards = 0 if header["board"] == 255 else 0xF
    assert wire.validate(data, boards=boards) == (None, header, len(events), sum(len(e[2]) for e in events))
    assert reference.refusal(data, boards=boards) is None
    keys = ("timestamp", "fine", "hits", "seen", "flags")
    assert [tuple(fragment[key] for key in keys) for fragment in wire.fragments(data)] == events


def test_golden_eob() -> None:
    fields, data = golden_vectors.read("mgp_eob")
    header = {key: int(fields[key][0]) for key in HEADER_KEYS}
    counts = {key: int(fields[f"sent_{key}"][0]) for key in ("frames", "packets", "events", "hits")}
    assert wire.decode_eob(data) == counts
    assert wire.encode_eob(header, **counts) == data
    assert wire.validate(data) == (None, header, 0, 0)


@pytest.mark.parametrize("name", ["mtp_empty", "mtp_primitives", "mtp_late"])
def test_golden_mtp(name: str) -> None:
    fields, data = golden_vectors.read(name)
    frame, sub_id = int(fields["frame"][0]), int(fields["sub_id"][0])
    primitives = [tuple(map(int, text.split())) for text in fields.get("primitive", [])]
    assert wire.mtp_encode(frame, primitives, sub_id=sub_id) == data
    reason, header, decoded = wire.mtp_decode(data)
    assert reason is None
    assert header == {
        "source": 0x1C,
        "sub_id": sub_id,
        "primitives": len(primitives),
        "length": len(data),
        "frame": frame,
    }
    assert decoded == [(frame * 65536 + time * 256 + fine, ident) for ident, time, fine in primitives]


@st.composite
def sound_packets(draw: st.DrawFn) -> bytes:
    """Packets that break no rule with all boards configured, a separate stream each, and enough frames."""
    board = draw(st.sampled_from([0, 1, 2, 3, 255]))
    frame = draw(st.integers(0, 751_499))
    flags = draw(st.sampled_from([0, reference.FIXED])) | draw(st.sampled_from([0, reference.LAST, 0x8C]))
    low, high = (0, 1951) if board == 255 else (512 * board, min(512 * board + 511, 1951))
    hit = st.tuples(
        st.one_of(st.integers(low, high), st.sampled_from([low, high])),
        st.integers(-16, 15).map(lambda q: 4 * q),
    )
    events = []
    for _ in range(draw(st.integers(0, 6))):
        hits = draw(st.lists(hit, max_size=32))
        seen = draw(st.integers(len(hits), 255))
        time, fine, event_flags = (
            draw(st.integers(0, 255)),
            draw(st.integers(0, 255)),
            draw(st.integers(0, 255)),
        )
        events.append((frame * 256 + time, fine, hits, seen, event_flags))
    fields = {"board": board, "frame": frame, "flags": flags, "index": draw(st.integers(0, 15))}
    fields |= {"sequence": draw(st.integers(0, 2**32 - 1)), "burst": draw(st.integers(0, 255))}
    data = reference.encode(fields, events)
    if draw(st.booleans()):
        data = with_byte(data, 3, data[3] | reference.PADDED) + draw(st.binary(max_size=80))
    return data


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def mutate(data: bytes, choose: random.Random) -> bytes:
    """Damages a packet in a random way."""
    kind = choose.randrange(7)
    if not data or kind == 0:
        return data[: choose.randrange(len(data) + 1)]
    if kind == 1:
        return data + bytes(choose.randrange(1, 60))
    if kind == 2:  # a field of the header, by a small step
        at = choose.randrange(min(16, len(data)))
        return with_byte(data, at, (data[at] + choose.choice([-1, 1, 16, 128])) % 256)
    if kind == 3:  # flags
        return with_byte(data, 3, data[3] ^ 1 << choose.randrange(8)) if len(data) > 3 else data
    if kind == 4 and len(data) >= 16:  # corrects the length
        return data[:4] + struct.pack("<H", len(data)) + data[6:]
    if kind == 5 and len(data) > 23:  # the first event's header
        at = 16 + choose.randrange(8)
        return with_byte(data, at, choose.choice([0, 1, 31, 32, 33, 34, 200, 255]))
    return with_byte(data, choose.randrange(len(data)), choose.randrange(256))


@given(sound_packets(), st.fixed_dictionaries(RULES))
def test_refusal_of_sound_packets_depends_on_the_rules_only(data: bytes, rules: dict[str, int]) -> None:
    own = {"boards": 0 if data[1] == 255 else 0xF, "max_payload": 9000}
    reason, header, fragments, hits = wire.validate(data, **own)
    assert reason is None
    assert header == reference.header(data)
    walked = wire.fragments(data)
    assert fragments == len(walked) == header["events"]
    assert hits == sum(len(fragment["hits"]) for fragment in walked)
    assert wire.validate(data, **rules)[0] == reference.refusal(data, **rules)


@given(sound_packets(), st.randoms(use_true_random=False), st.integers(1, 3), st.fixed_dictionaries(RULES))
@settings(max_examples=500)
def test_refusal_of_damaged_packets_is_that_of_the_reference(
    data: bytes, choose: random.Random, damages: int, rules: dict[str, int]
) -> None:
    for _ in range(damages):
        data = mutate(data, choose)
    if len(data) >= 2 and data[1] == 255 and choose.random() < 0.5:
        rules = rules | {"boards": 0}
    assert wire.validate(data, **rules)[0] == reference.refusal(data, **rules)
    wire.fragments(data)


@given(st.binary(max_size=200))
@example(b"")
@example(bytes(16))
def test_random_bytes(data: bytes) -> None:
    assert wire.validate(data)[0] == reference.refusal(data)
    wire.fragments(data)
    wire.mtp_decode(data)
    wire.parse_udp_frame(data)


def test_every_refusal_is_met_and_agreed_on() -> None:
    """Twenty thousand damaged packets: the same refusals, and each refusal occurs."""
    choose = random.Random(20)
    met: Counter[str | None] = Counter()
    for _ in range(20_000):
        board, frame = choose.randrange(4), choose.randrange(1000)
        flags = choose.choice([0, reference.FIXED, reference.LAST, reference.SOB, reference.EOB])
        events = []
        for _ in range(0 if flags & 3 else choose.randrange(5)):
            hits = [(512 * board + choose.randrange(400), 0) for _ in range(choose.randrange(33))]
            events.append((frame * 256 + choose.randrange(256), 0, hits, len(hits), 0))
        data = reference.encode({"board": board, "frame": frame, "flags": flags}, events)
        if flags & reference.EOB:
            data = data[:4] + b"\x28\x00" + data[6:] + bytes(24)
        for _ in range(choose.randrange(3)):
            data = mutate(data, choose)
        if events and len(data) > 26 and choose.random() < 0.1:
            at = 24 + 2 * choose.randrange((len(data) - 24) // 2)
            data = data[:at] + struct.pack("<H", choose.randrange(65536)) + data[at + 2 :]
        rules = {
            "max_frames": choose.choice([1000, 1000, 500]),
            "max_payload": choose.choice([1472, 1472, 120]),
        }
        expected = reference.refusal(data, **rules)
        assert wire.validate(data, **rules)[0] == expected, data.hex()
        met[expected] += 1
    # wrong_burst depends on earlier packets, so no single packet shows it.
    assert set(met) == {None, *wire.refusals} - {"wrong_burst"}


def test_names_are_those_of_the_format() -> None:
    assert wire.refusals[:4] == ("short_header", "bad_version", "bad_source", "bad_board")
    assert wire.refusals[-2:] == ("frame_beyond_spill", "wrong_burst")
    assert len(wire.refusals) == 17
    assert set(wire.not_mgp) == {
        "not_udp",
        "other_port",
        "ip_fragment",
        "bad_checksum",
        "not_ipv4",
        "cut_short",
        "udp_length",
    }


def test_what_does_not_fit_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        wire.encode_packet({}, [(0, 0, [(0, 0)] * 33, 33, 0)])
    with pytest.raises(ValueError, match="255"):
        wire.mtp_encode(0, [(0x4000, 0, 0)] * 256)
    with pytest.raises(ValueError, match="16 bytes"):
        wire.decode_header(bytes(15))


PRIMITIVES = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0x0100, 0xFFFF)), max_size=255
).map(lambda rows: [(ident, time, fine) for time, fine, ident in sorted(rows)])


@given(st.integers(0, 2**24 - 1), PRIMITIVES, st.sampled_from([0, 0xFF]))
def test_mtp_round_trip(frame: int, primitives: list[tuple[int, int, int]], sub_id: int) -> None:
    data = wire.mtp_encode(frame, primitives, sub_id=sub_id)
    reason, header, decoded = wire.mtp_decode(data)
    assert reason is None
    assert header["frame"] == frame
    assert header["sub_id"] == sub_id
    assert decoded == [(frame << 16 | time << 8 | fine, ident) for ident, time, fine in primitives]


def mtp_refusal(data: bytes) -> str | None:
    """The rules for MTP packets, written from docs/formats.md."""
    if len(data) < 8:
        return "short_header"
    if data[3] != 0x1C:
        return "bad_source"
    if len(data) != struct.unpack_from("<H", data, 4)[0] or len(data) % 4:
        return "length_mismatch"
    words = struct.unpack(f"<{len(data) // 4 - 2}I", data[8:])
    if sum(word >= 1 << 24 for word in words) != data[6]:
        return "count_mismatch"
    if words and words[0] >= 1 << 24:
        return "no_timestamp_word"
    if words and words[-1] < 1 << 24:
        return "ends_with_timestamp"
    frame, times = 0, []
    for word in words:
        if word < 1 << 24:
            frame = word
        else:
            times.append(frame << 16 | word & 0xFFFF)
    return None if times == sorted(times) else "not_in_order"


@given(
    st.lists(
        st.one_of(st.integers(0, 5), st.integers(0x40000000, 0x40000300), st.integers(0, 2**32 - 1)),
        max_size=6,
    ),
    st.integers(-1, 1),
    st.integers(-1, 1),
    st.sampled_from([0x1C, 0x1C, 0x1C, 0]),
)
def test_mtp_refusal_is_that_of_the_reference(words: list[int], longer: int, more: int, source: int) -> None:
    count = max(0, sum(word >= 1 << 24 for word in words) + more)
    length = 8 + 4 * len(words) + longer * (len(words) == 3)
    data = struct.pack(f"<II{len(words)}I", source << 24 | 77, count << 16 | length, *words)
    reason, _, decoded = wire.mtp_decode(data)
    assert reason == mtp_refusal(data)
    assert len(decoded) == (count if reason is None else 0)
