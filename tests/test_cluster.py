# SPDX-License-Identifier: Apache-2.0
"""Many captures on many processes: equal to one process, resumable, with failed captures named."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from nanet.cluster import batch, pool, replay, units
from nanet.errors import UsageError
from nanet.quality import tally
from rich.console import Console

from nanet import analysis

ALGORITHM = ("--algorithm", "math")


def contents(*folders: Path) -> dict[str, bytes]:
    """Bytes of all result files by path, without the records."""
    return {
        f"{folder.name[-1]}/{path.relative_to(folder)}": path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and units.RECORDS not in path.parts
    }


def quiet() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=200)


# Work of units, imported by the worker processes.


def copy_in_capitals(unit: units.Unit, paths) -> dict:
    text = Path(unit.inputs[0]).read_text()
    if "refuse" in text:
        raise UsageError(f"{unit.inputs[0]}: refused")
    Path(paths["out"]).write_text(text.upper())
    return {"length": len(text), "half": float("nan")}


def die_once(unit: units.Unit, paths) -> dict:
    """The first process that meets unit 3 is killed with its output half-written."""
    marker = Path(unit.settings["marker"])
    if unit.name == "3" and not marker.exists():
        Path(paths["out"]).write_text("hal")
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return copy_in_capitals(unit, paths)


def die_always(unit: units.Unit, paths) -> dict:
    if unit.name == "3":
        os.kill(os.getpid(), signal.SIGKILL)
    return copy_in_capitals(unit, paths)


def texts(folder: Path, work=copy_in_capitals, number: int = 6, **settings) -> list[units.Unit]:
    """Units that copy small files, with their records in `folder`/out."""
    made = []
    for k in range(number):
        source = folder / f"{k}.txt"
        if not source.exists():
            source.write_text(f"text {k}")
        outputs = {"out": str(folder / "out" / str(k) / "copy.txt")}
        made.append(
            units.Unit(str(k), work, (str(source),), outputs, settings, str(folder / "out" / units.RECORDS))
        )
    return made


def run(made: list[units.Unit], workers: int = 1):
    return batch.run(made, workers, None, quiet(), "copying")


def test_finished_units_are_kept_and_changed_ones_run_again(tmp_path):
    outcomes, result = run(texts(tmp_path))
    assert [one.state for one in outcomes] == ["done"] * 6 and result["failed"] == []
    assert (tmp_path / "out/2/copy.txt").read_text() == "TEXT 2"
    again, _ = run(texts(tmp_path))
    assert [one.state for one in again] == ["kept"] * 6
    assert again[2].result["length"] == 6 and np.isnan(again[2].result["half"])

    (tmp_path / "0.txt").write_text("text X")  # an input of equal size
    (tmp_path / "out/1/copy.txt").write_text("BROKEN")  # an output of equal size
    (tmp_path / "out/2/copy.txt").unlink()
    os.utime(tmp_path / "3.txt", ns=(1, 1))  # touched: the digest decides
    (tmp_path / f"out/{units.RECORDS}/4.json").write_text('{"inp')  # a record cut off
    again, _ = run(texts(tmp_path))
    assert [one.state for one in again] == ["done", "done", "done", "kept", "done", "kept"]
    assert [(tmp_path / f"out/{k}/copy.txt").read_text() for k in range(3)] == ["TEXT X", "TEXT 1", "TEXT 2"]
    again, _ = run(texts(tmp_path, option=1))
    assert [one.state for one in again] == ["done"] * 6


def test_a_failed_unit_is_named_and_leaves_nothing(tmp_path):
    run(texts(tmp_path))
    (tmp_path / "2.txt").write_text("refuse")
    (tmp_path / "4.txt").unlink()
    made = texts(tmp_path, number=4) + texts(tmp_path, number=6)[4:]
    (tmp_path / "4.txt").unlink()
    stale = tmp_path / "out/2/.copy.txt.0123456789ab.partial"  # of a process that was killed
    stale.write_text("TE")
    outcomes, result = run(made)
    assert [one.state for one in outcomes] == ["kept", "kept", "failed", "kept", "failed", "kept"]
    assert [one["capture"] for one in result["failed"]] == ["2", "4"]
    assert "2.txt: refused" in result["failed"][0]["reason"]
    assert "No such file" in result["failed"][1]["reason"]
    assert not (tmp_path / "out/2").exists() and not (tmp_path / "out/4").exists()
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_results_of_another_file_are_not_overwritten(tmp_path):
    run(texts(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "0.txt").write_text("other")
    kept = texts(tmp_path, number=1)[0]
    mine = units.Unit("0", copy_in_capitals, (str(other / "0.txt"),), kept.outputs, {}, kept.records)
    _, result = run([mine])
    assert "has results of" in result["failed"][0]["reason"]
    assert (tmp_path / "out/0/copy.txt").read_text() == "TEXT 0"


def test_one_command_writes_to_a_folder_at_a_time(tmp_path):
    made = texts(tmp_path)
    with units.only_writer(made[0].records), pytest.raises(UsageError, match="another nanet writes"):
        run(made)
    with pytest.raises(UsageError, match="one name in the results"):
        run([made[0], made[0]])


def test_without_dask_the_message_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"--workers 2: needs Dask: pip install 'nanet\[cluster\]'"):
        pool.open_pool(2, None).__enter__()
    with pool.open_pool(1, None) as here:
        assert dict(here.run(abs, [-1, 2])) == {0: 1, 1: 2}


def test_runs_of_files_and_folders(tmp_path):
    for name in ("a.pcap", "month/day1/x.pcap", "month/day2/x.pcapng", "rec/raw-2.pcap", "rec/raw-1.pcap",
                 "rec/bad-1.pcap", "month/_records/no.pcap"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = replay.runs_of([str(tmp_path / name) for name in ("a.pcap", "month", "rec")])
    assert list(found) == ["a", "day1/x", "day2/x", "rec"]
    assert [Path(name).name for name in found["rec"]] == ["raw-1.pcap", "raw-2.pcap"]
    with pytest.raises(UsageError, match="one name"):
        replay.runs_of([str(tmp_path / "month/day1/x.pcap"), str(tmp_path / "month/day2/x.pcapng")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no \.pcap"):
        replay.runs_of([str(tmp_path / "empty")])
    assert units.partition("d", "day1/x", "rings.parquet") == "d/capture=day1%2Fx/rings.parquet"


def test_tallies_add_up():
    values = np.random.default_rng(5).normal(0.3, 2.0, 5000).clip(-9.9, 9.9)
    parts = [values[:10], values[10:4000], values[4000:], values[:0]]
    spread = sum((tally.Spread.of(part) for part in parts), tally.Spread())
    assert spread.n == 5000
    assert spread.average == pytest.approx(values.mean(), abs=1e-12)
    assert spread.sigma == pytest.approx(values.std(), abs=1e-12)
    counts = np.sum([tally.bins(part) for part in parts], axis=0)
    assert tally._binned_mad(counts) == pytest.approx(tally.mad(values), abs=2 * tally.BIN_MM)
    assert tally._median(np.array([1.0, 2.0, 5.0]), np.array([1, 1, 2])) == 3.5
    assert np.isnan(tally.Spread().sigma) and np.isnan(tally._binned_mad(np.zeros(4, dtype=int)))


def test_a_killed_worker_is_replaced_and_its_unit_runs_again(tmp_path):
    pytest.importorskip("distributed")
    outcomes, result = run(texts(tmp_path, die_once, marker=str(tmp_path / "killed")), workers=2)
    assert (tmp_path / "killed").exists()
    assert [one.state for one in outcomes] == ["done"] * 6 and result["workers"] == 2
    assert [(tmp_path / f"out/{k}/copy.txt").read_text() for k in range(6)] == [f"TEXT {k}" for k in range(6)]
    assert not list((tmp_path / "out").rglob("*.partial"))


@pytest.mark.complete
def test_a_unit_that_kills_every_worker_is_named(tmp_path):
    pytest.importorskip("distributed")
    import dask

    # As on a loaded host: a process takes longer to restart than Dask waits for its worker.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 ms"}):
        outcomes, result = run(texts(tmp_path, die_always), workers=2)
    assert [one.state for one in outcomes] == ["done"] * 3 + ["failed"] + ["done"] * 2
    assert "worker process died repeatedly" in result["failed"][0]["reason"]


def captures(nanet, number: int, events: int, *more: object) -> None:
    """Generates captures into `month`, with one broken file among them."""
    nanet("generate", "--captures", number, "--events", events, "--seed", 70, "--out", "month", *more)
    (Path(nanet.folder) / "month" / "run-0000x.pcap").write_bytes(b"no capture")


@pytest.fixture
def commands(nanet, tmp_path):
    """`nanet` with its folder as an attribute."""
    nanet.folder = tmp_path
    return nanet


def test_a_month_in_one_process_is_one_table(commands, tmp_path):
    captures(commands, 3, 3000, "--truth", "truth")
    done = commands("replay", "month", *ALGORITHM, "--workers", 1, "--out", "o1", "--mtp", "m1",
                    "--json", "r.json", status=1)  # fmt: skip
    assert "failed: run-0000x" in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["runs"], result["done"], result["account_closes"]) == (4, 3, True)
    assert [row["capture"] for row in result["rows"]] == ["run-00000", "run-00001", "run-00002"]
    table = analysis.read_rings(str(tmp_path / "o1"))
    assert table.num_rows == sum(
        pq.read_metadata(path).num_rows for path in (tmp_path / "o1").rglob("rings.parquet")
    )
    assert result["events_built"] == len(
        set(zip(table["capture"].to_pylist(), table["event"].to_pylist(), strict=True))
    )
    # Each capture equals a replay of it alone, byte for byte.
    commands("replay", "month/run-00001.pcap", *ALGORITHM, "--out", "alone.parquet", "--mtp", "alone.pcap")
    assert (tmp_path / "alone.parquet").read_bytes() == (
        tmp_path / "o1/capture=run-00001/rings.parquet"
    ).read_bytes()
    assert (tmp_path / "alone.pcap").read_bytes() == (tmp_path / "m1/run-00001.pcap").read_bytes()
    commands("evaluate", "--truth", "truth", "--rings", "o1", "--json", "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["events"] == 9000


@pytest.mark.complete
def test_wrong_usage_names_the_remedy(commands):
    captures(commands, 1, 300, "--truth", "truth")
    for wrong, text in (
        (("replay", "month", "--workers", 1), "--out: is missing"),
        (("replay", "month", "--workers", 1, "--out", "o", "--keep-bad", "b"), "keep_bad"),
        (("generate", "--out", "x.pcap", "--workers", 2), "give --captures too"),
        (("evaluate", "--truth", "truth", "--rings", "truth", "--plots", "p"), "--plots"),
        (("evaluate", "--truth", "month", "--rings", "month"), "no capture in these folders"),
        (
            ("replay", "month", "--out", "o", "--workers", 2, "--scheduler", "tcp://127.0.0.1:1"),
            "leave it out",
        ),
    ):
        assert text in commands(*wrong, status=2).stderr


@pytest.mark.complete
def test_two_processes_give_the_files_of_one(commands, tmp_path):
    pytest.importorskip("distributed")
    for workers in (1, 2):
        out = [f"{name}{workers}" for name in ("month", "truth", "hits", "rings", "mtp", "figures")]
        generated = ("--events", 5000, "--seed", 70, "--truth", out[1], "--truth-hits", out[2])
        commands("generate", "--captures", 5, *generated, "--out", out[0], "--workers", workers)
        commands("replay", out[0], *ALGORITHM, "--out", out[3], "--mtp", out[4], "--workers", workers)
        compared = ("--truth", out[1], "--rings", out[3], "--truth-hits", out[2])
        commands("evaluate", *compared, "--workers", workers, "--json", f"e{workers}.json")
        small = ("--events", 300, "--seed", 5, "--algorithms", "math", "--out", out[5])
        commands("quality", *small, "--workers", workers, "--json", f"q{workers}.json")
        for name in out[:5]:
            shutil.move(tmp_path / name, tmp_path / f"{workers}" / name[:-1])
    commands("quality", *small[:-2], "--out", "figures", "--json", "q.json")
    one, two = contents(tmp_path / "1"), contents(tmp_path / "2")
    assert {key[2:]: value for key, value in one.items()} == {key[2:]: value for key, value in two.items()}
    # Of each capture: itself, its detector, truth, hits, rings, answers.
    assert len(one) == 5 * 6
    moving = ("elapsed_s", "workers", "command", "date", "commit")
    for names in (("e1", "e2"), ("q1", "q2", "q")):
        results = [json.loads((tmp_path / f"{name}.json").read_text()) for name in names]
        for result in results:
            for key in moving:
                result.pop(key, None)
        assert all(result == results[0] for result in results)


def holder_of_a_partial(folder: Path, parent: int) -> int:
    """A process below `parent` with a partial file open; 0 without one."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            for handle in (process / "fd").iterdir():
                target = os.readlink(handle)
                if target.startswith(str(folder)) and target.endswith(".partial"):
                    return int(process.name)
        except OSError:
            continue
    return 0


@pytest.mark.complete
def test_a_worker_killed_in_mid_run_changes_no_byte(commands, nanet_program, tmp_path):
    pytest.importorskip("distributed")
    captures(commands, 6, 100_000)
    commands("replay", "month", *ALGORITHM, "--workers", 1, "--out", "o1", status=1)
    command = ["replay", "month", *ALGORITHM, "--workers", "2", "--out", "o2", "--json", "r.json"]
    process = subprocess.Popen([nanet_program, *command], cwd=tmp_path, stdout=subprocess.DEVNULL)
    killed = 0
    while not killed and process.poll() is None:
        killed = holder_of_a_partial(tmp_path / "o2", process.pid)
        time.sleep(0.001)
    assert killed, "no worker was seen in mid-run"
    os.kill(killed, signal.SIGKILL)
    assert process.wait(timeout=300) == 1
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["done"] == 6 and [one["capture"] for one in result["failed"]] == ["run-0000x"]
    one, two = contents(tmp_path / "o1"), contents(tmp_path / "o2")
    assert list(one.values()) == list(two.values()) and len(one) == 6


@pytest.mark.complete
def test_an_interrupted_command_goes_on_where_it_stopped(commands, nanet_program, tmp_path):
    captures(commands, 4, 100_000)
    command = ["replay", "month", *ALGORITHM, "--workers", "1", "--out", "o"]
    process = subprocess.Popen([nanet_program, *command], cwd=tmp_path, stdout=subprocess.DEVNULL)
    while process.poll() is None and not list((tmp_path / "o").rglob("run-*.json")):
        time.sleep(0.01)
    process.kill()
    process.wait()
    commands(*command, "--json", "r.json", status=1)
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["kept"] >= 1 and result["kept"] + result["done"] == 4
    assert not list((tmp_path / "o").rglob("*.partial"))


@pytest.mark.complete
def test_workers_of_a_scheduler(commands, tmp_path):
    pytest.importorskip("distributed")
    captures(commands, 3, 3000)
    commands("replay", "month", *ALGORITHM, "--workers", 1, "--out", "o1", status=1)
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        commands("replay", "month", *ALGORITHM, "--scheduler", address, "--out", "o2", status=1)
    assert list(contents(tmp_path / "o1").values()) == list(contents(tmp_path / "o2").values())
    done = commands("replay", "month", "--scheduler", "tcp://127.0.0.1:9", "--out", "o3", status=2)
    assert "start `dask scheduler`" in done.stderr
