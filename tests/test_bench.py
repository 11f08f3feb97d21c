# SPDX-License-Identifier: Apache-2.0
"""`nanet bench`: the figures are there under their names and agree. Speed is not the business of a test."""

from __future__ import annotations

import json

import pytest


def test_latency_has_a_row_for_every_mode_and_added_time_is_their_difference(nanet, tmp_path):
    nanet("bench", "latency", "--samples", 1000, "--json", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    figures = result["figures"]
    rows = {row["mode"]: row for row in result["rows"]}
    assert {"echo", "cpu"} <= set(rows)
    for mode, row in rows.items():
        assert row["lost"] == 0
        assert row["p50_us"] <= row["p99_9_us"] <= row["p99_99_us"] <= row["max_us"]
        for name in ("p50_us", "p99_9_us", "p99_99_us"):
            assert figures[f"{mode}_{name}"] == row[name]
    assert rows["cpu"]["samples"] == 1000
    assert figures["added_p50_us"] == pytest.approx(figures["cpu_p50_us"] - figures["echo_p50_us"])
    assert len(result["host"]["load_before"]) == len(result["host"]["load_after"]) == 3


def test_bandwidth_checks_the_data_of_every_buffer(nanet, tmp_path):
    nanet("bench", "bandwidth", "--seconds", 0.05, "--json", "out.json")
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert {(row["payload"], row["packets"]) for row in rows} == {
        (payload, packets) for payload in (1168, 1472) for packets in (1, 2, 4, 8, 16, 32, 64)
    }
    for row in rows:
        assert row["wrong"] == 0 and row["lost"] == 0 and row["buffers"] > 0
        assert row["bytes_per_s"] == pytest.approx(row["packets_per_s"] * row["payload"])


def test_unknown_name_is_a_usage_error(nanet):
    assert "replay, loopback, latency, bandwidth" in nanet("bench", "speed", status=2).stderr


def test_losses_are_found_wherever_they_hide():
    from nanet.bench.chain import losses_of

    trigger = {
        "lost": {"late": 0}, "bad_packets": {"bad_version": 0}, "frames_late": 0, "frames_overrun": 0,
        "frames_incomplete": 0, "account_closes": True, "primitives_out": 1000,
    }  # fmt: skip
    l0tp = {"primitives": 1000, "frames_missing": 0, "primitives_expected": 1000, "primitives_paired": 999}
    assert losses_of(trigger, l0tp) == {}
    assert losses_of(trigger, {**l0tp, "primitives_paired": 998}) == {"unpaired": 2}
    assert losses_of(trigger, {**l0tp, "primitives": 999}) == {"primitives_not_received": 1}
    assert losses_of({**trigger, "lost": {"late": 3}}, l0tp) == {"lost.late": 3}
    assert losses_of({**trigger, "frames_late": 1}, l0tp) == {"frames_late": 1}
    assert losses_of(trigger, {**l0tp, "primitives_expected": 0, "primitives_paired": 0}) != {}
