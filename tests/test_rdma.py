# SPDX-License-Identifier: Apache-2.0
"""`nanet bench rdma`: figures under their names, refusals. Speed is not tested."""

import json

import pytest
from nanet.run import host

from nanet import _core

TROUBLE = host.cuda()["trouble"]
SIZES = {"": 8, "_4k": 4096, "_128k": 131072}


def check(result, path):
    """The figures are those of the rows; the card that executes the operations is named."""
    assert not result["partial"]
    rows, figures = result["rows"], result["figures"]
    (card,) = (row for row in rows if "card" in row)
    assert "emulated" in card["card"]
    times = {(row["path"], row["bytes"]): row for row in rows if "path" in row}
    for name, size in SIZES.items():
        row = times[path, size]
        assert 0 < row["half_round_trip_us"] <= row["p99_us"]
        assert figures[f"put_half_round_trip_us{name}"] == row["half_round_trip_us"]
    shares = [row["share"] for row in rows if row.get("put_bytes", 0) >= 16 << 20]
    assert len(shares) >= 2 and figures["put_bandwidth_share"] == min(shares)
    return times


@pytest.mark.serial
def test_bench_with_threads(nanet):
    done = nanet(
        "bench", "rdma", "--device", "cpu", "--seconds", 0.01, "--runs", 1, "--json", "-", timeout=280
    )
    result = json.loads(done.stdout)
    assert {path for path, _ in check(result, "H-H")} == {"H-H"}
    assert not any("published" in row for row in result["rows"])  # threads are no GPUs


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_bench_on_gpus(nanet):
    done = nanet(
        "bench", "rdma", "--device", "cuda", "--seconds", 0.02, "--runs", 1, "--json", "-", timeout=280
    )
    result = json.loads(done.stdout)
    times = check(result, "G-G")
    assert {path for path, _ in times} == {"G-G", "H-G", "H-H", "staged"}
    published = [row["half_round_trip_us"] for row in result["rows"] if "published" in row]
    assert published == [8.2, 16.8]
    large = [row for row in result["rows"] if row.get("put_bytes", 0) >= 1 << 20]
    assert all(row["by_copy_engine"] == row["puts"] for row in large)


def test_bad_measurements_are_refused():
    bench = _core.rdma_bench()
    assert bench.half_round_trip("H-H", 64, 100)["wrong"] == 0
    with pytest.raises(ValueError, match="H-H or staged"):
        bench.half_round_trip("G-H", 8, 10)
    with pytest.raises(ValueError, match="--device cuda"):
        bench.half_round_trip("G-G", 8, 10)
    for size in (0, 7, 12, 64 << 20):
        with pytest.raises(ValueError, match="multiple of 8"):
            bench.half_round_trip("H-H", size, 10)
    for size in (0, 65 << 20):
        with pytest.raises(ValueError, match="at most"):
            bench.bandwidth(size)
    with pytest.raises(ValueError, match="rounds"):
        bench.half_round_trip("H-H", 8, 0)


@pytest.mark.skipif(not TROUBLE, reason="a GPU is here")
def test_without_a_gpu_the_reason_is_named(nanet):
    done = nanet("bench", "rdma", "--device", "cuda", status=2)
    assert TROUBLE in done.stderr
