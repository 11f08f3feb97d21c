# SPDX-License-Identifier: SHL-2.1
"""Bench of burst_time: bursts against SOBs, packets out of time, frames to close."""

import subprocess
from pathlib import Path

import pytest
from harness import build_harness, cached, run_harness
from sources import GATEWARE, RTL, modules, packages

HERE = Path(__file__).parent
PROGRAM = HERE / "burst_time.cpp"


@pytest.mark.parametrize(
    ("latency", "close_ticks", "answer_ticks"), [(3200, 700, 2398), (900, 0, 98), (32_000, 20_000, 0)]
)
def test_burst_time(latency, close_ticks, answer_ticks):
    """A burst without SOB, or with a wrong number, is counted and untimed; the next one is not."""
    run_harness("burst_time", PROGRAM, [60, latency, close_ticks, answer_ticks])


FAULTS = {
    "mismatch": ("      apart_q        <= 1'b1;", ""),
    "next burst": ("      sobs_q         <= now.burst;", ""),
    "burst before": ("before_timed_q <= known_q && !apart_q;", "before_timed_q <= 1'b0;"),
    "other burst": ("packet_placed && usable_q && packet_burst == number_q", "packet_placed && usable_q"),
    "lost time": ("now.burst == sobs_q && !now.lost;", "now.burst == sobs_q;"),
    "ahead": ("packet_frame > newest_q", "packet_frame >= newest_q"),
    "old": ("packet_frame < oldest_q", "packet_frame <= oldest_q"),
    "before the first frame's end": ("!closes[32] ? closes[31:8]", "1'b1 ? closes[31:8]"),
    "answers of the first frame": ("answer_ticks != '0 && !overdue[32]", "answer_ticks != '0"),
    "answers of the burst before": ("usable_q && of_newest_q && answer_ticks", "usable_q && answer_ticks"),
}


@pytest.mark.complete
@pytest.mark.parametrize("fault", FAULTS)
@cached(PROGRAM, modules()["burst_time"])
def test_planted_fault_is_found(fault, tmp_path):
    text, other = FAULTS[fault]
    source = (RTL / "ttc" / "burst_time.sv").read_text()
    assert source.count(text) == 1
    (tmp_path / "burst_time.sv").write_text(source.replace(text, other))
    sources = [GATEWARE / "lint.vlt", *packages(), tmp_path / "burst_time.sv"]
    program = build_harness("burst_time", PROGRAM, {}, sources, rtl=tmp_path)
    done = subprocess.run(
        [program, "60", "3200", "700", "2398", "1"], capture_output=True, check=False, timeout=600
    )
    assert done.returncode == 1
