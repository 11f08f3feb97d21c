# SPDX-License-Identifier: Apache-2.0
"""`nanet bench`: the figures exist under their names and agree. Speed is not tested."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from nanet.report.output import lost_by_cause, packets_lost

from nanet import _core, simulation
from nanet.bench import (
    Settings,
    Sheet,
    answers,
    loopback,
    merging,
    overload,
    peers,
    rings_cuda,
    roofline,
    tails,
    trigger,
    unica,
)


def check_stops(result):
    """The row of the spinning loop is consistent, and its figures are those of the row."""
    (row,) = (row for row in result["rows"] if "stops" in row)
    assert row["seconds"] > 0
    assert row["p50_us"] <= row["p99_us"] <= row["p99_9_us"] <= row["p99_99_us"]
    assert row["over_1us"] >= row["over_10us"] >= row["over_50us"] >= row["over_100us"]
    assert 1 >= row["over_10us_share"] >= row["over_50us_share"] >= row["over_100us_share"] >= 0
    assert (row["longest_us"] > 100) == (row["over_100us"] > 0)
    for name in tails.FIGURES:
        assert result["figures"][f"stops_{name}"] == row[name]


@pytest.mark.serial
def test_latency_has_a_row_for_every_mode_and_added_time_is_their_difference(nanet, tmp_path):
    nanet("bench", "latency", "--samples", 1000, "--json", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    figures = result["figures"]
    rows = {row["mode"]: row for row in result["rows"] if "mode" in row}
    assert {"echo", "cpu"} <= set(rows)
    for mode, row in rows.items():
        assert row["lost"] == 0
        assert row["p50_us"] <= row["p99_9_us"] <= row["p99_99_us"] <= row["max_us"]
        for name in ("p50_us", "p99_9_us", "p99_99_us"):
            assert figures[f"{mode}_{name}"] == row[name]
    assert rows["cpu"]["samples"] == 1000
    assert figures["added_p50_us"] == pytest.approx(figures["cpu_p50_us"] - figures["echo_p50_us"])
    for p in ("p99_9", "p99_99"):
        ratio = figures[f"cpu_{p}_us"] / figures[f"echo_{p}_us"]
        assert figures[f"{p}_over_echo"] == figures[f"cpu_{p}_over_echo"] == pytest.approx(ratio)
    check_stops(result)
    assert len(result["host"]["load_before"]) == len(result["host"]["load_after"]) == 3


@pytest.mark.serial
def test_trigger_sums_up_late_frames_and_losses_by_cause(nanet, tmp_path):
    small = ("--seconds", 1, "--samples", 1000, "--rate", 1e5, "--device", "cpu")
    nanet("bench", "trigger", *small, "--json", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    figures = result["figures"]
    rows = {row["latency"]: row for row in result["rows"] if "latency" in row}
    assert 0 < rows["echo"]["n"] <= 1000 and len(rows["echo"]["distribution_us"]) > 20
    judged = trigger.spare_core(Settings()) is not None
    assert {name in figures for name in ("late_by_stops", "lost_by_stops", "explained_share")} == {judged}
    causes = [figures.get(f"late_by_{cause}", 0) for cause in ("us", "stops", "boards")]
    assert figures["late"] == sum(causes)
    assert figures["lost"] == sum(figures.get(f"lost_by_{cause}", 0) for cause in ("us", "stops", "boards"))
    assert all(figures[f"{kind}_by_us"] >= 0 for kind in ("late", "lost"))
    assert 0 <= figures.get("explained_share", 0) <= 1
    for p in ("p99_9", "p99_99"):
        ratio = figures[f"last_{p}_us"] / figures[f"echo_{p}_us"]
        assert figures[f"last_{p}_over_echo"] == pytest.approx(ratio)
    check_stops(result)
    threads = [row for row in result["rows"] if "polling" in row]
    assert threads[0]["polling"] == "card"
    for row in threads:
        assert row["seconds"] > 0 and 0 <= row["over_50us_share"] <= 1
        assert (row["longest_us"] > 50) == (row["over_50us"] > 0)
        name = f"stops_{row['polling'].replace(' ', '_')}"
        watched = row["seconds"] >= tails.WATCHED_S
        assert figures.get(f"{name}_over_50us_share") == (row["over_50us_share"] if watched else None)
        assert figures.get(f"{name}_longest_us") == (row["longest_us"] if watched else None)


def test_bandwidth_checks_the_data_of_every_buffer(nanet, tmp_path):
    nanet("bench", "bandwidth", "--seconds", 0.05, "--json", "out.json")
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert {(row["payload"], row["packets"]) for row in rows} == {
        (payload, packets) for payload in (1168, 1472) for packets in (1, 2, 4, 8, 16, 32, 64)
    }
    for row in rows:
        assert row["wrong"] == 0 and row["lost"] == 0 and row["buffers"] > 0
        assert row["bytes_per_s"] == pytest.approx(row["packets_per_s"] * row["payload"])


@pytest.mark.serial
def test_rings_has_a_curve_for_every_algorithm_and_names_the_omitted(nanet, tmp_path):
    small = ("--seconds", 0.001, "--runs", 1, "--events", 100)
    nanet("bench", "rings", *small, "--json", "out.json", "--plots", "plots")
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["partial"] is False
    rows, figures = result["rows"], result["figures"]
    devices = {row["device"] for row in rows}
    assert "cpu, one core" in devices
    for name in _core.algorithm_names():
        curve = [row for row in rows if row.get("algorithm") == name and "events_per_batch" in row]
        for device in {row["device"] for row in curve}:
            sizes = [row["events_per_batch"] for row in curve if row["device"] == device]
            assert sizes == [1, 4, 16, 64, 100]
        assert all(row["events_per_s"] > 0 and row["batch_us"] > 0 for row in curve)
        assert figures[f"{name}_cpu_frame_us"] > 0
        assert f"{name}_cpu_events_per_s" not in figures, "is of batches of 4096, and there was none"
        if _core.cuda_devices()["devices"]:
            for key in ("cuda_events_per_s", "cuda_streaming_events_per_s", "frame_us"):
                assert figures[f"{name}_{key}"] > 0
        else:
            assert not any(key.startswith(f"{name}_cuda") for key in figures)
            (said,) = (row["not_measured"] for row in rows if "not_measured" in row)
            assert said
    for row in rows:
        if "operations_per_byte" in row and row["device"].startswith("cpu"):
            reached = [
                r["events_per_s"]
                for r in rows
                if "events_per_batch" in r
                and r["device"] == row["device"]
                and r["algorithm"] == row["algorithm"]
            ]
            rate = max(reached)
            assert row["operations_per_s"] == pytest.approx(rate * row["operations_per_event"])
            assert row["bytes_per_s"] == pytest.approx(rate * row["bytes_per_event"])
            roof = min(
                figures["cpu_memory_bytes_per_s"] * row["operations_per_byte"],
                figures["cpu_operations_per_s"],
            )
            assert row["share"] == pytest.approx(row["operations_per_s"] / roof)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        f"rings-{name}.{kind}" for name in ("time", "rate", "roofline") for kind in ("svg", "png")
    }


def test_roofline_by_hand():
    limits = {"memory_bytes_per_s": 10e9, "operations_per_s": 100e9}
    (row,) = roofline.roofline("a", "cpu", 1e6, 100, 200, limits)  # 2 operations per byte: at most 20 G
    assert row["limited_by"] == "memory" and row["share"] == pytest.approx(0.2e9 / 20e9)
    (row,) = roofline.roofline("a", "cpu", 1e6, 100, 50_000, limits)
    assert row["limited_by"] == "arithmetic" and row["share"] == pytest.approx(50e9 / 100e9)
    assert not list(roofline.roofline("a", "cpu", 1e6, 100, None, limits))
    assert roofline.batches(100) == [1, 4, 16, 64, 100] and roofline.batches(1) == [1]
    assert roofline.batches(1 << 20)[-2:] == [1 << 18, 1 << 20]


def test_what_the_ring_benchmark_times_is_the_algorithm():
    first, pm = _core.rings_bench_events(300, seed=9)
    assert len(first) == 301 and first[-1] == len(pm)
    again = _core.rings_bench_events(300, seed=9)
    assert again[0].tolist() == first.tolist() and again[1].tolist() == pm.tolist()
    r = _core.rings_bench_cpu("math", first, pm, 50, 1, 0.001)
    assert r["events"] % 50 == 0 and r["events_per_s"] == pytest.approx(r["events"] / r["elapsed_s"])
    # MATH: a fixed number of operations per hit and per fit, none below four hits.
    of = {
        hits: _core.rings_bench_operations(
            "math", np.array([0, hits], np.uint32), np.arange(40, dtype=np.uint16)
        )
        for hits in (3, 4, 5)
    }
    per_hit = of[5] - of[4]
    hits = np.diff(first.astype(int))
    assert of[3] == 0 and per_hit > 0
    assert _core.rings_bench_operations("math", first, pm) == pytest.approx(
        np.where(hits >= 4, of[4] + per_hit * (hits - 4), 0).mean()
    )
    for name in _core.simd_variants():
        assert _core.rings_bench_cpu("math", first, pm, 50, 1, 0.001, simd=name)["events"] > 0
    with pytest.raises(ValueError, match="NANET_SIMD = sse: is not in this build"):
        _core.rings_bench_cpu("math", first, pm, 50, 1, 0.001, simd="sse")
    with pytest.raises(ValueError, match="batch = 301: must be from 1 to the 300"):
        _core.rings_bench_cpu("math", first, pm, 301)
    with pytest.raises(ValueError, match="pm: must be below 1952"):
        _core.rings_bench_cpu("math", first[:2], np.full(len(pm), 1952, np.uint16), 1)


def test_figures_of_a_gpu(monkeypatch):
    """A simulated GPU: 5 us per launch and 1 ns per event in memory, three times as much for streaming."""
    calls = []

    def fake(name, batch, streaming, seconds):
        calls.append((name, batch, streaming))
        us = 5 + batch * (0.003 if streaming else 0.001) * (1e4 if name == "slow" else 1)
        return {
            "events_per_s": batch / us * 1e6, "batch_us": us, "bytes_per_event": 76.0,
            "copied_bytes_per_event": 40.0, "memory_bytes_per_s": 4e12, "operations_per_s": 6e13,
            "copy_bytes_per_s": 5e10,
        }  # fmt: skip

    monkeypatch.setattr(_core, "rings_bench_cuda", fake, raising=False)
    said = []
    sheet = Sheet(said.append)
    rings_cuda.measure(
        ["math", "slow"], Settings(runs=1), lambda name: 400.0 if name == "math" else None, sheet
    )
    rows, figures = sheet.rows, sheet.figures
    curve = [row for row in rows if row.get("algorithm") == "math" and row["device"] == "cuda"]
    assert [row["events_per_batch"] for row in curve[:-1]] == roofline.batches(1 << 20)
    assert ("math", 1 << 24, False) in calls  # more than any cache holds
    assert figures["math_frame_us"] == pytest.approx(5.064)
    assert figures["math_cuda_events_per_s"] == pytest.approx(1e9, rel=1e-3)
    assert figures["math_cuda_streaming_events_per_s"] == pytest.approx(1e9 / 3, rel=3e-3)
    assert figures["math_cuda_streaming_share"] == pytest.approx(40e9 / 3 / 5e10, rel=3e-3)
    assert figures["cuda_memory_bytes_per_s"] == 4e12
    assert curve[-1]["limited_by"] == "memory"
    assert curve[-1]["share"] == pytest.approx(1e9 * 76 / 4e12, rel=1e-3)
    # The slow one: 10 us per event, so a million events are left out, with a message.
    slow = [row["events_per_batch"] for row in rows if row["algorithm"] == "slow" and row["device"] == "cuda"]
    assert max(slow) == 1 << 16 and any("would take more" in text for text in said)
    assert figures["slow_cuda_events_per_s"] == pytest.approx(1e5, rel=1e-3)


def test_boards_send_side_by_side_where_there_are_cpus_enough(machine):
    machine(2)
    assert trigger.board_options(Settings()) == ["--batch-us", "100"]
    machine(16)
    assert trigger.own_cores(Settings()) == [10, 11, 12, 13, 14, 15]
    assert trigger.own_cores(Settings(card_threads=3)) == [13, 14, 15]
    side_by_side = ["--threads", "4", "--pin", "6,7,8,9"]
    assert trigger.board_options(Settings(), 0.0) == ["--batch-us", "0", "--batch-frames", "2", *side_by_side]
    assert trigger.board_options(Settings(batch_us=7)) == ["--batch-us", "7", *side_by_side]
    assert trigger.board_options(Settings(board_threads=1)) == ["--batch-us", "100"]
    for threads, timeout in ((1, "200"), (4, "800")):
        options = trigger.trigger_options(Settings(board_threads=threads, device="cpu"))
        assert options[options.index("--timeout-us") + 1] == timeout
    machine(12)  # 8 cores for the card: its threads have separate cores, those of the boards are not pinned
    assert trigger.board_options(Settings(card_threads=8)) == ["--batch-us", "100", "--threads", "4"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bench_that_is_stopped_writes_what_it_has(nanet_program, tmp_path, number):
    options = ["--seconds", "0.05", "--runs", "1", "--events", "4096", "--json", "out.json"]
    process = subprocess.Popen(
        [nanet_program, "bench", "rings", *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    with process:
        for line in process.stdout:
            if "tripl: cpu, one core" in line:  # math is finished
                break
        process.send_signal(number)
        rest = process.stdout.read()
    assert process.returncode == 1 and "stopped before its end" in rest
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["partial"] is True and "stopped" in result["trouble"]
    done = {row["algorithm"] for row in result["rows"]}
    assert "math" in done and "multiring" not in done
    assert result["figures"]["math_cpu_frame_us"] > 0 and "cpu_memory_bytes_per_s" not in result["figures"]


def test_a_bench_that_is_stopped_leaves_no_program_behind(nanet_program, tmp_path):
    process = subprocess.Popen(
        [nanet_program, "bench", "monitor", "--seconds", "60", "--runs", "1", "--json", "out.json"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip

    def others() -> list[int]:
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # the process has ended
                _, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == process.pid and stat.parent.name != str(process.pid):
                    found.append(int(stat.parent.name))
        return found

    end = time.monotonic() + 60
    while len(others()) < 2:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    process.terminate()
    assert process.wait(30) == 1
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["partial"] is True and result["rows"] == []
    end = time.monotonic() + 60
    while others():  # an orphan stays in the process table until it has been reaped
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.serial
@pytest.mark.complete
def test_record_accounts_for_every_packet(nanet, tmp_path):
    nanet("bench", "record", "--seconds", 1, "--device", "cpu", "--json", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    nowhere, disk, *memory = result["rows"]
    assert (nowhere["recorded_to"], disk["recorded_to"]) == ("nowhere", "disk")
    assert nowhere["packets"] == nowhere["MB_per_s"] == 0
    for row in (disk, *memory):
        assert row["packets"] > 1000 and row["files"] > 0
        assert row["packets"] + row["bad_packets"] + row["not_written"] == row["packets_in"]
    assert result["figures"]["disk_MB_per_s"] > 1


@pytest.mark.serial
@pytest.mark.complete
def test_soak_loads_the_monitor_without_effect_on_the_trigger(nanet, tmp_path):
    nanet("bench", "soak", "--seconds", 5, "--device", "cpu", "--json", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    figures, last = result["figures"], result["rows"][-1]
    assert len(result["rows"]) == 5
    assert last["idle_clients"] > 900 and last["monitor_files"] > 0
    assert figures["garbage_requests"] > 20 and figures["updates_per_s"] > 0
    assert figures["events"] > 10_000 and figures["lost"] == figures["bad"] == 0
    assert 0 < figures["monitor_late_kB"] < figures["trigger_late_kB"] < 1.05 * figures["trigger_early_kB"]


def test_losses_of_every_kind_are_found():
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


def test_packets_that_the_kernel_drops_are_lost_once():
    from nanet.bench.chain import losses_of

    lost = {"late": 3, "missing": 40, "socket_overflow": 9, "ring_overflow": 1, "overrun": 0}
    assert lost_by_cause(lost) == {"late": 3, "missing": 40, "overrun": 0}
    assert packets_lost(lost) == 43
    # No later packet shows that the last ones are missing.
    assert packets_lost(lost | {"missing": 2}) == 3 + 10
    assert packets_lost({"missing": 2}) == 2 and packets_lost({}) == 0
    trigger = {
        "lost": lost, "bad_packets": {}, "frames_late": 0, "frames_overrun": 0, "frames_incomplete": 0,
        "account_closes": True, "primitives_out": 9,
    }  # fmt: skip
    l0tp = {"primitives": 9, "frames_missing": 0, "primitives_expected": 9, "primitives_paired": 9}
    found = losses_of(trigger, l0tp)
    assert sum(n for name, n in found.items() if name.startswith("lost.")) == packets_lost(lost)
    assert found["socket_overflow_drops"] == 9 and found["ring_overflow_drops"] == 1
    only_dropped = {**trigger, "lost": {"missing": 0, "socket_overflow": 1}}
    assert losses_of(only_dropped, l0tp) == {"lost.missing": 1, "socket_overflow_drops": 1}


def test_an_overloaded_host_is_named_with_its_evidence():
    result = {"lost": {"missing": 7, "socket_overflow": 0}, "frames_late": 10, "frames_in": 1000}
    assert trigger.verdict(result, 4) == "", "a few late frames may be stops"
    late = trigger.verdict(result | {"frames_late": 125}, 1)
    assert late.startswith("overloaded: 12.5% of the frames were late: try a lower --rate, or a host")
    dropped = trigger.verdict(result | {"lost": {"missing": 7, "socket_overflow": 5000}}, 4)
    assert "dropped 5 000 messages from full sockets: try a lower --rate, --board-threads 1, or" in dropped
    assert trigger.verdict({"lost": {}, "frames_late": 0, "frames_in": 0}, 1) == ""


@pytest.mark.skipif(bool(simulation.missing()), reason=f"no simulated modules: {simulation.missing()}")
def test_unica_releases_in_one_period_and_refuses_double_errors():
    sheet = Sheet(lambda _: None)
    unica.release_bins(sheet, 20_000)
    unica.bit_errors(sheet, 2)
    assert sheet.figures == {
        "release_bins": 1,
        "ttc_single_errors_corrected_share": 1,
        "ttc_double_errors_accepted": 0,
    }
    line, whole, frames = sheet.rows
    outcomes = ("sent", "joined", "late", "early", "dead", "choked", "untimed", "flushed")
    assert line["decisions"] == 20_000 == sum(line[name] for name in outcomes)
    assert whole["pulses"] >= 20_000 and whole["slack"] == whole["placed"]
    assert frames["singles"] == 256 * 13 + 2 * 39 and frames["doubles"] == 256 * 78 + 2 * 741


def test_the_routed_clock_is_that_of_the_slowest_whole_card(monkeypatch, tmp_path):
    table = tmp_path / "results.md"
    monkeypatch.setattr(unica, "SYNTHESIS", table)
    rows = (
        "|`nanet_card` MAC_W=64|1|2|3|4|91.5|156.25|",
        "|`nanet_card` MAC_W=8|1|2|3|4|88.2 (87 to 89)|125|",
    )
    table.write_text("\n".join(("|`clop`|1|2|3|4|60.0|156.25|", *rows, "|`nanet_card_us`|1|2|3|4|50|156|")))
    assert unica.routed_mhz() == 88.2
    table.write_text("no rows")
    with pytest.raises(RuntimeError, match="no row of nanet_card"):
        unica.routed_mhz()


@pytest.mark.skipif(bool(simulation.missing()), reason=f"no simulated modules: {simulation.missing()}")
@pytest.mark.complete
def test_unica_counts_losses_at_line_rate_by_size(monkeypatch):
    sheet = Sheet(lambda _: None)
    monkeypatch.setattr(unica, "routed_mhz", lambda: 156.25)
    unica.line_rates(sheet, (64, 0), 50)
    monkeypatch.setattr(unica, "routed_mhz", lambda: 20.0)
    unica.line_rates(sheet, (64,), 50)
    whole, mixed, slow = sheet.rows
    assert whole["lost"] == mixed["lost"] == 0 < whole["packets"]
    assert sheet.figures["line_rate_at_routed_clock_lost"] == slow["lost"] > 0
    assert slow["lost"] == slow["packets"] - slow["used"]


@pytest.mark.skipif(bool(simulation.missing()), reason=f"no simulated modules: {simulation.missing()}")
def test_unica_reports_a_failed_check_of_the_simulation():
    program = simulation.build(
        unica.TTC_BENCHES / "ttc_frames" / "ttc_frames.cpp", unica.TTC_RTL / "ttc_frames.sv"
    )
    with pytest.raises(RuntimeError, match="ttc_frames: argument 3 is missing"):
        simulation.totals(program, 1, 1)


def test_merging_gives_the_same_answers_and_both_times():
    sheet = Sheet(lambda _: None)
    merging.run(Settings(events=5000, runs=2, device="cpu"), sheet)
    segments, merged = sheet.rows
    assert (segments["input"], merged["input"]) == merging.INPUTS
    assert segments["frames"] == merged["frames"] > 70
    assert segments["events"] == merged["events"] > 4500
    for row in sheet.rows:
        name = f"cpu_{row['input']}_build"
        assert sheet.figures[f"{name}_us"] == row["build_p50_us"] > 0
        assert sheet.figures[f"{name}_to_post_us"] > row["reconstruct_p50_us"] > 0


def test_merging_refuses_a_run_in_which_nothing_was_merged(monkeypatch):
    frames = iter((0, 3))
    result = {"account_closes": True, "frames_unmerged": 0}

    class Replay:
        def __init__(self, options):
            self.result = lambda: {**result, "frames_unmerged": next(frames)}
            self.run = lambda: Path(options["mtp"]).write_bytes(b"")

    monkeypatch.setattr(merging, "generate_capture", lambda *_: None)
    monkeypatch.setattr(_core, "Replay", Replay)
    with pytest.raises(RuntimeError, match="3 frames of the capture could not be merged"):
        merging.run(Settings(runs=1, device="cpu"), Sheet(lambda _: None))


@pytest.mark.skipif(
    bool(_core.gateware_missing() or simulation.missing()), reason="no simulation in this build"
)
@pytest.mark.complete
def test_unica_gives_every_figure(nanet, tmp_path):
    nanet("bench", "unica", "--events", 100_000, "--json", "out.json", timeout=300)
    result = json.loads((tmp_path / "out.json").read_text())
    figures = result["figures"]
    assert 0 < figures["merge_cycles_mean"] < figures["merge_cycles_p99_9"]
    assert figures["merge_lost_20mhz"] == figures["ttc_double_errors_accepted"] == 0
    assert figures["line_rate_at_routed_clock_lost"] >= 0
    assert figures["release_bins"] == figures["ttc_single_errors_corrected_share"] == 1
    assert result["rows"][2]["decisions"] == 100_000


@pytest.mark.skipif(bool(_core.gateware_missing()), reason="no simulated card in this build")
@pytest.mark.complete
def test_card_counts_cycles_and_loses_nothing_at_line_rate(nanet, tmp_path):
    nanet("bench", "card", "--samples", 1000, "--json", "out.json", "--plots", "plots", timeout=200)
    result = json.loads((tmp_path / "out.json").read_text())
    figures, rows = result["figures"], result["rows"]
    assert figures["event_cycles_max"] <= 64 and figures["event_cycles_spread"] <= 8
    assert 0 < figures["tlb_cycles"] <= 20
    assert 7.2 < figures["firmware_us_min"] < figures["firmware_us_max"] < 8.7
    assert figures["by_tlb_us_max"] < figures["firmware_us_min"]
    assert figures["line_rate_lost"] == 0 and figures["sim_cycles_per_s"] > 0
    # 8 bytes per cycle, or a tenth of it, without headers, preambles and gaps.
    for row in (row for row in rows if "payload_MB_per_s" in row):
        wire = {"10GbE": 1250, "2x10GbE": 2500, "1GbE": 125}[row["measured"]]
        share = (row["frame_bytes"] - 46) / (row["frame_bytes"] + 20)
        assert row["payload_MB_per_s"] == pytest.approx(wire * share, rel=0.05), row
    assert (tmp_path / "plots" / "card.png").stat().st_size > 1000


def test_answers_lists_each_primitive_that_differs(tmp_path):
    def capture(name: str, packets: list[list[tuple[int, int, int]]]) -> str:
        path = str(tmp_path / name)
        with _core.wire.PcapWriter(path) as writer:
            for frame, primitives in enumerate(packets):
                payload = _core.wire.mtp_encode(frame, primitives)
                writer.write(frame, _core.wire.build_udp_frame((1, 2), (3, 4), payload))
        return path

    one = [[(0x5001, 7, 1), (0x5002, 8, 2)], [(0x5003, 9, 3)]]
    cpu = capture("cpu.pcap", one)
    listed: list[dict] = []
    assert answers.compare(cpu, capture("same.pcap", one), "math", "launch", listed) == 0
    other = capture("other.pcap", [[(0x5001, 7, 1), (0x4002, 8, 2)], []])
    assert answers.compare(cpu, other, "math", "launch", listed) == 2
    assert [(row["packet"], row["primitive"]) for row in listed] == [(0, 1), (1, 0)]
    assert listed[0]["cpu"].endswith("0x5002") and listed[0]["gpu"].endswith("0x4002")
    assert listed[1]["gpu"] == "none"
    with pytest.raises(ValueError, match="shorter"):
        answers.compare(cpu, capture("cut.pcap", one[:1]), "math", "launch", listed)


@pytest.mark.parametrize(
    ("capacity", "overhead_s"), [(3e6, 4.0), (0.9e6, 4.0), (20e6, 4.0), (3e6, 12.0), (0.0, 30.0)]
)
def test_loopback_ends_within_five_minutes(monkeypatch, capacity, overhead_s):
    """With programs that need `overhead_s` beside each run, and lose above `capacity` events per second."""
    clock = [0.0]

    class Host:
        runs = 3
        confirmed = 0.0

        def __init__(self, kind, pad, *_) -> None:
            self.capacity = capacity * (1.5 if pad else 1.0)

        def attempt(self, rate: float, seconds: float) -> bool:
            clock[0] += seconds + overhead_s
            return rate <= self.capacity

    def costs(seconds: float, packets_per_s: float, sheet: Sheet) -> list[dict]:
        clock[0] += 20.0
        kinds = [(name, load) for name in peers.RECEIVERS for load in ("trains", "single")]
        return [{"receiver": name, "load": load, "packets_per_cpu_s": 1.0} for name, load in kinds]

    monkeypatch.setattr(loopback.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(loopback, "Load", Host)
    monkeypatch.setattr(peers, "cpu_per_packet", costs)
    sheet = Sheet(lambda text: None)
    if not capacity or overhead_s > 10:
        with contextlib.suppress(RuntimeError):
            loopback.run(Settings(), sheet)
    else:
        loopback.run(Settings(), sheet)
        for kind, most in (("packed", capacity), ("padded", 1.5 * capacity)):
            assert most / 1.3 <= sheet.figures[f"lossless_events_per_s_{kind}"] <= most
    assert clock[0] <= 300.0
    assert sheet.figures["packets_per_cpu_s"] == 1.0


def test_recovery_begins_with_the_first_good_tenth_of_a_second():
    sent = np.arange(0, 1_000_000_000, 1_000_000, dtype=np.uint64) + np.uint64(5_000_000_000)
    late = np.zeros(1000, bool)
    assert overload.recovery_ms(sent, late, 5_000_000_000) == 0
    late[:205] = True
    assert overload.recovery_ms(sent, late, 5_000_000_000) == 210
    assert overload.recovery_ms(sent, late, 5_300_000_000) == 0
    late[:] = True
    assert overload.recovery_ms(sent, late, 5_000_000_000) == float("inf")
    assert overload.recovery_ms(sent, late, 7_000_000_000) == float("inf")
