# SPDX-License-Identifier: Apache-2.0
"""User errors with files: no input is overwritten, no wrong input is replayed silently."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from nanet.files import rings

from nanet import __version__, _core


@pytest.fixture
def capture(nanet, tmp_path):
    nanet("generate", "--events", 2000, "--out", "run.pcap", "--truth", "run.parquet")
    return tmp_path / "run.pcap"


@pytest.mark.parametrize("option", ["--out", "--mtp", "--json", "--keep-bad"])
def test_replay_never_overwrites_its_input(nanet, capture, option):
    before = capture.read_bytes()
    said = nanet("replay", "run.pcap", option, "./run.pcap", status=2).stderr
    assert option in said and "run.pcap" in said
    assert capture.read_bytes() == before


def test_a_replay_that_is_refused_leaves_old_answers(nanet, capture, tmp_path):
    nanet("replay", "run.pcap", "--mtp", "keep.pcap")
    before = (tmp_path / "keep.pcap").read_bytes()
    said = nanet("replay", "run.pcap", "--devices", 3, "--mtp", "keep.pcap", status=2).stderr
    assert "devices = 3" in said and "power of two" in said
    nanet("replay", "run.pcap", "--card", "nonsense", "--mtp", "keep.pcap", status=2)
    assert (tmp_path / "keep.pcap").read_bytes() == before


@pytest.mark.parametrize("options", [["--devices", 3], ["--card", "nonsense"]])
def test_a_replay_that_is_refused_leaves_no_empty_files(nanet, capture, tmp_path, options):
    files = {"--mtp": "new.pcap", "--json": "new.json", "--out": "new.parquet"}
    nanet("replay", "run.pcap", *(word for pair in files.items() for word in pair), *options, status=2)
    assert not any((tmp_path / name).exists() for name in files.values())


def test_two_outputs_of_one_name_are_refused(nanet, capture):
    assert "--mtp" in nanet("replay", "run.pcap", "--out", "a", "--mtp", "a", status=2).stderr
    assert "--truth" in nanet("generate", "--events", 10, "--out", "b", "--truth", "b", status=2).stderr


@pytest.mark.parametrize("option", ["--mtp", "--keep-bad"])
def test_a_full_disk_is_one_sentence(nanet, capture, option):
    bad = bytearray(capture.read_bytes())
    bad[24 + 16 + 42 + 2] = 9  # version of the first packet (with UDP checksum 0: none)
    bad[24 + 16 + 34 + 6 : 24 + 16 + 34 + 8] = b"\0\0"
    capture.write_bytes(bad)
    said = nanet("replay", "run.pcap", option, "/dev/full", status=2).stderr
    assert "/dev/full" in said and "Traceback" not in said


def test_a_merged_stream_is_recognised(nanet, tmp_path):
    nanet("generate", "--events", 2000, "--boards", "merged", "--out", "m.pcap")
    nanet("replay", "m.pcap", "--json", "m.json")
    result = json.loads((tmp_path / "m.json").read_text())
    assert sum(result["bad_packets"].values()) == 0
    assert result["events_built"] > 1900


def test_a_truncated_capture_is_reported(nanet, capture):
    capture.write_bytes(capture.read_bytes()[:-100])
    assert "ends within a record" in nanet("replay", "run.pcap").stdout


def test_truth_and_rings_swapped_are_refused(nanet, capture):
    nanet("replay", "run.pcap", "--out", "rings.parquet")
    said = nanet("evaluate", "--truth", "rings.parquet", "--rings", "run.parquet", status=2).stderr
    assert "n_rings" in said or "momentum" in said


@pytest.mark.parametrize(
    ("toml", "names"),
    [
        ("[algorithm.mth]\nr_min = 60\n", ["mth", "math"]),
        ("[algorithm.math]\nr_min = 200\nr_max = 100\n", ["r_min", "200", "r_max"]),
        ("[algorithm.math]\nmin_hits = 3.5\n", ["min_hits", "3.5", "whole"]),
        ('[card]\npin = "4711"\n', ["pin", "4711"]),
    ],
)
def test_values_that_cannot_be_right_are_refused(nanet, capture, tmp_path, toml, names):
    (tmp_path / "c.toml").write_text(toml)
    said = nanet("trigger", "--config", "c.toml", status=2).stderr
    assert all(name in said for name in names), said


def test_equal_runs_give_equal_files_with_their_origin(nanet, capture, tmp_path):
    (tmp_path / "run.toml").write_text("[algorithm.math]\nmin_hits = 5\n")
    common = ("run.pcap", "--algorithm", "math", "--device", "cpu", "--config", "run.toml")
    nanet("replay", *common, "--out", "a.parquet")
    nanet("replay", *common, "--threads", 2, "--out", "b.parquet")
    nanet("generate", "--events", 2000, "--out", "run.pcap", "--truth", "again.parquet")
    for one, other in (("a.parquet", "b.parquet"), ("run.parquet", "again.parquet")):
        assert (tmp_path / one).read_bytes() == (tmp_path / other).read_bytes()
    origin = {k.decode(): v.decode() for k, v in pq.read_schema(tmp_path / "a.parquet").metadata.items()}
    assert origin["nanet.algorithm"] == "math"
    assert json.loads(origin["nanet.parameters"]) == {
        p["name"]: 5.0 if p["name"] == "min_hits" else p["value"] for p in _core.algorithm_parameters("math")
    }
    assert json.loads(origin["nanet.capture"]) == {"run.pcap": (tmp_path / "run.pcap").stat().st_size}
    truth = pq.read_schema(tmp_path / "run.parquet").metadata
    for metadata in (truth, {k.encode(): v.encode() for k, v in origin.items()}):
        assert metadata[b"nanet.version"] == __version__.encode()
        assert metadata[b"nanet.detector"] == b"NA62 RICH"


def test_row_groups_do_not_depend_on_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(rings, "ROW_GROUP", 7)
    contents = []
    for chunks in ([20], [3, 0, 4, 12, 1], [1] * 20):
        path = tmp_path / f"{len(chunks)}.parquet"
        first = 0
        with rings.RingWriter(str(path)) as writer:
            for size in chunks:
                writer.write({name: range(first, first + size) for name in rings.SCHEMA.names})
                first += size
        assert writer.rows == 20
        file = pq.ParquetFile(path)
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [7, 7, 6]
        assert file.read()["event"].to_pylist() == list(range(20))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] == contents[2]
