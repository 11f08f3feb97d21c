# SPDX-License-Identifier: Apache-2.0
"""GPU results: byte-identical to the CPU's; messages on a host without GPU."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from nanet.errors import UsageError
from nanet.run import host

from nanet import _core, analysis

TROUBLE = host.cuda()["trouble"]
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")]
# Keys that depend on the clock or name the device.
APART = {"elapsed_s", "events_per_s", "latency_us", "device", "host", "progress"}


@pytest.fixture(scope="module")
def capture(tmp_path_factory, nanet_program):
    """Captures of the mix, of high noise, and of a merged stream."""
    import subprocess

    folder = tmp_path_factory.mktemp("captures")
    for name, options in {
        "mix": ["--events", "40000", "--seed", "31"],
        "noise": ["--events", "5000", "--seed", "32", "--noise", "5"],
        "merged": ["--events", "5000", "--seed", "33", "--boards", "merged", "--slots", "fixed"],
        "none": ["--events", "50", "--seed", "34", "--rings", "0", "--noise", "0"],
    }.items():
        files = ["--out", f"{name}.pcap", "--truth", f"{name}.parquet"]
        subprocess.run([nanet_program, "generate", *options, *files], cwd=folder, check=True)
    return lambda name: folder / f"{name}.pcap"


def payloads(path):
    """Records of a classic pcap without their times, which are reading times."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        captured = int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return found


def replay(nanet, tmp_path, capture, device, *options):
    """Bytes of the answers, rows of the rings, counts."""
    files = ["--mtp", "out.pcap", "--out", "rings.parquet", "--json", "out.json"]
    nanet("replay", capture, "--device", device, *files, *options, timeout=280)
    result = json.loads((tmp_path / "out.json").read_text())
    assert "device_failed" not in result
    assert result["account_closes"]
    counts = {key: value for key, value in result.items() if key not in APART}
    return (
        payloads(tmp_path / "out.pcap"),
        pq.read_table(tmp_path / "rings.parquet"),
        counts,
        result["device"],
    )


@pytest.mark.parametrize("algorithm", _core.cuda_algorithms())
@pytest.mark.parametrize("name", ["mix", "noise", "merged", "none"])
class TestReplay:
    pytestmark = needs_gpu

    def test_the_gpu_answers_as_the_cpu(self, nanet, tmp_path, capture, algorithm, name):
        options = ("--algorithm", algorithm)
        mtp, rings, counts, device = replay(nanet, tmp_path, capture(name), "cpu", *options)
        assert device == "cpu"
        on_gpu = replay(nanet, tmp_path, capture(name), "cuda", *options)
        assert on_gpu[3] == "cuda:0"
        assert on_gpu[0] == mtp
        assert on_gpu[1].equals(rings)
        assert on_gpu[2] == counts


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("algorithm", _core.cuda_algorithms())
@pytest.mark.parametrize("name", ["hexagonal", "square"])  # square: PM IDs of 16 bits
def test_other_detectors_on_the_gpu(nanet, tmp_path, name, algorithm):
    detector = ("--detector", name)
    nanet("generate", *detector, "--events", 5000, "--out", "other.pcap", "--truth", "other.parquet")
    options = (*detector, "--algorithm", algorithm)
    on_cpu = replay(nanet, tmp_path, "other.pcap", "cpu", *options)
    on_gpu = replay(nanet, tmp_path, "other.pcap", "cuda", *options)
    assert (on_cpu[3], on_gpu[3]) == ("cpu", "cuda:0")
    assert on_gpu[0] == on_cpu[0] and on_gpu[1].equals(on_cpu[1]) and on_gpu[2] == on_cpu[2]


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("algorithm", _core.cuda_algorithms())
def test_arrays_on_the_gpu_give_the_rings_of_the_cpu(algorithm):
    first, pm = _core.rings_bench_events(3000)
    x, y = _core.pm_positions_common()[pm].T
    x = x + np.random.default_rng(4).uniform(-9, 9, len(x)).astype(np.float32)
    event = np.repeat(np.arange(len(first) - 1), np.diff(first.astype(np.int64)))
    want = analysis.reconstruct(x, y, event, algorithm)
    for device in ("cuda", "cuda:0", "auto"):
        assert analysis.reconstruct(x, y, event, algorithm, device=device).equals(want)
    if algorithm == "math":  # several calls of the batch path, which takes 131 072 events
        many = [np.tile(part[:8000], 100) for part in (x, y)]
        numbers = np.arange(len(many[0])) // 4
        on_cpu = analysis.reconstruct(*many, numbers, algorithm)
        assert on_cpu.num_rows == 200_000
        assert analysis.reconstruct(*many, numbers, algorithm, device="cuda").equals(on_cpu)
    hits = analysis.reconstruct_hits(first, pm, algorithm)
    on_gpu = analysis.reconstruct_hits(first, pm, algorithm, device="cuda")
    assert all(np.array_equal(on_gpu[name], values) for name, values in hits.items())
    with pytest.raises(UsageError, match="device = 'cuda:99': there is no such GPU; this host has cuda:0"):
        analysis.reconstruct(x, y, event, algorithm, device="cuda:99")


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_auto_is_the_gpu(nanet, tmp_path, capture):
    assert replay(nanet, tmp_path, capture("none"), "auto")[3] == "cuda:0"
    assert replay(nanet, tmp_path, capture("none"), "auto", "--threads", "2")[3] == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
def test_impossible_options_are_refused(nanet, capture):
    done = nanet("replay", capture("none"), "--device", "cuda:99", status=2)
    assert "no such GPU" in done.stderr and "cuda:0" in done.stderr
    done = nanet("replay", capture("none"), "--device", "cuda", "--threads", "2", status=2)
    assert "trigger.threads" in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")
@pytest.mark.parametrize("algorithm", ["math", "tripl"])
def test_measurements(algorithm):
    for batch, streaming in ((1, False), (1000, False), (1000, True), (200_000, True)):
        r = _core.rings_bench_cuda(algorithm, batch, streaming, 0.02)
        assert r["events"] >= 3 * batch
        assert 0 < r["batch_us_least"] <= r["batch_us"]
        assert np.isfinite(list(r.values())).all()
        assert 0 < r["events_per_s"] * r["bytes_per_event"] < 1.1 * r["memory_bytes_per_s"] or batch < 100_000
        assert r["events_per_s"] * r["copied_bytes_per_event"] < 1.1 * r["copy_bytes_per_s"]


@pytest.mark.skipif(not TROUBLE, reason="there is a GPU")
def test_without_a_gpu_the_reason_is_reported(nanet, tmp_path, capture):
    done = nanet("replay", capture("none"), "--device", "cuda", status=2)
    assert "--device cpu" in done.stderr
    assert replay(nanet, tmp_path, capture("none"), "auto")[3] == "cpu"
    with pytest.raises(ValueError, match=r"cuda:0|no CUDA component"):
        _core.rings_bench_cuda("math", 64)
    position = np.zeros(1)
    with pytest.raises(UsageError, match=r"device = 'cuda': .*: leave device out"):
        analysis.reconstruct(position, position, [0], "math", device="cuda")
    with pytest.raises(UsageError, match="device = 'gpu': must be auto, cpu, cuda or cuda:N"):
        analysis.reconstruct(position, position, [0], "math", device="gpu")
    assert analysis.reconstruct(position, position, [0], "math", device="auto").num_rows == 1
    found = json.loads(nanet("doctor", "--json", "-").stdout)
    assert found["cuda"]["devices"] == [] and found["cuda"]["trouble"]
