# SPDX-License-Identifier: Apache-2.0
"""`nanet bench faults`: the verdict on frames made by hand; the campaign itself in the complete lane."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

import numpy as np
import pytest
from nanet.bench.faults import GOOD, HEADER_ONLY, INCOMPLETE, MISSING
from nanet.bench.receiver import Answers

from nanet.bench import faults

BEGIN, END = int(10e9), int(10.5e9)
FRAMES = 4000
CLOSED = {"account_closes": True, "lost": {"missing": 0}}


def fault(**changes: Any) -> faults.Fault:
    return faults.Fault("stop", "", lambda scene: (0, 0, 0), **changes)


def verdict(states: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Frames each ms from 8 s on."""
    times = (np.arange(FRAMES) * 1_000_000 + int(8e9)).astype(np.uint64)
    sent = [faults.Sent({}, times)]
    return faults.judge(fault(**changes), sent, [states], [CLOSED], BEGIN, END, 1)


def states(**ranges: tuple[int, int, int]) -> np.ndarray:
    out = np.full(FRAMES, GOOD, np.uint8)
    for begin, end, state in ranges.values():
        out[begin:end] = state
    return out


def test_frames_of_the_fault_are_no_loss_beyond_it() -> None:
    row = verdict(states(during=(1900, 2800, HEADER_ONLY)))
    assert row["lost_beyond"] == 0 and row["states"]["header_only"] == 900
    assert row["recovery_ms"] == pytest.approx(300, abs=20)


def test_frames_before_and_long_after_it_are() -> None:
    row = verdict(states(before=(100, 103, MISSING), after=(3700, 3705, INCOMPLETE)))
    assert row["lost_beyond"] == 8 and row["recovery_ms"] == 0


def test_a_fault_that_touches_no_frame() -> None:
    assert verdict(states(during=(2100, 2101, HEADER_ONLY)), touches="none")["lost_beyond"] == 1
    assert verdict(states(during=(2100, 2110, INCOMPLETE)), touches="incomplete")["lost_beyond"] == 0
    assert verdict(states(during=(2100, 2110, MISSING)), touches="incomplete")["lost_beyond"] == 10


def test_no_recovery_at_all_is_a_loss() -> None:
    row = verdict(states(rest=(2000, FRAMES, MISSING)))
    assert row["lost_beyond"] >= 1500 and row["recovery_ms"] == pytest.approx(1499, abs=2)


def test_an_account_that_does_not_close_is_a_loss() -> None:
    sent = [faults.Sent({}, np.array([int(9e9)], np.uint64))]
    broken = CLOSED | {"account_closes": False}
    row = faults.judge(fault(), sent, [np.array([GOOD])], [broken], BEGIN, END, 1)
    assert row["lost_beyond"] == 1 and not row["account_closes"]


def test_faults_of_packets_explain_as_many_incomplete_frames() -> None:
    sent = [faults.Sent({}, np.arange(1, 101, dtype=np.uint64)) for _ in range(2)]
    of = [np.full(100, GOOD, np.uint8) for _ in range(2)]
    of[0][:7] = INCOMPLETE
    lossy = faults.Fault("loss", "", board_faults="drop=0.1", touches="incomplete")
    result = CLOSED | {"lost": {"missing": 7}}
    assert faults.judge(lossy, sent, of, [result], 0, 101, 7)["lost_beyond"] == 0
    assert faults.judge(lossy, sent, of, [result], 0, 101, 5)["lost_beyond"] == 4  # two frames, two packets
    of[1][3] = INCOMPLETE  # without faults
    assert faults.judge(lossy, sent, of, [result], 0, 101, 7)["lost_beyond"] == 1


def packet(frame: int, sub: int = 0, primitives: tuple[int, ...] = ()) -> bytes:
    words = [0x1C << 24 | frame, sub << 24 | len(primitives) << 16]
    if primitives:
        words += [frame, *(primitive << 16 for primitive in primitives)]
    return struct.pack(f"<{len(words)}I", *words)


def test_answers_are_read_by_frame_and_burst() -> None:
    answers = Answers()
    answers.start()
    host, port = answers.address.split(":")
    packets = [packet(0, 0, (0x4005,)), packet(1, 0xFF), packet(3, 0, (0x4005, 0x4085)), packet(4),
               packet(1, 0, (0x4001,))]  # fmt: skip
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for one in packets:
            out.sendto(one, (host, int(port)))
    until = time.monotonic() + 60
    while len(answers._packets) < len(packets) and time.monotonic() < until:
        time.sleep(0.01)
    first, second = faults.states_of(answers, [5, 2])
    assert list(first) == [GOOD, HEADER_ONLY, MISSING, INCOMPLETE, INCOMPLETE]
    assert list(second) == [MISSING, GOOD]


@pytest.mark.complete
@pytest.mark.serial
def test_the_campaign(nanet, tmp_path) -> None:
    nanet("bench", "faults", "--device", "cpu", "--json", "faults.json", timeout=600)
    result = json.loads((tmp_path / "faults.json").read_text())
    figures = result["figures"]
    ran = {row["fault"]: row for row in result["rows"] if "not_run" not in row}
    assert (
        len(result["rows"])
        == len(faults.FAULTS)
        == result["figures"]["faults"] + result["figures"]["not_run"]
    )
    assert {"loss", "dead board", "stopped trigger", "killed trigger", "L0TP away"} <= set(ran)
    assert all(row["account_closes"] and row["injected"] > 0 for row in ran.values())
    assert figures["lost_beyond"] == sum(row["lost_beyond"] for row in ran.values())
