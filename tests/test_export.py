# SPDX-License-Identifier: Apache-2.0
"""`nanet export`: ROOT and Parquet files give back the exported tables."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from nanet._core import wire
from nanet.files import export
from reference_pcap import capture
from reference_rings import PLANE as PM_PLANE
from reference_traffic import Faults, Scenario

from nanet import analysis

PLANE = [(float(x), float(y)) for x, y in PM_PLANE]
TABLES = "events,fragments,packets"


@pytest.fixture
def run(nanet: Callable[..., Any], tmp_path: Path) -> Path:
    """Folder with a generated run and its rings."""
    nanet("generate", "--events", 700, "--seed", 4, "--max-frames", 9, "--out", "run.pcap", "--truth",
          "run.parquet", "--truth-hits", "hits.parquet")  # fmt: skip
    nanet("replay", "run.pcap", "--out", "rings.parquet", "--algorithm", "tripl", "--device", "cpu")
    return tmp_path


def check(tree: Any, table: pa.Table) -> None:
    """Compares the columns of a tree with the table, by the rules of nanet/files/export.py."""
    assert tree.num_entries == table.num_rows
    for field in table.schema:
        want, got = table[field.name], tree[field.name].array(library="np")
        if pa.types.is_list(field.type):
            assert [values.tolist() for values in got] == want.to_pylist()
            assert tree[f"n{field.name}"].array(library="np").tolist() == [len(v) for v in want.to_pylist()]
        elif field.name == "particle":
            assert got.tolist() == [export.PDG.get(name, 0) for name in want.to_pylist()]
        elif pa.types.is_string(field.type):
            names = [*(wire.refusals if field.name == "refusal" else wire.not_mgp), None]
            assert [names[code] for code in got] == want.to_pylist()
        elif pa.types.is_floating(field.type):
            assert np.array_equal(got, want.to_numpy(), equal_nan=True)
        else:
            assert got.tolist() == [value or 0 for value in want.to_pylist()]
            assert got.dtype == field.type.to_pandas_dtype() or field.type == pa.bool_()


def test_everything_of_a_run_in_one_root_file(
    nanet: Callable[..., Any], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(run / name) for name in ("run.pcap", "rings.parquet", "run.parquet", "hits.parquet")]
    found = analysis.read_capture(files[0])
    tables = {
        "events": found.events, "fragments": found.fragments, "packets": found.packets,
        "rings": analysis.read_rings(files[1]), "truth": analysis.read_truth(files[2]),
        "hits": analysis.read_truth_hits(files[3]),
    }  # fmt: skip
    told = nanet("export", *files, "--tables", TABLES, "--out", "all.root", "--json", "-")
    assert json.loads(told.stdout)["tables"] == {name: table.num_rows for name, table in tables.items()}
    monkeypatch.setattr(export, "BATCH_ROWS", 100)  # so that the trees are written in many batches
    export.export(export.sources(files, TABLES.split(",")), str(run / "pieces.root"))
    for name in ("all.root", "pieces.root"):
        with uproot.open(run / name) as file:
            for key, table in tables.items():
                assert table.num_rows > 40
                check(file[key], table)
            about = json.loads(file["about"])
            assert about["from"]["truth"]["nanet.seed"] == "4"
            assert about["from"]["rings"]["file"] == "rings.parquet"


def test_refused_and_foreign_packets_are_named(nanet: Callable[..., Any], tmp_path: Path) -> None:
    scenario = Scenario(3, frames=10, faults=Faults(malformed=0.3))
    path = tmp_path / "bad.pcap"
    path.write_bytes(capture(scenario.datagrams(PLANE), random.Random(3), 0.3))
    packets = analysis.read_packets(str(path), boards="4")
    assert len(set(packets["refusal"].to_pylist())) > 10
    assert len(set(packets["not_mgp"].to_pylist())) > 5
    nanet("export", path, "--boards", "4", "--tables", "packets,events", "--out", "bad.root")
    with uproot.open(tmp_path / "bad.root") as file:
        check(file["packets"], packets)
        check(file["events"], analysis.read_events(str(path), boards="4"))


@pytest.mark.parametrize("name", ["events", "fragments", "packets"])
def test_a_capture_as_parquet(nanet: Callable[..., Any], run: Path, name: str) -> None:
    nanet("export", "run.pcap", "--tables", name, "--out", "out.parquet")
    want = getattr(analysis.read_capture(str(run / "run.pcap")), name)
    assert pq.read_table(run / "out.parquet").replace_schema_metadata().equals(want)


def test_rings_and_truth_stay_what_they_are(nanet: Callable[..., Any], run: Path) -> None:
    for name, read in (("rings", analysis.read_rings), ("run", analysis.read_truth)):
        nanet("export", f"{name}.parquet", "--out", "copy.parquet")
        want, got = (read(str(run / f"{file}.parquet")) for file in (name, "copy"))
        assert got.equals(want)
        assert set(want.schema.metadata or {}) <= set(got.schema.metadata)
    truth = analysis.read_truth(str(run / "run.parquet"))
    assert analysis.evaluate(truth, analysis.read_rings(str(run / "rings.parquet"))).result()["events"] == 700


def test_an_empty_capture(nanet: Callable[..., Any], tmp_path: Path) -> None:
    wire.PcapWriter(str(tmp_path / "empty.pcap")).close()
    nanet("export", "empty.pcap", "--tables", TABLES, "--out", "empty.root")
    with uproot.open(tmp_path / "empty.root") as file:
        assert [file[name].num_entries for name in TABLES.split(",")] == [0, 0, 0]


def test_errors_are_reported(nanet: Callable[..., Any], run: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), run / "other.parquet")
    (run / "file").touch()
    for arguments, said in (
        (("run.pcap", "--out", "run.txt"), "must end in .root or .parquet"),
        (("missing.pcap", "--out", "a.root"), "missing.pcap: No such file"),
        (("other.parquet", "--out", "a.root"), "has neither the columns of rings nor those of truth"),
        (("run.pcap", "--tables", "event", "--out", "a.root"), "must be of events, fragments, packets"),
        (("run.pcap", "--tables", ",", "--out", "a.root"), "names no table"),
        (("run.pcap", "rings.parquet", "--out", "a.parquet"), "not events and rings"),
        (("run.pcap", "run.pcap", "--out", "a.root"), "both give events"),
        (("rings.parquet", "--out", "rings.parquet"), "--out rings.parquet: is the file of the input too"),
        (("rings.parquet", "--out", "a.root", "--json", "rings.parquet"), "--json rings.parquet: is"),
        (("run.pcap", "--out", "file/a.root"), "--out file/a.root"),
    ):
        assert said in nanet("export", *arguments, status=2).stderr
    assert analysis.read_rings(str(run / "rings.parquet")).num_rows > 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_one_sentence(nanet: Callable[..., Any], run: Path) -> None:
    (run / "full.parquet").symlink_to("/dev/full")
    assert "No space left" in nanet("export", "rings.parquet", "--out", "full.parquet", status=2).stderr
    assert (run / "full.parquet").is_symlink()
