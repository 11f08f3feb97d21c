# SPDX-License-Identifier: SHL-2.1
"""Two reliable ports with a faulty wire: order, completeness, efficiency, loss of the link."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import build_harness, cached
from sources import GATEWARE, RTL, modules, packages

HERE = Path(__file__).resolve().parent
SOURCES = (HERE / "reliable_link.cpp", modules()["reliable_port"])
CELL = 17  # words of a full cell with its control word
FULL = {"break_at": 3000, "break_for": 300, "cycles": 7000, "pull": 0.02, "capacity": 300, "payload": 100}


def run(rtl: Path | None = None, **options: float) -> dict[str, float]:
    """Result of a run, with its exit status as `status`."""
    module = rtl / "reliable_port.sv" if rtl else modules()["reliable_port"]
    sources = [GATEWARE / "lint.vlt", *packages(), module]
    program = build_harness("reliable_port", HERE / "reliable_link.cpp", {}, sources, rtl=rtl)
    given = [f"{name}={value}" for name, value in options.items()]
    done = subprocess.run([program, *given], capture_output=True, text=True, check=False, timeout=600)
    return json.loads(done.stdout) | {"status": done.returncode}


@cached(*SOURCES)
def test_payload_is_92_percent_of_the_words_of_a_link():
    # A far end that drains a word per cycle; full packets on both VCs.
    result = run(mixed=0, cycles=30_000, push=1)
    assert result["status"] == 0, result
    assert result["efficiency"] >= 0.92
    assert result["resent"] == 0


@pytest.mark.parametrize("rate", [0.0, 1e-3, 1e-2])
@cached(*SOURCES)
def test_every_packet_arrives_once_and_in_order(rate):
    """Errors in data, control words, CRC and marks; cell error rates."""
    for seed, extra in enumerate(
        ({}, {"stall": 0.3, "push": 0.6}, {"pull": 0.4, "delay": 40}, {"payload": 3})
    ):
        result = run(error=rate / CELL, cycles=30_000, seed=seed + 1, **extra)
        assert result["status"] == 0, (extra, result)
        assert (result["errors"] > 0) == (rate > 0)
        assert result["cut"] == 0


@cached(*SOURCES)
def test_heavy_errors_do_not_stop_the_link():
    result = run(error=0.01, cycles=20_000, payload=16, seed=3)
    assert result["wrong"] == result["overflow"] == 0, result


@cached(*SOURCES)
def test_lost_link_is_counted_and_comes_up_again():
    for seed in range(1, 6):
        result = run(break_at=3000, break_for=1500, cycles=9000, seed=seed, delay=4 + 5 * seed)
        assert result["status"] == 0, result
        assert result["down"] == 1
        assert result["dropped"] > 0


@cached(*SOURCES)
def test_packet_granted_while_the_link_was_down_is_dropped():
    """The buffers at the far end are still full when the link comes up again."""
    for seed in range(1, 9):
        result = run(**FULL, seed=seed)
        assert result["status"] == 0, result
        assert result["dropped"] > 0


@pytest.mark.complete
@pytest.mark.parametrize("rate", [0.0, 1e-3, 1e-2, 3e-2])
@cached(*SOURCES)
def test_goodput_is_as_of_go_back_n(rate):
    """Goodput at least 95 % of (1 - p) / (1 + (W - 1) p), W cells in a round trip."""
    delay = 16
    clean = run(mixed=0, cycles=100_000, delay=delay, both=0)
    result = run(mixed=0, cycles=100_000, delay=delay, error=rate / CELL, both=0)
    assert result["status"] == 0
    window = (2 * delay + 40) / CELL
    ideal = (1 - rate) / (1 + (window - 1) * rate)
    print(f"rate {rate}: {result['efficiency'] / clean['efficiency']:.4f}, ideal {ideal:.4f}")
    assert result["efficiency"] / clean["efficiency"] > 0.95 * ideal


FAULTS = {
    "order": (
        "reliable_rx",
        "take     = up && right && is_cell_q && is_next",
        "take     = up && right && is_cell_q",
    ),
    "CRC": ("reliable_rx", "plain_q && equal_q == '1", "plain_q"),
    "count": ("reliable_rx", "place = decided_q && !taken_q ? start_q : wr_q", "place = wr_q"),
    "window": ("reliable_tx", "further_q <= unacknowledged < 8'(CellWindow - 1);", "further_q <= 1'b1;"),
    "credit": ("reliable_tx", "held = granted_q[v] - status.freed[v]", "held = 16'd0"),
    "request": ("reliable_tx", "if (request_q) replay_wanted_q <= 1'b1;", ""),
    "grant while down": ("reliable_tx", "!up || !settle_q[Grant-1] ||", "!up ||"),
    "credits at training": ("reliable_port", "-(16'(used[v].data) + 16'(used[v].header))", "16'd0"),
}


@pytest.mark.complete
@pytest.mark.parametrize("fault", FAULTS)
@cached(*SOURCES)
def test_planted_fault_is_found(fault, tmp_path):
    module, text, other = FAULTS[fault]
    for path in (RTL / "apelink").glob("*.sv"):
        shutil.copy(path, tmp_path)
    path = tmp_path / f"{module}.sv"
    source = path.read_text()
    assert source.count(text) == 1
    path.write_text(source.replace(text, other))
    options = {"error": 0.005, "cycles": 20_000, "pull": 0.3, "delay": 60}
    results = [
        run(tmp_path, **options),
        run(tmp_path, **options, payload=3),
        *(run(tmp_path, **FULL, seed=seed) for seed in range(1, 9)),
    ]
    assert any(result["status"] for result in results), results
