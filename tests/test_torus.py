# SPDX-License-Identifier: Apache-2.0
"""Torus: C++ against the reference model, golden vectors, the model, and the command."""

from __future__ import annotations

import io
import itertools
import json
import math
import random
import zlib
from pathlib import Path

import golden_vectors
import pytest
import reference_torus as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from nanet.cli.app import main

from nanet import _core, simulation
from nanet.bench import Settings, Sheet
from nanet.bench import torus as bench_torus
from nanet.torus import curves, lqcd, mpi_demo, parameters, rtl

CODES = (0x10, 0x11, 0x00, 0x01)
SMALL = [(2, 2, 2), (3, 3, 3), (4, 4, 4), (4, 3, 2), (2, 6, 3), (1, 5, 4)]
RINGS = [tuple(k if axis == d else 1 for axis in range(3)) for k in range(2, 9) for d in range(3)]


def compare_routes(size: tuple[int, int, int], balanced: bool, order: tuple[int, int, int]) -> None:
    """route() in C++ and in Python for every node, input port, destination and VC code."""
    x, y, z = size
    nodes = [(i % x, i // x % y, i // x // y) for i in range(x * y * z)]
    table = _core.torus.route_table(size, order, balanced, list(CODES)).tolist()
    ways = itertools.product(nodes, range(7), nodes, CODES)
    for (me, port, to, code), found in zip(ways, table, strict=True):
        routed = reference.route(size, me, port, to, code, order, balanced)
        packed = routed.port | routed.vchan << 3 | routed.out_of_lattice << 8
        assert found == packed, (size, me, port, to, code)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("size", SMALL + RINGS)
def test_route_equals_the_reference(size: tuple[int, int, int], balanced: bool) -> None:
    compare_routes(size, balanced, reference.ZYX)


@pytest.mark.complete
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("k", [5, 6, 7, 8])
def test_route_equals_the_reference_in_large_cubes(k: int, balanced: bool) -> None:
    compare_routes((k, k, k), balanced, reference.ZYX)


def test_route_in_another_order_and_outside_the_lattice() -> None:
    compare_routes((3, 4, 2), False, (0, 2, 1))
    for to in ((4, 0, 0), (0, 4, 0), (63, 31, 31)):
        assert _core.torus.route((4, 4, 4), (1, 2, 3), 2, to) == (6, 0, True)


@pytest.mark.parametrize("name", ["raw", "ethernet", "only", "32"])
def test_golden_headers(name: str) -> None:
    fields, data = golden_vectors.read(f"torus_header_{name}")
    word = int.from_bytes(data, "little")
    assert reference.unpack(reference.HEADER, word) == {key: int(value[0]) for key, value in fields.items()}
    assert reference.protect(word) == word
    assert _core.torus.protect(data) == data


@pytest.mark.parametrize("name", ["put", "get", "nack"])
def test_golden_packets(name: str) -> None:
    fields, data = golden_vectors.read(f"torus_packet_{name}")
    number = {key: int(value[0]) for key, value in fields.items() if key != "payload"}
    head = {key: number[key] for key in reference.HEADER if key not in ("ecc", "length")}
    foot = {key: number[f"footer_{key}"] for key in reference.FOOTER if key != "crc"}
    payload = data[16 : 16 + number["length"]]
    words = reference.packet(head, payload, foot)
    assert b"".join(map(reference.to_bytes, words)) == data
    assert _core.torus.check_packet(data) == "none"


@pytest.mark.parametrize("name", ["cell", "training"])
def test_golden_control_words(name: str) -> None:
    fields, data = golden_vectors.read(f"reliable_{name}")
    words = [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]
    assert reference.control_is_right(words[-1], words[:-1])
    assert {k: int(v[0]) for k, v in fields.items()} == reference.unpack(reference.CONTROL, words[-1])


@pytest.mark.parametrize("name", ["apelink_credit", "apelink_credit_full"])
def test_golden_credits(name: str) -> None:
    fields, data = golden_vectors.read(name)
    used = [(int(fields[f"headers_{vc}"][0]), int(fields[f"data_{vc}"][0])) for vc in range(2)]
    word = int.from_bytes(data, "little")
    assert reference.credit(used) == word
    assert reference.credit_fields(word) == used


@given(st.integers(0, (1 << 120) - 1), st.sets(st.integers(0, 127), max_size=2))
@settings(max_examples=200)
def test_secded_equals_the_reference(data: int, flips: set[int]) -> None:
    word = reference.protect(data)
    assert _core.torus.protect(reference.to_bytes(data)) == reference.to_bytes(word)
    for bit in flips:
        word ^= 1 << bit
    corrected, errors = reference.correct(word)
    assert errors == len(flips)
    assert _core.torus.correct(reference.to_bytes(word)) == (reference.to_bytes(corrected), errors)


@given(
    st.binary(max_size=300),
    st.integers(0, (1 << 48) - 1),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 14),
)
@settings(max_examples=100)
def test_packets_of_the_reference_are_accepted_and_corrupted_ones_refused(
    payload: bytes, address: int, message: int, flags: int
) -> None:
    fields = {"vchan": 0x10, "type": reference.SEND, "address": address, "x": 3}
    words = reference.packet(fields, payload, {"message": message, "flags": flags & 0xE})
    data = b"".join(map(reference.to_bytes, words))
    assert _core.torus.check_packet(data) == "none"
    bad = bytearray(data)
    bad[-16] ^= 1 << zlib.crc32(payload) % 8
    assert _core.torus.check_packet(bytes(bad)) == "bad_crc"
    if payload:
        assert _core.torus.check_packet(data[:16] + data[32:]) == "bad_length"


@given(st.integers(0, 1 << 32), st.sampled_from(SMALL), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_model_delivers_every_packet_and_none_too_early(
    seed: int, size: tuple[int, int, int], balanced: bool, atomic: bool
) -> None:
    rng = random.Random(seed)
    nodes = size[0] * size[1] * size[2]
    timing = {**_core.torus.timing(rng.choice(["router", "reliable", "apelink"])), "atomic": atomic}
    timing["buffer_words"] = rng.choice([258, 512])
    packets = sorted(
        (rng.randrange(3000), rng.randrange(nodes), rng.randrange(nodes), rng.randrange(4097))
        for _ in range(rng.randrange(1, 300))
    )
    model = _core.torus.Model(size, timing, balanced)
    done = model.play(packets)
    hop = timing["route_cycles"] + timing["out_cycles"]
    for (at, source, to, payload), (head, tail) in zip(packets, done, strict=True):
        words = 2 + (payload + 15) // 16
        assert head >= at + (1 if source == to else 2) * hop
        assert tail - head >= words - 1
    assert model.play(packets) == done


def test_model_refuses_with_key_value_and_remedy() -> None:
    model = _core.torus.Model((4, 4, 2))
    with pytest.raises(ValueError, match=r"load = 1\.5.*: must be above 0"):
        model.run(load=1.5)
    with pytest.raises(ValueError, match="pattern = transpose: sizes of x and z must be equal"):
        model.run("transpose")
    with pytest.raises(ValueError, match="pattern = all: must be uniform"):
        model.run("all")
    with pytest.raises(ValueError, match="hop is no stage time"):
        _core.torus.Model((4, 4, 2), {"hop": 3})


def test_curves_meet_the_published_figures() -> None:
    result = curves.curves(parameters.Parameters())
    for name, value in curves.PUBLISHED.items():
        assert result["figures"][name] == pytest.approx(value, rel=0.03), name
    # Staging through host memory is slower up to about 128 KB, as published.
    assert 65_536 <= result["figures"]["staged_faster_from_bytes"] <= 131_072
    for rows in (result["half_round_trip_us"], result["bandwidth_gbytes"]):
        for name in set(rows[0]) - {"bytes"}:
            assert all(a[name] <= b[name] * 1.0001 for a, b in itertools.pairwise(rows)), name


def test_lattice_qcd_table_is_reproduced() -> None:
    assert all(row["right"] for row in lqcd.table())
    assert lqcd.required((64, 64, 64, 128), 2) == 0
    balance = {(row["link"], row["host"]): row for row in lqcd.balanced()}
    assert balance["34 Gb/s (8b10b)", "Gen2 x8"]["rows_in_balance"] == 1
    assert balance["400 Gb/s (PAM4)", "Gen5 x16"]["rows_in_balance"] == 5


def test_halo_of_4d_blocks_on_the_torus() -> None:
    for local, *_ in lqcd.PUBLISHED:
        places = itertools.product(*(range(n) for n in lqcd.blocks(local)))
        nodes = math.prod(lqcd.torus_of(local))
        assert sorted(lqcd.node_of(local, block) for block in places) == list(range(nodes))
    local = lqcd.PUBLISHED[-1][0]  # t is not divided
    sent = [0] * 8
    for _, source, target, length in lqcd.halo(local):
        assert source != target and 0 < length <= 4096
        sent[source] += length
    assert set(sent) == {6 * 48 * 32 * 32 * 128}
    assert 0.9 < lqcd.halo_share(local) <= 1
    # Neighbours along x lie up to seven hops apart: the links of the first dimension are the limit.
    assert lqcd.halo_share(lqcd.PUBLISHED[0][0]) < 0.7


def test_sweep_as_json_with_a_figure(nanet, tmp_path: Path) -> None:
    done = nanet(
        "torus", "--size", "3x3x3", "--load", "0.1,0.9", "--cycles", 2000, "--json", "-", "--plots", "plots"
    )
    result = json.loads(done.stdout)
    low, high = result["rows"]
    assert low["accepted"] == pytest.approx(0.1, rel=0.15) and not low["saturated"]
    assert high["mean_cycles"] > low["mean_cycles"] and not high["deadlocked"]
    assert (tmp_path / "plots" / "torus-load.svg").read_text().startswith("<?xml")


def test_demo_survives_bit_errors(nanet, tmp_path: Path) -> None:
    done = nanet("torus", "demo", "--program", "model", "--iterations", 12, "--json", "demo.json")
    assert "every one delivered once" in done.stdout
    result = json.loads((tmp_path / "demo.json").read_text())
    program = result["program"]
    assert result["complete"] and program["packets"] == 12 * (64 * (16 * 6 + 9) + 48 * 16)
    assert program["cells_resent"] >= program["cells_damaged"] > 10
    before, during, after = result["cycles_per_iteration"]
    assert during > before and during > after
    clean = nanet(
        "torus",
        "demo",
        "--program",
        "model",
        "--iterations",
        3,
        "--size",
        "3x2x1",
        "--errors",
        0,
        "--json",
        "-",
    )
    assert json.loads(clean.stdout)["program"]["cells_damaged"] == 0


@pytest.mark.skipif(bool(mpi_demo.missing(8)), reason="no MPI with its compiler, or no provider")
def test_demo_carries_an_mpi_program(nanet) -> None:
    done = nanet("torus", "demo", "--program", "mpi", "--size", "2x2x2", "--iterations", 600, "--json", "-")
    result = json.loads(done.stdout)
    assert result["complete"] and result["mpi"]["ranks"] == 8 and result["mpi"]["error"] < mpi_demo.RIGHT
    # Each rank sends six faces of 2 KiB per iteration.
    assert result["program"]["iterations"] == 600 and result["program"]["words"] > 600 * 8 * 6 * 128
    assert result["program"]["cells_damaged"] > 0
    lines = done.stderr.splitlines()
    assert "8 ranks are starting" in lines or any("of 600 iterations" in line for line in lines)
    assert not any(line.startswith("0 of 600 iterations") for line in lines)


def test_an_interrupted_program_is_no_wrong_result() -> None:
    from nanet.torus.live import summary
    from rich.console import Console

    program = {"iterations": 0, "packets": 9, "cells_damaged": 0, "cells_resent": 0}
    result = {
        "program": program, "errors": {"node": 0, "port": 0, "word_rate": 0.01}, "complete": False,
        "mean_cycles": 1.0, "p99_cycles": 1.0, "max_cycles": 1, "mpi": {"ranks": 8, "error": math.inf},
    }  # fmt: skip
    for stopped, said in ((True, "stopped before the end"), (False, "wrong result")):
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(summary({**result, "stopped": stopped}))
        text = console.export_text()
        assert said in text and ("wrong" in text) != stopped


def test_live_picture_marks_the_link_with_errors() -> None:
    from nanet.torus.demo import Demo
    from nanet.torus.live import View
    from rich.console import Console

    demo = Demo((4, 4, 4), _core.torus.timing("reliable"), iterations=9, word_rate=0.01)
    view, marked = View(demo, "torus"), set()
    for tick in demo.ticks():
        view.update(tick)
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(view)
        text = console.export_text()
        assert text.count("●") == 64 and "z = 3" in text
        marked.add(("✗" in text, tick.errors_on))
    assert marked == {(False, False), (True, True)}


def test_monitor_of_a_torus() -> None:
    from nanet.monitor.torus import TorusCollector, TorusState
    from nanet.torus.demo import Demo
    from prometheus_client import CollectorRegistry, generate_latest

    demo = Demo((2, 2, 2), _core.torus.timing("reliable"), iterations=3, word_rate=0.01)
    state = TorusState()
    collector = TorusCollector(state)
    assert not state.health()[0] and len(list(collector.collect())) == 2
    for tick in demo.ticks():
        state.take({"kind": "snapshot", "t": 0.0, "snapshot": demo.snapshot(tick)})
    assert state.health()[0] and len(state.feed()["torus"]["links"]) == 48
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    assert f"nanet_torus_packets_total {float(demo.expected)}" in text
    assert 'nanet_torus_cells_total{outcome="cells_resent"}' in text
    state.take({"kind": "result", "t": 0.0, "snapshot": state.snapshot})
    assert "has ended" in state.health()[1]


def test_curves_and_lqcd_as_json(nanet, tmp_path: Path) -> None:
    done = nanet("torus", "curves", "--json", "curves.json", "--plots", ".")
    assert "firmware_us" in done.stdout and "fitted" in done.stdout
    assert json.loads((tmp_path / "curves.json").read_text())["figures"]["G-G_us"] > 5
    assert (tmp_path / "torus-curves.svg").exists()
    result = json.loads(nanet("torus", "lqcd", "--gflops", 1000, "--json", "-").stdout)
    assert len(result["rows"]) == 5 and len(result["links"]) == 20


def test_bad_input_names_key_value_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, part in (
        (("--size", "4x4"), "three sizes, such as 4x4x4"),
        (("--size", "4x4x33"), "size of z, 33, must be 1 to 32"),
        (("--load", "0"), "above 0 and at most 1"),
        (("--traffic", "ring"), "one of uniform"),
        (("--payload", "4097"), "0 to 4096"),
        (("--buffer", "10"), "does not fit into buffer_words = 10"),
        (("--traffic", "transpose", "--size", "2x2x3"), "sizes of x and z must be equal"),
        (("lattice",), "must be one of sweep, demo, curves, lqcd"),
        (("sweep", "--monitor", "0"), "only torus demo has a page"),
        (("demo", "--plots", "x"), "draws on the terminal"),
        (("demo", "--size", "1x1x1"), "needs neighbours"),
        (("demo", "--program", "mpi", "--size", "8x8x8"), "512 ranks; at most 128"),
        (("demo", "--program", "pvm"), "must be one of mpi, model"),
        (("sweep", "--program", "mpi"), "only torus demo"),
        (("lqcd", "--plots", "x"), "draws no figures"),
        (("demo", "--engine", "rtl"), "--engine rtl: no option of torus demo, but of sweep, serve"),
        (("curves", "--size", "2x2x2"), "no option of torus curves, but of sweep, demo, serve"),
    ):
        assert main(["torus", *arguments]) == 2
        assert part in capsys.readouterr().err


def test_bench_torus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "missing", lambda: "skipped: it compiles for a minute")
    sheet = Sheet(lambda text: None)
    bench_torus.run(Settings(runs=1), sheet)
    figures = sheet.figures
    assert figures["lqcd_rows_right"] == 5
    assert 0.6 < figures["saturation_4"] < figures["saturation_4_balanced"] < 0.8
    assert 0.41 < figures["saturation_8"] < 0.45 < figures["saturation_8_reserve"]
    assert 0.45 < figures["saturation_8_balanced"] < 0.55
    assert figures["model_events_per_s"] > 0 and figures["model_nodes"] == 32_768


@pytest.mark.complete
@pytest.mark.skipif(bool(simulation.missing()), reason="no simulated routers here")
def test_model_agrees_with_the_simulated_routers() -> None:
    program = rtl.network()
    assert rtl.hop_cycles(program) == 5
    for pattern, load, cycles in rtl.LOADS:
        row = rtl.compare(program, 4, pattern, load, cycles)
        assert abs(row["throughput_error"]) < 0.03, row
        assert abs(row["latency_error"]) < 0.05, row
