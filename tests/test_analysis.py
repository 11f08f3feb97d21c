# SPDX-License-Identifier: Apache-2.0
"""Notebook API: captures give the events that the trigger builds; and `nanet show`."""

from __future__ import annotations

import inspect
import json
import pydoc
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference_trigger as ref
from nanet._core import wire
from nanet.analysis import fits
from nanet.errors import DataWarning, UsageError
from nanet.files import captures
from nanet.files import truth as truth_files
from nanet.quality import evaluate
from reference_pcap import capture
from reference_rings import PLANE as PM_PLANE
from reference_traffic import Faults, Scenario

from nanet import _core, analysis

PLANE = [(float(x), float(y)) for x, y in PM_PLANE]
LSB_NS = 0.097464731802


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with 3000 generated events: run.pcap, run.parquet, hits.parquet, rings.parquet (by math)."""
    folder = tmp_path_factory.mktemp("run")
    settings = {
        "events": 3000, "rate": 10e6, "noise": 1.0, "rings": -1, "seed": 21, "merged": False, "fixed": False,
        "pad": False, "max_payload": 1472, "burst_frames": 40, "truth": True, "truth_hits": True,
    }  # fmt: skip
    core = _core.Capture(settings, str(folder / "run.pcap"))
    with (
        truth_files.TruthWriter("", str(folder / "run.parquet"), truth_files.RING_SCHEMA) as truth,
        truth_files.TruthWriter("", str(folder / "hits.parquet"), truth_files.HIT_SCHEMA) as hits,
    ):
        while core.next(64):
            truth.write(truth_files.ring_table(core.truth()))
            hits.write(truth_files.hit_table(core.hits()))
    replay(folder / "run.pcap", folder / "rings.parquet")
    return folder


def replay(path: Path, out: Path | None = None, boards: tuple[int, ...] = (0, 1, 2, 3)) -> pa.Table:
    """Rings of the trigger, by math."""
    from nanet.files.rings import RingWriter, table

    options = ref.Options(boards=boards).core()
    core = _core.Replay(options | {"pcap": str(path), "algorithm": "math", "rings": True})
    core.run()
    columns = core.take_rings()
    if out is not None:
        with RingWriter(str(out)) as writer:
            writer.write(columns)
    return table(columns)


def same(want: pa.Table, got: pa.Table, omit: tuple[str, ...] = ("primitive",)) -> None:
    """Whether columns are bit-identical."""
    assert want.num_rows == got.num_rows
    for name in want.schema.names:
        if name not in omit:
            assert want[name].equals(got[name]) or np.array_equal(
                want[name].to_numpy(), got[name].to_numpy(), equal_nan=True
            ), name


def test_events_and_rings_are_those_of_the_trigger(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    assert events.num_rows > 2800
    assert len(set(events["burst"].to_pylist())) == 2
    same(analysis.read_rings(str(run / "rings.parquet")), analysis.reconstruct(events, "math"))


@pytest.mark.parametrize("seed", range(8))
def test_events_of_random_traffic_are_those_of_the_trigger(tmp_path: Path, seed: int) -> None:
    boards = (0, 1, 2, 3) if seed % 2 else (0xFF,)
    scenario = Scenario(seed, boards, 2, 12, 2.0, Faults(dup=0.05, malformed=0.1), foreign=0.05)
    path = tmp_path / "random.pcap"
    path.write_bytes(capture(scenario.datagrams(PLANE), random.Random(seed), 0.05))
    found = analysis.read_capture(str(path), boards="4" if seed % 2 else "merged")
    want = ref.Reference(ref.Options(boards=boards)).run(str(path))
    same(replay(path, boards=boards), analysis.reconstruct(found.events, "math"))
    assert found.events["pm"].to_pylist() == [event.pms for event in want.events]
    assert sum(found.events["fragments"].to_pylist()) == sum(len(e.fragments) for e in want.events)
    refused = [name for name in found.packets["refusal"].to_pylist() if name]
    assert {name: refused.count(name) for name in refused} == dict(want.bad)
    foreign = [name for name in found.packets["not_mgp"].to_pylist() if name]
    assert {name: foreign.count(name) for name in foreign} == dict(want.not_mgp)


@pytest.mark.parametrize("how", [{"fixed": True, "pad": True}, {"merged": True}])
def test_slots_padding_and_merged_streams(tmp_path: Path, how: dict[str, bool]) -> None:
    path = tmp_path / "run.pcap"
    settings = {
        "events": 400, "rate": 10e6, "noise": 1.0, "rings": -1, "seed": 5, "merged": False, "fixed": False,
        "pad": False, "max_payload": 1472, "burst_frames": 1000, "truth": False, "truth_hits": False,
    }  # fmt: skip
    core = _core.Capture(settings | how, str(path))
    while core.next(64):
        pass
    events = analysis.read_events(str(path))  # the kind is found in the capture
    boards = (0xFF,) if "merged" in how else (0, 1, 2, 3)
    same(replay(path, boards=boards), analysis.reconstruct(events, "math"))


def test_pieces_make_the_same(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = analysis.read_capture(str(run / "run.pcap"))
    for size in (1, 50, 1000):
        monkeypatch.setattr(captures, "CHUNK", size)
        pieces = analysis.read_capture(str(run / "run.pcap"))
        assert pieces.events.equals(whole.events)
        assert pieces.fragments.equals(whole.fragments)


def test_packets_and_fragments_are_those_of_the_decoder(run: Path) -> None:
    found = analysis.read_capture(str(run / "run.pcap"))
    want_packets, want_fragments = [], []
    for at, (time, frame, _) in enumerate(wire.PcapReader(str(run / "run.pcap"))):
        data = wire.parse_udp_frame(frame)[1]
        head = wire.decode_header(data)
        names = ("board", "flags", "events", "index", "sequence", "frame")
        want_packets.append((time, len(frame), head["burst"], *(head[name] for name in names)))
        want_fragments += [
            (at, head["board"], f["timestamp"], f["fine"], f["seen"], f["hits"]) for f in wire.fragments(data)
        ]
    p = found.packets
    columns = ("time_ns", "bytes", "burst", "board", "flags", "events", "index", "sequence", "frame")
    assert list(zip(*(p[name].to_pylist() for name in columns), strict=True)) == want_packets
    f = found.fragments
    hits = [
        list(zip(pm, dt, strict=True))
        for pm, dt in zip(*(f[n].to_pylist() for n in ("pm", "dt")), strict=True)
    ]
    columns = ("packet", "board", "timestamp", "fine_time", "seen")
    assert list(zip(*(f[name].to_pylist() for name in columns), hits, strict=True)) == want_fragments


def test_the_hits_are_those_of_the_truth(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    hits = analysis.read_truth_hits(str(run / "hits.parquet"))
    first, pm = fits.offsets_and_values(events["pm"])
    dt = fits.offsets_and_values(events["dt"])[1]
    when = events["timestamp"].to_numpy().astype(np.int64) * 256 + events["fine_time"].to_numpy()
    seen = np.column_stack((np.repeat(when, np.diff(first)) + dt, pm))[
        np.repeat(events["burst"].to_numpy() == 0, np.diff(first))
    ]
    for time, number in zip(hits["time"].to_numpy()[:500], hits["pm"].to_numpy()[:500], strict=True):
        near = seen[seen[:, 1] == number][:, 0]
        # the clock of a board is off by up to 1 ns, a step is 0.39 ns
        assert np.abs(near * LSB_NS - time).min() < 1.7


def test_every_algorithm_runs_on_arrays(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap")).slice(100, 300)
    truth = analysis.read_truth(str(run / "run.parquet"))
    for name in _core.algorithm_names():
        rings = analysis.reconstruct(events, name)
        assert rings.schema.equals(analysis.read_rings(str(run / "rings.parquet")).schema.remove_metadata())
        assert sorted(set(rings["event"].to_pylist())) == list(range(100, 400))
        assert analysis.evaluate(truth, rings).result()["events_paired"] > 290
    few = analysis.reconstruct(events, "math", min_hits=30)
    assert 0 < sum(ring != 255 for ring in few["ring"].to_pylist()) < 80
    with pytest.raises(UsageError, match="did you mean multiring"):
        analysis.reconstruct(events, "multirings")
    with pytest.raises(UsageError, match="min_hits"):
        analysis.reconstruct(events, "math", minhits=3)


def test_arbitrary_hits() -> None:
    plane = analysis.pm_positions()
    near = np.flatnonzero(np.abs(np.hypot(plane[:, 0] + 150, plane[:, 1] - 10) - 170) < 3)[::4]
    found = analysis.reconstruct_hits(
        np.array([0, len(near), len(near) + 2]), np.append(near, [5, 9]), "tripl"
    )
    assert found["event"].tolist() == [0]
    x, y, r = (found[name][0] for name in ("x", "y", "r"))
    assert (x, y, r) == pytest.approx((-150, 10, 170), abs=1.5)


def test_everything_it_offers_is_there() -> None:
    for name in analysis.__all__:
        assert getattr(analysis, name).__doc__
    with pytest.raises(AttributeError, match="read_event"):
        _ = analysis.read_event


def test_evaluation_is_that_of_the_files(run: Path) -> None:
    files = str(run / "run.parquet"), str(run / "rings.parquet")
    tables = analysis.read_truth(files[0]), analysis.read_rings(files[1])
    assert repr(analysis.evaluate(*tables).result()) == repr(evaluate.evaluate_files(*files).result())


def test_one_event_with_its_truth(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    rings, truth = (
        analysis.read_rings(str(run / "rings.parquet")),
        analysis.read_truth(str(run / "run.parquet")),
    )
    found = lonely = 0
    for number in range(0, events.num_rows, 29):
        one = analysis.event(events, number, rings, truth)
        row = events.slice(number, 1).to_pylist()[0]
        assert (one.number, one.burst, one.pm.tolist()) == (number, row["burst"], row["pm"])
        mine = [r for r in rings.to_pylist() if r["event"] == number and r["ring"] != 255]
        assert [(r.x, r.y, r.r, r.hits) for r in one.rings] == [
            (r["x"], r["y"], r["r"], r["n_hits"]) for r in mine
        ]
        if one.true_rings is None:
            lonely += 1
            continue
        found += len(one.true_rings)
        assert sum(ring.hits for ring in one.true_rings) <= 128
        assert all(ring.particle in ("e", "mu", "pi", "K") and ring.momentum > 0 for ring in one.true_rings)
    assert found > 100
    assert lonely < 3
    with pytest.raises(UsageError, match=f"must be 0 to {events.num_rows - 1}"):
        analysis.event(events, events.num_rows)


def test_truth_of_a_pool_that_repeats(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    truth = analysis.read_truth(str(run / "run.parquet"))
    first = [analysis.event(events, n, truth=truth).true_rings for n in range(50)]
    # the same events, three rounds of 40 frames later and in another burst
    late = events.slice(0, 50).set_column(0, "burst", pa.array([9] * 50, pa.uint16()))
    when = pa.array(np.asarray(events["timestamp"])[:50] + np.uint32(3 * 40 << 8))
    late = late.set_column(2, "timestamp", when)
    pool = truth.replace_schema_metadata({truth_files.PERIOD_KEY: b"40"})
    pool = pool.filter(pa.compute.equal(pool["burst"], 0))
    assert [analysis.event(late, n, truth=pool).true_rings for n in range(50)] == first
    assert all(analysis.event(late, n, truth=truth).true_rings is None for n in range(50))


def test_show_describes_the_event(nanet: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    rings, truth = (
        analysis.read_rings(str(run / "rings.parquet")),
        analysis.read_truth(str(run / "run.parquet")),
    )
    number = next(n for n in range(200) if len(analysis.event(events, n, rings, truth).true_rings or ()) == 2)
    one = analysis.event(events, number, rings, truth)
    files = ("--rings", run / "rings.parquet", "--truth", run / "run.parquet")
    done = nanet("show", run / "run.pcap", "--event", number, *files, "--json", "event.json")
    assert done.stdout.count("●") >= len(set(zip(one.x, one.y, strict=True))) // 2
    assert any(0x2800 < ord(c) < 0x2900 for c in done.stdout)
    for ring in (*one.rings, *one.true_rings):
        assert f"{ring.r:.1f}" in done.stdout
    told = json.loads((tmp_path / "event.json").read_text())
    assert [hit["pm"] for hit in told["hits"]] == one.pm.tolist()
    assert [ring["r"] for ring in told["true_rings"]] == [ring.r for ring in one.true_rings]
    assert told["time_ns"] == pytest.approx(one.time_ns)
    # without file, with another algorithm
    done = nanet("show", run / "run.pcap", "--event", number, "--algorithm", "tripl", "--json", "-")
    own = json.loads(done.stdout)
    assert own["true_rings"] is None
    assert own["hits"] == told["hits"]
    assert "●" in done.stderr


@pytest.mark.complete
def test_show_draws_files(nanet: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    truth = ("--truth", run / "run.parquet")
    nanet("show", run / "run.pcap", "--event", 8, *truth, "--out", "event.png")
    data = (tmp_path / "event.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width > 800 < height
    nanet("show", run / "run.pcap", "--event", 8, *truth, "--out", "event.svg")
    text = (tmp_path / "event.svg").read_text()
    nanet("show", run / "run.pcap", "--event", 8, *truth, "--out", "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    one = analysis.event(
        analysis.read_events(str(run / "run.pcap")), 8, truth=analysis.read_truth(str(run / "run.parquet"))
    )
    assert "<svg" in text
    assert text.count("<!-- true:") == len(one.true_rings)


def test_errors_are_reported(nanet: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no capture, but it is long enough")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for arguments, said in (
        ((tmp_path / "missing.pcap",), "missing.pcap"),
        ((tmp_path / "text",), "not a pcap"),
        ((run / "run.pcap", "--event", 999_999), "must be 0 to"),
        ((run / "run.pcap", "--boards", "5"), "boards = '5'"),
        ((run / "run.pcap", "--port", 4), "has no events"),
        ((run / "run.pcap", "--algorithm", "maths"), "did you mean math"),
        ((run / "run.pcap", "--out", "event.jpg"), "must end in .svg"),
        ((run / "run.pcap", "--rings", tmp_path / "other.parquet"), "has no column burst"),
        ((run / "run.pcap", "--truth", tmp_path / "text"), "is no Parquet file"),
    ):
        assert said in nanet("show", *arguments, status=2).stderr


def test_wrong_arguments_are_reported(run: Path) -> None:
    events = analysis.read_events(str(run / "run.pcap"))
    truth = analysis.read_truth(str(run / "run.parquet"))
    rings = analysis.reconstruct(events.slice(0, 5), "math")
    for call, said in (
        (lambda: analysis.reconstruct(truth), "events has no column pm: give the result of read_events"),
        (lambda: analysis.reconstruct(None), "events is NoneType"),
        (lambda: analysis.evaluate(rings, truth), "truth has no column particle"),
        (lambda: analysis.event(events, 0, rings=truth), "rings has no column"),
        (lambda: analysis.event(events, "3"), "event '3': must be a number"),
        (lambda: analysis.draw_event(truth), "events has no column"),
        (lambda: analysis.reconstruct_hits([0, 2], [-1, 2]), "pm: must be whole numbers from 0 to 65535"),
        (lambda: analysis.reconstruct_hits([0, 2, 4], [1, 2, 2, 2]), "PM 2 is followed by 2 in event 1"),
        (lambda: analysis.reconstruct_hits([0, 2], [7, 3]), "PM 7 is followed by 3 in event 0"),
        (lambda: analysis.reconstruct_hits([0, 129], range(129)), "event 0 has 129 hits"),
        (lambda: analysis.reconstruct_hits([0, 2], [1.5, 2]), "pm: must be whole numbers"),
        (lambda: analysis.reconstruct_hits([0, 2.5], [1, 2]), "first: must be whole numbers"),
        (lambda: analysis.read_events(str(run / "run.pcap"), port=70000), "port = 70000"),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert said in str(error.value)


def test_a_truncated_capture_is_read_up_to_its_last_record(
    nanet: Callable[..., Any], run: Path, tmp_path: Path
) -> None:
    whole = (run / "run.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(DataWarning, match=r"cut\.pcap ends within a record"):
        events = analysis.read_events(str(tmp_path / "cut.pcap"))
    assert 0 < events.num_rows < analysis.read_events(str(run / "run.pcap")).num_rows
    said = "nanet: cut.pcap ends within a record: the packets before it were read\n"
    assert nanet("show", "cut.pcap", "--event", 0).stderr == said
    assert nanet("export", "cut.pcap", "--out", "cut.root").stderr == said


def test_an_empty_capture(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    wire.PcapWriter(str(path)).close()
    found = analysis.read_capture(str(path))
    assert found.events.num_rows == found.packets.num_rows == found.fragments.num_rows == 0
    assert analysis.reconstruct(found.events).num_rows == 0


def test_notebooks_complete_and_explain_every_name() -> None:
    assert set(analysis.__all__) <= set(dir(analysis))
    assert not [name for name in dir(analysis) if name.startswith("_") and name != "__doc__"]
    for name in analysis.__all__:
        assert inspect.getdoc(getattr(analysis, name)), name
        assert name in pydoc.plain(pydoc.render_doc(analysis))


def test_the_call_of_reconstruct_is_explained() -> None:
    """A notebook completes its keywords, and the example of its docstring has a parameter that exists."""
    names = inspect.signature(analysis.reconstruct).parameters
    assert {"algorithm", "threads", "device", "detector", "parameters"} <= set(names)
    (example,) = re.findall(r'reconstruct\(events, "(\w+)", (\w+)=', analysis.reconstruct.__doc__)
    assert example[1] in [one["name"] for one in _core.algorithm_parameters(example[0])]
    none = pa.table({"burst": [], "event": [], "timestamp": [], "fine_time": [], "pm": []})
    with pytest.raises(UsageError, match="threads = 2: is for hits at x, y"):
        analysis.reconstruct(none, threads=2)
