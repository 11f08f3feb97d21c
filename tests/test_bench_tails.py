# SPDX-License-Identifier: Apache-2.0
"""Stops of a spinning loop in `nanet bench`: late frames and losses by cause, and the loop's CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import attrs
import numpy as np
import pytest
from nanet.run import host

from nanet.bench import Settings, Sheet, chain, tails, trigger


def stops(*intervals):
    begin, end = zip(*intervals, strict=True) if intervals else ((), ())
    return tails.Stops(np.array(begin, np.int64), np.array(end, np.int64))


def test_a_stop_meets_a_frame_only_inside_it():
    begin, end = np.array([1_000_000]), np.array([2_000_000])

    def met(*intervals):
        (found,) = tails.meets(begin, end, [stops(*intervals)])
        return found

    assert not met()
    assert not met((900_000, 1_000_000)), "ends as the frame begins"
    assert met((900_000, 1_000_001))
    assert met((1_999_999, 2_100_000))
    assert not met((2_000_000, 2_100_000)), "begins at the deadline"
    assert met((0, 3_000_000)) and met((1_200_000, 1_300_000))
    assert not met((1_200_000, 1_250_000)), "no longer than the least stop"
    assert met((1_200_000, 1_250_001))
    assert met((0, 60_000), (1_200_000, 1_300_000), (5_000_000, 6_000_000))
    assert not met((0, 60_000), (5_000_000, 6_000_000))


def test_late_frames_by_cause():
    """Frames of 10 us, timeout 200 us, deadline 1 ms; each sent when due, within 2 us."""
    start, frames = 10_000_000_000, 1000
    limits = tails.Limits(frame=10_000.0, timeout=200_000, deadline=1_000_000, window=640_000)

    def account(late, seen=(), *, limits=limits, counted=None, **sent):
        first = start + 10_000 * np.arange(frames)
        last = first + 2_000
        for name, change in sent.items():
            {"first": first, "last": last}[name][list(change)] += list(change.values())
        times = tails.FrameTimes(*(a.astype(np.uint64) for a in (first, last, np.array(late))))
        found = tails.causes(times, [stops(*seen)], limits, counted or len(late))
        return found.by_us, found.by_stops, found.by_boards

    assert account([]) == (0, 0, 0)
    assert account([5, 7]) == (2, 0, 0)
    assert account([5], counted=3) == (3, 0, 0), "answers that L0TP did not receive are ours"
    # A stop of 100 us that begins 5 ms after the start: frames due 1 ms before it to its end.
    stop = (start + 5_000_000, start + 5_100_000)
    assert account([400, 401, 509, 510], [stop]) == (2, 2, 0)
    # A board behind by more than the timeout; frame 99 is in the call before, whose send time is early.
    assert account([98, 99, 100, 101], last={100: 198_001}) == (2, 0, 2)
    assert account([100], last={100: 198_000}) == (1, 0, 0), "at the timeout"
    assert account([100], last={100: 199_000}, limits=attrs.evolve(limits, gathered=10_000)) == (1, 0, 0)
    assert account([500], [stop], last={500: 300_000}) == (0, 0, 1), "boards first"
    # Frames not sent at the end of the run.
    unsent = {"first": {999: -start - 9_990_000}, "last": {999: -start - 9_992_000}}
    assert account([999], [stop], **unsent) == (1, 0, 0)


FIRST = 1_000_000 * np.arange(1, 11)
LIMITS = tails.Limits(frame=1e6, timeout=200_000, deadline=500_000, window=4_000_000)


def lost_by(lost, sent_late=(), threads=(), *, first=FIRST, limits=LIMITS):
    """Packets of `lost` (frame, board) by boards and by stops. Overrun ones: (frame, board, 1)."""
    rows = [(*packet, 0, 0)[:4] for packet in lost]
    tables = np.array(rows, np.uint64).reshape(-1, 4), np.array(sent_late, np.uint64).reshape(-1, 3)
    times = tails.FrameTimes(
        first.astype(np.uint64), first.astype(np.uint64), np.zeros(0, np.uint64), *tables
    )
    found = tails.causes(times, threads, limits, 0)
    return found.lost_by_boards, found.lost_by_stops


def test_a_lost_packet_is_the_boards_only_if_its_own_board_sent_it_late():
    """Timeout 200 us: calls that ended more than 190 us after the frame's first send explain its packets."""

    def by_boards(lost, sent_late):
        count, stopped = lost_by(lost, sent_late)
        assert stopped == 0
        return count

    assert by_boards([], [(3, 2, 300_000)]) == 0, "late, but not lost"
    assert by_boards([(3, 2)], [(3, 2, 300_000)]) == 1, "a late board of one packet"
    assert by_boards([(3, 2), (3, 2)], [(3, 2, 300_000)]) == 2, "of two packets"
    assert by_boards([(3, 1), (3, 2)], [(3, 2, 300_000), (3, 1, 200_000)]) == 2, "two late boards"
    assert by_boards([(3, 2), (4, 2)], [(3, 2, 900_000), (4, 2, 800_000)]) == 2, "of two frames"
    # Lost beside it: another board of the frame, the board in another frame, boards 3 and 0 of neighbours.
    assert by_boards([(3, 2), (3, 1)], [(3, 2, 300_000)]) == 1
    assert by_boards([(3, 2), (5, 2)], [(3, 2, 300_000)]) == 1
    assert by_boards([(2, 3), (4, 0)], [(3, 0, 300_000), (3, 3, 300_000)]) == 0
    assert by_boards([(3, 2)], [(3, 2, 190_000)]) == 0, "within timeout and margin"
    assert by_boards([(3, 2)], [(3, 2, 190_001)]) == 1
    assert by_boards([(3, 2), (3, 1)], []) == 0
    assert by_boards([(3, 2), (3, 2, 1)], [(3, 2, 300_000)]) == 1, "a late board takes no buffer"


def test_a_stop_explains_a_packet_lost_as_late_from_the_due_time_to_the_timeout():
    """Frame 3 is due at 4 ms; timeout 200 us."""

    def by_stops(*intervals, **options):
        return lost_by([(3, 2)], threads=[stops(*intervals)], **options)[1]

    assert by_stops() == 0
    assert by_stops((3_900_000, 4_000_000)) == 0, "ends as the frame is due"
    assert by_stops((3_900_000, 4_000_001)) == by_stops((4_199_999, 4_300_000)) == 1
    assert by_stops((4_200_000, 4_900_000)) == 0, "begins at the timeout"
    assert by_stops((4_100_000, 4_150_000)) == 0, "no longer than the least stop"
    # Sent 100 us after it was due: the timeout counts from there.
    behind = np.where(np.arange(10) == 3, FIRST + 100_000, FIRST)
    assert (
        by_stops((4_299_999, 4_400_000), first=behind) == by_stops((3_940_000, 4_000_001), first=behind) == 1
    )
    assert by_stops((4_300_000, 4_400_000), first=behind) == 0
    # The boards come first, and each packet counts once.
    stop = [stops((4_000_000, 4_300_000))]
    assert lost_by([(3, 2), (3, 1), (4, 1)], [(3, 2, 300_000)], [*stop, *stop]) == (1, 1)


def test_stops_explain_an_overrun_only_if_they_fill_half_of_the_window_before_it():
    """Frame 7 is due at 8 ms, window 4 ms: 2 ms of stops between 4 and 8 ms."""

    def by_stops(*threads, frame=7, **options):
        return lost_by([(frame, 2, 1)], threads=[stops(*thread) for thread in threads], **options)[1]

    assert by_stops() == by_stops([]) == 0
    assert by_stops([(5_000_000, 7_000_000)]) == 1
    assert by_stops([(5_000_000, 6_999_999)]) == 0
    assert by_stops([(0, 20_000_000)]) == 1, "all of it, and more"
    assert by_stops([(1_000_000, 6_000_000)]) == by_stops([(6_000_000, 9_000_000)]) == 1
    assert by_stops([(1_000_000, 5_999_999)]) == by_stops([(6_000_001, 9_000_000)]) == 0, "too little inside"
    assert by_stops([(1_000_000, 4_000_000), (8_000_000, 12_000_000)]) == 0, "before and after"
    assert by_stops([(7_940_000, 8_100_000), (8_100_000, 12_000_000)]) == 0, "a short stop as it is sent"
    # Stops of one thread add up; short ones and those of other threads do not.
    assert by_stops([(3_500_000, 5_000_000), (6_000_000, 6_500_000), (7_500_000, 8_500_000)]) == 1
    assert by_stops([(3_500_000, 5_000_000), (6_000_000, 6_500_000), (7_500_001, 8_500_000)]) == 0
    assert by_stops([(4_000_000, 5_000_000)], [(5_000_000, 6_000_000)]) == 0
    assert by_stops([(4_000_000, 5_960_000), (6_000_000, 6_050_000)]) == 0
    assert by_stops([(4_000_000, 5_960_000), (6_000_000, 6_050_001)]) == 1
    assert by_stops([(4_000_000, 5_000_000)], [(4_500_000, 6_500_000)]) == 1, "any thread"
    assert by_stops([(4_500_000, 6_500_000)], [(4_000_000, 5_000_000)]) == 1
    # The window of the buffers, before the frame was sent.
    assert by_stops([(4_000_000, 5_960_000)], limits=attrs.evolve(LIMITS, window=3_900_000)) == 0
    assert by_stops([(4_100_000, 6_060_000)], limits=attrs.evolve(LIMITS, window=3_900_000)) == 1
    behind = np.where(np.arange(10) == 7, FIRST + 500_000, FIRST)
    assert by_stops([(6_500_000, 8_500_000)], first=behind) == 1
    assert by_stops([(4_000_000, 6_000_000)], first=behind) == 0
    # A stop that would explain a late packet does not explain an overrun; frames without times are ours.
    assert by_stops([(8_000_000, 8_200_000)]) == 0
    assert by_stops([(0, 20_000_000)], frame=10) == 0
    assert lost_by([(7, 0, 1), (7, 1, 1), (10, 1, 1)], threads=[stops((0, 20_000_000))]) == (0, 2)


def test_the_window_is_that_of_the_buffers_at_one_frame_every_256_periods():
    ran = {"timeout_us": 800, "deadline_us": 1000, "buffers": 1024}
    found = trigger.limits(Settings(), chain.ChainResult({}, ran, {}, {}, 0.0))
    assert found.window == pytest.approx(1024 * 256 * 24.951, rel=1e-4)


def test_losses_are_judged_only_with_stops():
    assert lost_by([(3, 2), (7, 2, 1)], [(3, 2, 300_000)], None) == (1, None)
    of = tails.Causes(
        by_us=1, by_stops=2, by_boards=3, lost_by_boards=4, lost_by_stops=5, explained_share=0.5
    )
    lost = {"lost_by_us": 11.0, "lost_by_boards": 4.0, "lost_by_stops": 5.0}
    late = {"late_by_us": 1.0, "late_by_boards": 3.0, "late_by_stops": 2.0, "explained_share": 0.5}
    assert trigger.by_cause(of, 20) == lost | late
    of = attrs.evolve(of, by_stops=None, lost_by_stops=None, explained_share=None)
    assert trigger.by_cause(of, 20) == {
        "late_by_us": 1.0,
        "late_by_boards": 3.0,
        "lost_by_us": 16.0,
        "lost_by_boards": 4.0,
    }


def test_the_share_of_explained_frames():
    first = 1_000_000 * np.arange(1, 11)
    times = tails.FrameTimes(first, first, np.zeros(0, np.uint64))
    assert tails.causes(times, [stops()], LIMITS, 0).explained_share == 0
    assert tails.causes(times, [stops((3_100_000, 4_100_000))], LIMITS, 0).explained_share == 0.2


def test_stops_of_any_thread_explain_a_late_frame():
    first = 1_000_000 * np.arange(1, 11)
    times = tails.FrameTimes(first, first, np.array([1, 3, 5, 8], np.uint64))

    def account(*threads):
        found = tails.causes(times, threads, LIMITS, 4)
        return found.by_us, found.by_stops, found.explained_share

    spinning = stops((2_100_000, 2_200_000))  # frame 1
    # Frame 3, inside a longer stop of another thread that ends first; frame 6; 40 us in frame 8.
    reading = stops((4_000_000, 4_060_000), (7_100_000, 7_200_000), (9_100_000, 9_140_000))
    # Frames 3 and 4; too short in frame 5; 30 us that join the 40 us of the other thread in frame 8.
    sending = stops((3_900_000, 5_300_000), (6_100_000, 6_150_000), (9_140_000, 9_170_000))
    judged = tails.causes(times, None, LIMITS, 4)
    assert (judged.by_us, judged.by_stops, judged.explained_share) == (4, None, None)
    assert account() == (4, 0, 0)
    assert account(stops()) == (4, 0, 0)
    assert account(spinning) == (3, 1, 0.1)
    assert account(spinning, reading) == account(reading, spinning) == (2, 2, 0.3)
    assert account(spinning, reading, sending) == (2, 2, 0.4), "several stops of a frame count once"
    assert account(sending) == (3, 1, 0.2)


def test_the_stops_of_the_polling_threads_are_rows_and_figures():
    sheet = Sheet(lambda text: None)
    about = {"cpu": 3, "seconds": 2.0, "over_50us": 1, "over_50us_share": 0.1, "longest_us": 200_000.0}
    reading = {"thread": "read 1", **about, "begin": [5], "end": [200_000_005]}
    sending = {"thread": "send", **about, "begin": [], "end": []}
    asleep = {"thread": "card", **about, "seconds": 0.006, "begin": [], "end": []}
    found = tails.of_threads([reading, sending, asleep], sheet)
    assert [(one.begin.tolist(), one.end.tolist()) for one in found] == [
        ([5], [200_000_005]),
        ([], []),
        ([], []),
    ]
    assert sheet.rows[:2] == [{"polling": "read 1", **about}, {"polling": "send", **about}]
    assert sheet.rows[2]["seconds"] == 0.006 and not any("card" in name for name in sheet.figures)
    assert sheet.figures["stops_read_1_over_50us_share"] == sheet.figures["stops_send_over_50us_share"] == 0.1
    assert sheet.figures["stops_read_1_longest_us"] == 200_000


def polling_threads(rows):
    """Names of the threads, after a check of each row of a stops file."""
    for row in rows:
        begin, end = (np.array(row[key], np.int64) for key in ("begin", "end"))
        assert len(begin) == len(end) == row["over_50us"]
        assert (end - begin > tails.STOP_NS).all() and (begin[1:] >= end[:-1]).all()
        assert row["longest_us"] == (end - begin).max(initial=0) * 1e-3
        assert row["over_50us_share"] == pytest.approx((end - begin).sum() * 1e-9 / row["seconds"])
    return [row["thread"] for row in rows]


@pytest.mark.serial
def test_a_stopped_trigger_shows_in_each_of_its_polling_threads(nanet_program, tmp_path, free_udp_port):
    listen = ",".join(f"127.0.0.1:{free_udp_port()}" for _ in range(2))
    process = subprocess.Popen(
        [nanet_program, "trigger", "--listen", listen, "--busy", "yes", "--card-threads", "4",
         "--device", "cpu", "--stops", "stops.json"],
        cwd=tmp_path, stdout=subprocess.PIPE,
    )  # fmt: skip
    held = []
    try:
        assert process.stdout.readline()  # the threads run
        for _ in range(4):  # a pass with other work may contain one of them
            time.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            begin = time.monotonic_ns()
            time.sleep(0.05)
            held.append((begin, time.monotonic_ns()))
            process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    rows = json.loads((tmp_path / "stops.json").read_text())
    assert polling_threads(rows) == ["card", "send", "read 0", "read 1"]
    for row in rows:
        inside = [
            any(a <= begin and end <= b for a, b in zip(row["begin"], row["end"], strict=True))
            for begin, end in held
        ]
        assert any(inside), row["thread"]


def test_lists_of_late_packets_need_their_options(nanet):
    readout = ["readout", "--to", "127.0.0.1:9", "--events", "1"]
    for options, text in (
        (["--late-us", "50"], "give --late-packets FILE"),
        (["--late-packets", "l"], "give --times FILE"),
        (["--late-packets", "l", "--times", "t", "--late-us", "0"], "--late-us 0: give microseconds above"),
        (["--late-packets", "l", "--times", "t", "--fault", "drop=0.1"], "leave one of them out"),
    ):
        assert text in nanet(*readout, *options, status=2).stderr, options
    for key, value, option in (
        ("trigger.input", "mep", "--input"),
        ("card.gather", "packets", "--gather"),
        ("card.type", "gateware", "--card"),
    ):
        refused = nanet("trigger", option, value, "--late-packets", "l", status=2)
        assert f"--late-packets with {key} = {value!r}" in refused.stderr


@pytest.mark.serial
def test_the_boards_explain_packets_lost_by_a_timeout_shorter_than_their_sending():
    """One thread sends four boards in turn, which takes about the timeout."""
    seen = chain.run_chain(
        1.0, 0.01, pad=True, times=True, late_us=10,
        trigger_options=["--device", "cpu", "--timeout-us", "20", "--deadline-us", "50000"],
        board_options=["--batch-us", "0"],
    )  # fmt: skip
    lost, late = seen.frames.lost, seen.frames.sent_late
    assert len(lost) == seen.trigger["lost"]["late"] > 0
    assert (lost[:, 2] == 0).all()
    for table in (lost, late):
        assert (table[:, 0] < len(seen.frames.first)).all() and (table[:, 1] < 4).all()
    assert (late[:, 2] > 10_000).all()
    arrived = lost[:, 3].astype(np.int64) - seen.frames.first[lost[:, 0].astype(np.int64)].astype(np.int64)
    assert ((arrived > 0) & (arrived < 1e9)).all()
    assert tails.lost_by_boards(seen.frames, 20_000).all()


@pytest.mark.serial
def test_the_list_of_lost_packets_agrees_with_the_counters():
    """Few buffers for a frame every 21 us: on most hosts some frames have none."""
    seen = chain.run_chain(
        0.5, 0.3, pad=True, times=True, late_us=10,
        trigger_options=["--device", "cpu", "--buffers", "32", "--timeout-us", "50", "--deadline-us", "90"],
        board_options=["--batch-us", "0"],
    )  # fmt: skip
    lost = seen.frames.lost
    listed = [int((lost[:, 2] == reason).sum()) for reason in (0, 1)]
    assert listed == [seen.trigger["lost"][name] for name in ("late", "overrun")]
    assert len(lost) == sum(listed)


def test_level_1_and_missing_folders_refuse_stops(nanet):
    refused = nanet("trigger", "--input", "mep", "--stops", "s", status=2)
    assert "--stops with trigger.input = 'mep'" in refused.stderr
    refused = nanet("trigger", "--check", "--stops", "missing/s", status=2)
    assert "missing" in refused.stderr


def test_the_spinning_loop_has_a_spare_core_only_on_a_host_with_many(machine):
    # 7: card 4 - 6; boards, L0TP and the rest on 0, 1, 3. 16: card 10 - 15, boards 6 - 9.
    for cpus, spare in ((2, None), (6, None), (7, 2), (16, 5)):
        machine(cpus)
        assert trigger.spare_core(Settings()) == spare


def test_the_body_beside_the_spinning_loop_gets_the_other_cpus():
    cpus = os.sched_getaffinity(0)
    spare = max(cpus)
    if not cpus - host.siblings(spare):
        pytest.skip("one core")
    sheet = Sheet(lambda text: None)
    with pytest.raises(KeyError), tails.spinning(spare, -1, 0.0, sheet):
        raise KeyError
    assert os.sched_getaffinity(0) == cpus and not sheet.rows
    with tails.spinning(spare, -1, 0.0, sheet) as seen:
        assert os.sched_getaffinity(0) == cpus - host.siblings(spare)
        time.sleep(0.2)
    assert os.sched_getaffinity(0) == cpus
    (row,) = sheet.rows
    assert row["stops"] == "during the load" and row["cpu"] == spare
    assert len(seen.begin) == row["over_10us"] and (seen.end - seen.begin > 10_000).all()
    assert (seen.begin[1:] >= seen.end[:-1]).all()
