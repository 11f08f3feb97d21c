# SPDX-License-Identifier: Apache-2.0
"""Plain arrays of hits: `analysis.reconstruct(x, y, event)`, and tables of rings and truth made elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from nanet.errors import UsageError
from nanet.files import rings as ring_files
from nanet.files import truth as truth_files

from nanet import _core, analysis

NAMES = ("x", "y", "r", "chi2_ndf", "ring", "n_rings", "n_hits", "event")


@pytest.fixture(scope="module")
def sample() -> tuple[np.ndarray, np.ndarray]:
    """first and pm of 1500 generated events: more than one chunk."""
    return _core.rings_bench_events(1500)


@pytest.fixture(scope="module")
def hits(sample: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and event number of each hit."""
    first, pm = sample
    x, y = _core.pm_positions_common()[pm].T
    return x.copy(), y.copy(), np.repeat(np.arange(len(first) - 1), np.diff(first.astype(np.int64)))


@pytest.mark.parametrize("algorithm", _core.algorithm_names())
def test_hits_at_pms_give_the_rings_of_the_trigger(sample, hits, algorithm) -> None:
    first, pm = (sample[0][:301], sample[1]) if algorithm in ("pomh", "domh") else sample
    want = analysis.reconstruct_hits(first, pm[: first[-1]], algorithm)
    x, y, event = (part[: first[-1]] for part in hits)
    found = analysis.reconstruct(x, y, event, algorithm, threads=2)
    assert found.schema == ring_files.SCHEMA
    rings = found.filter(pa.compute.not_equal(found["ring"], ring_files.NO_RING))
    for name in NAMES:
        np.testing.assert_array_equal(rings[name].to_numpy(), want[name], name)
    assert pa.compute.count_distinct(found["event"]).as_py() == len(np.unique(event))
    empty = found.filter(pa.compute.equal(found["ring"], ring_files.NO_RING))
    assert empty["x"].null_count == empty["chi2_ndf"].null_count == len(empty)


def test_every_kind_of_array_gives_the_same(sample, hits) -> None:
    x, y, event = hits
    want = analysis.reconstruct(x, y, event, "math", threads=1)
    lists = [ak.unflatten(part, np.unique(event, return_counts=True)[1]) for part in (x, y)]
    arrow = [ak.to_arrow(part, extensionarray=False) for part in lists]
    ids = np.unique(event)
    forms = [
        (x.astype(np.float64), y, event.astype(np.int32)),
        (memoryview(x), memoryview(y), memoryview(event.astype(np.uint64))),
        (pa.array(x), pa.chunked_array([pa.array(y[:100]), pa.array(y[100:])]), pa.array(event)),
        (x.tolist(), y.tolist(), event.tolist()),
        (*lists, ids),
        (*(part.to_list() for part in lists), ids),
        (*([np.array(one) for one in part] for part in lists), ids),
        (*arrow, ids),
        (pa.chunked_array([arrow[0][:7], arrow[0][7:]]), arrow[1], ids),
    ]
    for form in forms:
        assert analysis.reconstruct(*form, "math").equals(want), [type(part) for part in form]
    assert analysis.reconstruct(x=x, y=y, event=event, algorithm="math", threads=3).equals(want)
    numbered = analysis.reconstruct(*lists, "math")
    np.testing.assert_array_equal(ids[numbered["event"].to_numpy()], want["event"].to_numpy())


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32, np.uint64])
def test_events_of_any_size(kind) -> None:
    """Runs of equally long events, then sizes that change, over several chunks; numbers with gaps."""
    random = np.random.default_rng(3)
    sizes = np.concatenate([np.full(3000, 20), random.integers(1, 129, 2500), [128, 1, 1], np.full(70, 2)])
    ids = np.cumsum(random.integers(1, 4, len(sizes)))
    hits = random.uniform(-200, 200, (2, sizes.sum())).astype(np.float32)
    lists = [ak.unflatten(part, sizes) for part in hits]
    want = analysis.reconstruct(*lists, ids, "math", threads=1, r_max=400)
    assert want["event_hits"].to_pylist() == sizes.tolist() and want["event"].to_pylist() == ids.tolist()
    assert 0 < want["x"].null_count < len(sizes)
    event = np.repeat(ids, sizes).astype(kind)
    for threads in (1, 3):
        found = analysis.reconstruct(*hits, event, "math", threads=threads, r_max=400)
        found.validate(full=True)
        assert found.equals(want)
    for wrong in (4000, len(event) - 1):  # in a later chunk; the last hit
        other = event.copy()
        other[wrong] = 1
        with pytest.raises(UsageError, match=rf"number 1 of hit {wrong} follows {event[wrong - 1]}: "):
            analysis.reconstruct(*hits, other, "math", threads=1)
    late = np.concatenate([event, np.full(129, ids[-1] + 1, dtype=kind)])
    more = [np.concatenate([part, np.zeros(129, np.float32)]) for part in hits]
    with pytest.raises(UsageError, match=f"event {ids[-1] + 1} has 129 hits"):
        analysis.reconstruct(*more, late, "math")


def test_a_result_keeps_its_memory() -> None:
    """Memory of freed results is used again, that of living ones is not."""
    events = 300_000
    position, ids = np.zeros(events, np.float32), np.arange(events)
    first = analysis.reconstruct(position, position, ids, "math", threads=2)
    del first
    second = analysis.reconstruct(position, position, ids + 5, "math", threads=2)
    third = analysis.reconstruct(position, position, ids + 9, "math", threads=2)
    for table, shift in ((second, 5), (third, 9)):
        for name in ("event", "timestamp"):
            np.testing.assert_array_equal(table[name].to_numpy(), ids + shift)
        assert table["x"].null_count == events and not table["primitive"].to_numpy().any()


PEAK = """
import sys
import numpy as np
from nanet import analysis

def kib(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

events, hits, threads = 1_500_000, 4, int(sys.argv[1])
x = np.random.default_rng(1).uniform(-100, 100, events * hits)
number = np.repeat(np.arange(events), hits)
analysis.reconstruct(x[:8], x[:8], number[:8], "math")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # VmHWM from here on
start = kib("VmRSS")
table = analysis.reconstruct(x, x, number, "math", threads=threads)
print(table.nbytes >> 10, kib("VmHWM") - start)
"""


@pytest.mark.complete
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_is_bounded_by_pieces(threads: int) -> None:
    """float64 becomes float32 a piece at a time; parts of threads are freed as they are joined."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(threads)], check=True, capture_output=True, text=True, timeout=300
    )
    table, peak = (int(word) for word in done.stdout.split())
    assert table > 50_000
    assert peak < 1.4 * table + 12_000 * threads  # pieces in work, and what the allocator keeps


def test_equally_many_hits_in_two_dimensions() -> None:
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    centre, radius = np.array([[-160.0], [-140.0], [10.0]]), np.array([[180.0], [120.0], [90.0]])
    found = analysis.reconstruct(centre + radius * np.cos(angle), radius * np.sin(angle), algorithm="math")
    np.testing.assert_allclose(found["x"].to_numpy(), centre[:, 0], atol=0.01)
    np.testing.assert_allclose(found["r"].to_numpy(), radius[:, 0], atol=0.01)


def test_no_hits_at_all() -> None:
    nothing = np.zeros(0)
    assert analysis.reconstruct(nothing, nothing, np.zeros(0, int), "math").num_rows == 0
    found = analysis.reconstruct(ak.Array([[], [1.0, 2.0]]), ak.Array([[], [0.0, 0.0]]), algorithm="math")
    assert found["event_hits"].to_pylist() == [0, 2] and found["ring"].to_pylist() == [255, 255]


@pytest.mark.parametrize(
    ("x", "y", "event", "sentence"),
    [
        ([1.0, 2.0], [1.0], [0, 0], "equal lengths"),
        ([1.0, 2.0], [1.0, 1.0], [1, 0], "event: number 0 of hit 1 follows 1: the hits must be in order"),
        ([1.0, np.nan], [1.0, 1.0], [0, 0], "x: hit 1 is at nan: must be a position"),
        ([1.0, 1.0], [1.0, 1e9], [0, 0], "y: hit 1 is at 1e+09"),
        ([1.0] * 129, [1.0] * 129, [4] * 129, "event 4 has 129 hits; an event has at most 128"),
        ([[1.0] * 129], [[1.0] * 129], None, "event 0 has 129 hits"),
        ([1.0], [1.0], [-1], "event: hit 0 has number -1: must be from 0"),
        ([1.0], [1.0], [1 << 32], "must be from 0 to 4294967295"),
        ([1.0], [1.0], [0.5], "event: must be whole numbers"),
        ([1.0], [1.0], None, "event: give the event number of each hit"),
        (["a"], [1.0], [0], "x: must be numbers in one dimension, or lists"),
        ([[1.0], 2.0], [[1.0], [2.0]], None, "x: must be numbers in one dimension, or lists"),
        ([[1.0], [[2.0], [3.0]]], [[1.0], [2.0]], None, "x: must be numbers in one dimension, or lists"),
        (pa.array([1.0, None]), [1.0, 1.0], [0, 0], "x: has empty places"),
        (pa.array([[1.0, None]]), pa.array([[1.0, 1.0]]), None, "x: has empty places"),
        (pa.array([[1.0, 2.0]]), pa.array([[1.0], [1.0]]), None, "x and y: must have the same form"),
        (pa.array([[1.0]]), pa.array([[1.0]]), [1, 2], "event: has 2 numbers for 1 events"),
    ],
)  # fmt: skip
def test_wrong_hits_are_refused_by_name(x, y, event, sentence) -> None:
    with pytest.raises(UsageError, match=sentence.replace("+", r"\+")):
        analysis.reconstruct(x, y, event, "math")


def test_a_finder_in_python_is_evaluated(tmp_path, nanet) -> None:
    nanet("generate", "--events", 3000, "--seed", 5, "--out", "run.pcap", "--truth", "run.parquet")
    events = analysis.read_events(str(tmp_path / "run.pcap"))
    truth = analysis.read_truth(str(tmp_path / "run.parquet"))
    ours = analysis.reconstruct(events, "multiring")
    chosen = ours.filter(pa.compute.not_equal(ours["ring"], ring_files.NO_RING))
    row = {number: at for at, number in enumerate(events["event"].to_pylist())}
    table = analysis.ring_table(
        events, [row[number] for number in chosen["event"].to_pylist()],
        *(chosen[name] for name in ("x", "y", "r", "n_hits", "chi2_ndf")),
    )  # fmt: skip
    assert analysis.evaluate(truth, table).result() == analysis.evaluate(truth, ours).result()
    pq.write_table(table, tmp_path / "mine.parquet")
    nanet("evaluate", "--truth", "run.parquet", "--rings", "mine.parquet", "--json", "mine.json")


def test_rings_of_arrays_pair_with_their_truth(sample, hits) -> None:
    x, y, event = hits
    found = analysis.reconstruct(x, y, event, "multiring")
    chosen = found.filter(pa.compute.not_equal(found["ring"], ring_files.NO_RING))
    counts = np.diff(sample[0].astype(np.int64))
    columns = [chosen[name] for name in ("event", "x", "y", "r", "n_hits")]
    truth = analysis.truth_table(counts, *columns)
    assert truth.schema == truth_files.RING_SCHEMA
    result = analysis.evaluate(truth, found).result()
    assert result["efficiency"]["1"] == 1 and result["fakes_per_event"] == 0
    again = analysis.ring_table(counts, *columns)
    assert again.num_rows >= found.num_rows and again["n_rings"].to_numpy().max() == 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"event": [2]}, "event: must be rows of events, whole numbers from 0 to 1"),
        ({"x": [1.0, 2.0]}, "x: must be 1 numbers"),
        ({"r": [np.inf]}, "r: has values that are not finite"),
        ({"n_hits": [300]}, "n_hits: must be from 0 to 255"),
        ({"events": "run.pcap"}, "events: give the result of read_events"),
    ],
)
def test_wrong_rings_are_refused(changes, sentence) -> None:
    given = {"events": [10, 12], "event": [1], "x": [0.0], "y": [0.0], "r": [100.0], "n_hits": [9]}
    with pytest.raises(UsageError, match=sentence):
        analysis.ring_table(**given | changes)


def test_the_bench_compares_arrays_with_the_bare_algorithm(nanet, tmp_path) -> None:
    nanet("bench", "detector", "--events", 20_000, "--json", "bench.json")
    figures = json.loads((tmp_path / "bench.json").read_text())["figures"]
    assert 0.1 < figures["arrays_over_bare"] < 100  # measured with 1 M events only
