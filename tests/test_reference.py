# SPDX-License-Identifier: Apache-2.0
"""`nanet replay` compared with a reference written from the formats alone: counts, MTP bytes, events."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_trigger as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pcap import PORT, capture, pcap, udp_frame, write_pcap
from reference_rings import PLANE as PM_PLANE
from reference_traffic import EOB, LAST, MALFORMED, Faults, Scenario, Sender, edit

from nanet import _core

PLANE = [(float(x), float(y)) for x, y in PM_PLANE]


def replay(
    path: Path, options: dict[str, Any], threads: int = 1
) -> tuple[dict[str, Any], list[bytes], dict[str, Any]]:
    """Result, MTP packets and rings of the core."""
    out = path.with_suffix(f".{threads}.mtp")
    core = _core.Replay(
        options | {"pcap": str(path), "mtp": str(out), "rings": True, "threads": threads, "algorithm": "math"}
    )
    core.run()
    packets = [
        ref.payload(frame, length, int.from_bytes(frame[36:38], "big"))
        for frame, length in ref.records(str(out))
    ]
    assert all(isinstance(p, bytes) for p in packets)
    return core.result(), packets, {name: np.asarray(column) for name, column in core.take_rings().items()}


def differences(want: dict[str, Any], got: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys of `want` with other values in `got`."""
    out = []
    for name, value in want.items():
        if isinstance(value, dict):
            out += differences(value, got[name], f"{prefix}{name}.")
        elif got[name] != value:
            out.append(f"{prefix}{name}: {got[name]}, reference {value}")
    return out


def check(path: Path, options: ref.Options | None = None, threads: tuple[int, ...] = (1,)) -> ref.Reference:
    """Compares the core with the reference; returns the reference."""
    options = options or ref.Options()
    want = ref.Reference(options).run(str(path))
    for number in threads:
        result, packets, rings = replay(path, options.core(), number)
        if want.doubtful:
            assert abs(want.count["rings"] - result["rings"]) <= want.doubtful
            want.count["rings"] = result["rings"]
        wrong = differences(want.counts(), result)
        assert not wrong, wrong
        check_events(want, rings)
        check_packets(want, packets, rings)
        assert packets_and_records_agree(want)
    return want


def packets_and_records_agree(want: ref.Reference) -> bool:
    """Identities of the account, of the reference."""
    count, lost = want.count, want.lost
    came = sum(lost[n] for n in ref.LOST if n not in ("missing", "socket_overflow"))
    events = count["primitives_out"] + count["below_min_hits"] + count["mtp_overflow"]
    return (
        count["packets_in"] == count["packets_used"] + count["burst_markers"] + sum(want.bad.values()) + came
        and count["events_built"] == events
    )


def check_events(want: ref.Reference, rings: dict[str, Any]) -> None:
    """Compares events (at most one ring each), in order; either result is right if rounding decides."""
    assert list(rings["event"]) == list(range(len(want.events)))
    for at, event in enumerate(want.events):
        row = {name: column[at] for name, column in rings.items()}
        told = f"event {at}: { {k: v.item() for k, v in row.items()} }, reference {event}"
        assert (row["burst"], row["event_hits"]) == (event.burst & 0xFFFF, len(event.pms)), told
        assert int(row["timestamp"]) * 256 + int(row["fine_time"]) == event.time, told
        assert (int(row["primitive"]) ^ event.primitive) & ~event.either == 0, told
        fit = event.fit
        if row["ring"] == 255:
            assert not fit.found or fit.doubtful, told
            assert (row["n_rings"], row["n_hits"]) == (0, 0), told
            assert all(np.isnan(row[name]) for name in ("x", "y", "r", "chi2_ndf")), told
        else:
            assert fit.found or fit.doubtful, told
            assert (row["ring"], row["n_rings"], row["n_hits"]) == (0, 1, len(event.pms)), told
            off = max(abs(row["x"] - fit.x), abs(row["y"] - fit.y), abs(row["r"] - fit.r))
            assert fit.doubtful or off < fit.slack, told
            assert fit.doubtful or abs(row["chi2_ndf"] - fit.chi2_ndf) < fit.slack * (1 + fit.chi2_ndf), told


def check_packets(want: ref.Reference, packets: list[bytes], rings: dict[str, Any]) -> None:
    """Compares MTP packets byte for byte; check_events has compared the primitive IDs."""
    sent = iter(int(word) for word in rings["primitive"] if word)
    expected = []
    for packet in want.mtp:
        words = list(struct.unpack(f"<{len(packet) // 4}I", packet))
        words[3:] = [next(sent) << 16 | word & 0xFFFF for word in words[3:]]
        expected.append(struct.pack(f"<{len(words)}I", *words))
    assert packets == expected
    assert next(sent, None) is None


def scenario_file(scenario: Scenario, folder: Path) -> Path:
    """The scenario as a capture."""
    path = folder / f"{scenario.seed}.pcap"
    rng = random.Random(scenario.seed)
    path.write_bytes(capture(scenario.datagrams(PLANE), rng, scenario.foreign))
    return path


BOARDS = st.sampled_from([(0, 1, 2, 3), (0, 1, 2, 3), (0xFF,), (1, 3), (2,)])
SEEDS = st.integers(0, 2**32 - 1)


def check_scenario(scenario: Scenario, threads: tuple[int, ...] = (1,), **options: Any) -> ref.Reference:
    """A random capture through core and reference."""
    with tempfile.TemporaryDirectory() as folder:
        path = scenario_file(scenario, Path(folder))
        return check(path, ref.Options(boards=scenario.boards, **options), threads)


@settings(max_examples=40)
@given(SEEDS, BOARDS, st.integers(1, 3))
def test_good_traffic(seed: int, boards: tuple[int, ...], bursts: int) -> None:
    want = check_scenario(Scenario(seed, boards, bursts, frames=12, first_burst=254))
    # A board with 300 events in fixed slots needs more than its segment.
    assert not want.bad and set(+want.lost) <= {"segment_overflow"}
    assert want.lost["segment_overflow"] or want.count["frames_incomplete"] == 0
    assert want.count["frames_in"] == 12 * bursts
    assert [b.number for b in want.bursts] == list(range(254, 254 + bursts))


@settings(max_examples=50)
@given(SEEDS, BOARDS)
def test_faults(seed: int, boards: tuple[int, ...]) -> None:
    faults = Faults(drop=0.03, dup=0.03, reorder=0.1, corrupt=0.03, delay=0.01, malformed=0.03)
    check_scenario(Scenario(seed, boards, 2, frames=12, mean=1.5, faults=faults, foreign=0.05))


@settings(max_examples=50)
@given(SEEDS, BOARDS, st.integers(1, 4))
def test_hostile_traffic(seed: int, boards: tuple[int, ...], bursts: int) -> None:
    faults = Faults(drop=0.02, dup=0.02, reorder=0.05, corrupt=0.02, delay=0.005, malformed=0.02, wild=0.02)
    check_scenario(
        Scenario(seed, boards, bursts, frames=12, mean=0.7, faults=faults, hostile=True, foreign=0.02)
    )


@settings(max_examples=50)
@given(SEEDS, BOARDS, st.integers(1, 4))
def test_jumps_reboots_and_lost_markers(seed: int, boards: tuple[int, ...], bursts: int) -> None:
    check_scenario(Scenario(seed, boards, bursts, frames=10, mean=0.5, hostile=True))


@settings(max_examples=30)
@given(SEEDS)
def test_believable_nonsense_in_headers(seed: int) -> None:
    check_scenario(Scenario(seed, bursts=2, frames=10, mean=0.5, faults=Faults(wild=0.05)))


@settings(max_examples=4)
@given(SEEDS)
def test_delays_beyond_the_open_window(seed: int) -> None:
    faults = Faults(drop=0.01, dup=0.01, reorder=0.02, delay=0.002)
    check_scenario(Scenario(seed, frames=1400, mean=0.02, faults=faults))


@settings(max_examples=10)
@given(
    SEEDS,
    st.integers(0, 300),
    st.integers(0, 6),
    st.integers(1, 40),
    st.sampled_from([512, 2048, 8192]),
)
def test_options(seed: int, window_lsb: int, min_hits: int, multiplicity: int, segment_bytes: int) -> None:
    check_scenario(
        Scenario(seed, frames=15),
        window_lsb=window_lsb,
        min_hits=min_hits,
        multiplicity=multiplicity,
        segment_bytes=segment_bytes,
        saturated_mm=150.0,
        small_mm=120.0,
        chi2_cut=1.0,
        max_frames=14,
    )


@settings(max_examples=6)
@given(SEEDS)
def test_worker_threads_change_nothing(seed: int) -> None:
    faults = Faults(drop=0.02, dup=0.02, reorder=0.05, wild=0.01)
    check_scenario(Scenario(seed, bursts=3, frames=25, faults=faults, hostile=True), threads=(1, 2, 3))


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([(0, 1, 2, 3), (0, 1, 2, 3), (1, 3), (2,)]), st.booleans())
def test_merging_in_the_card_changes_no_answer(seed: int, boards: tuple[int, ...], hostile: bool) -> None:
    faults = Faults(drop=0.02, dup=0.02, reorder=0.05, corrupt=0.02, delay=0.005, malformed=0.02, wild=0.02)
    scenario = Scenario(seed, boards, 2, frames=12, mean=1.0, faults=faults, hostile=hostile, foreign=0.02)
    options = ref.Options(boards=boards).core()
    with tempfile.TemporaryDirectory() as folder:
        path = scenario_file(scenario, Path(folder))
        result, packets, rings = replay(path, options)
        merged, merged_packets, merged_rings = replay(path, options | {"merge": True})
    assert merged_packets == packets
    assert all(np.array_equal(merged_rings[name], rings[name], equal_nan=True) for name in rings)
    assert merged["frames_unmerged"] < max(merged["frames_in"], 1)  # without frames in rare scenarios
    counts = ref.Reference(ref.Options(boards=boards)).counts()
    assert not differences({name: result[name] for name in counts}, merged)


@pytest.mark.parametrize("name", MALFORMED)
def test_each_refusal(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    sender = Sender(1)
    packets = [sender.sob()]
    for frame in range(30):
        packets += sender.frame(frame, [(frame << 16 | 700, [(600, 1)], 1, 0)], rng)
        packets.append(MALFORMED[name](packets[-1], rng))
    packets.append(sender.eob(29))
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0, 1)))
    assert dict(want.bad) == {name: 30}
    assert want.count["events_built"] == 30  # a refused packet has no effect


def test_more_events_than_a_packet_holds(tmp_path: Path) -> None:
    rng = random.Random(1)
    senders = [Sender(board) for board in range(4)]
    packets = [sender.sob() for sender in senders]
    for board, sender in enumerate(senders):
        events = [(1000 * i + 90 * board, [(512 * board, 0)], 1, 0) for i in range(64)]
        packets += sender.frame(0, events, rng)
    packets += [sender.eob(0) for sender in senders]
    want = check(write_pcap(tmp_path / "a.pcap", packets))
    assert (want.count["events_built"], want.count["primitives_out"], want.count["mtp_overflow"]) == (
        256,
        255,
        1,
    )
    assert len(want.mtp[0]) == 8 + 4 * 256


def test_an_event_at_the_edge_of_two_frames(tmp_path: Path) -> None:
    rng = random.Random(1)
    senders = [Sender(board) for board in range(4)]
    packets = [sender.sob() for sender in senders]
    parts = {(0, 0): 65530, (1, 1): 65536, (2, 0): 65520, (3, 1): 65562}
    for frame in (0, 1):
        for board, sender in enumerate(senders):
            events = [(parts[board, frame], [(512 * board, 0)], 1, 0)] if (board, frame) in parts else []
            packets += sender.frame(frame, events, rng)
    packets += [sender.eob(1) for sender in senders]
    want = check(write_pcap(tmp_path / "a.pcap", packets))
    # 65562 is 42 LSB after the first: it merges with the event at 65536, the other half of the one at 65520.
    assert (want.count["events_built"], want.count["split_at_frame_edge"]) == (2, 1)


def test_bursts_are_no_neighbours(tmp_path: Path) -> None:
    rng = random.Random(1)
    packets = []
    for burst, (board, time) in enumerate([(0, 65530), (1, 2)]):
        for number in (0, 1):
            sender = Sender(number, burst)
            packets.append(sender.sob())
            packets += sender.frame(0, [(time, [(512 * board, 0)], 1, 0)] if number == board else [], rng)
            packets.append(sender.eob(0))
    packets = [p for p in packets if p[15] == 0] + [p for p in packets if p[15] == 1]
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0, 1)))
    assert (want.count["events_built"], want.count["split_at_frame_edge"]) == (2, 0)


def test_end_of_burst_overtaken_by_the_next(tmp_path: Path) -> None:
    """Boards end a burst independently: first packets of the next burst may arrive before the last EOB."""
    rng = random.Random(1)
    old, new = [Sender(b, 0) for b in (0, 1)], [Sender(b, 1) for b in (0, 1)]
    packets = [s.sob() for s in old] + [p for s in old for p in s.frame(0, [], rng)]
    packets += [old[0].eob(0), new[0].sob(), *new[0].frame(0, [], rng), old[1].eob(0), new[1].sob()]
    packets += new[1].frame(0, [], rng) + [s.eob(0) for s in new]
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0, 1)))
    assert not +want.lost and want.count["burst_markers"] == 8


def test_sparse_frames_never_run_out_of_buffers(tmp_path: Path) -> None:
    sender = Sender(0)
    packets = (
        [sender.sob()] + [sender.packet(LAST, 1000 * i, 0, []) for i in range(40)] + [sender.eob(39_000)]
    )
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0, 1)), threads=(1, 2))
    assert want.count["frames_in"] == 39_001


def test_nothing_is_late_after_a_leap_over_most_of_a_burst(tmp_path: Path) -> None:
    old, new = Sender(0), Sender(0, burst=1)
    packets = [old.sob()] + [old.packet(0, i, 0, [(i << 16, [(1, 0)], 1, 0)]) for i in range(20)]
    packets += [new.packet(LAST, 700_000, 0, []) for _ in range(3)]
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0, 1)), threads=(1, 2))
    assert want.count["frames_answered"] == 21 and want.count["primitives_out"] == 20


@pytest.mark.parametrize("bit", [7, 16, 24, 31])
def test_a_sequence_number_far_ahead_is_a_jump(bit: int, tmp_path: Path) -> None:
    sender = Sender(0xFF)
    packets = [sender.sob()] + [sender.packet(LAST, i, 0, []) for i in range(60)] + [sender.eob(59)]
    packets[30] = edit(packets[30], 8, packets[30][8] ^ 1 << bit, 4)
    want = check(write_pcap(tmp_path / "a.pcap", packets), ref.Options(boards=(0xFF,)))
    assert want.lost["unconfirmed_jump"] == (bit > 12)


def test_capture_with_nothing_for_us(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    frames = [udp_frame(b"x" * 20, port=PORT + 1), udp_frame(b"y"), udp_frame(b"")]
    path.write_bytes(pcap([(frame, len(frame)) for frame in frames]))
    want = check(path)
    assert (want.count["packets_in"], want.bad["short_header"], want.not_mgp["other_port"]) == (2, 2, 1)
    assert want.mtp == [] and want.events == []


def test_a_burst_of_markers_alone(tmp_path: Path) -> None:
    senders = [Sender(board) for board in range(4)]
    packets = [s.sob() for s in senders] + [s.eob(3) for s in senders]
    want = check(write_pcap(tmp_path / "a.pcap", packets))
    assert want.count["frames_in"] == want.count["frames_incomplete"] == 4
    assert packets[0][3] | packets[-1][3] == 1 | EOB
