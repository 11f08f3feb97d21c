# SPDX-License-Identifier: Apache-2.0
"""User algorithm on a GPU: built by one command, in replay and in the live executors."""

import json
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest
from nanet.bench.chain import run_chain
from nanet.cli.build_algorithm import find_nvcc
from nanet.run import host

TROUBLE = host.cuda()["trouble"]
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(TROUBLE), reason=f"no GPU: {TROUBLE}")]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory, nanet_program, root):
    """The example, built for CPUs and GPUs; without nvcc, the one from the build of the examples."""
    built = root / "build" / "release" / "examples" / "algorithms" / "multiplicity.so"
    if not find_nvcc()[0]:
        if not built.exists():
            pytest.skip("no nvcc to build the plug-in with")
        return built
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copy(root / "examples" / "algorithms" / "multiplicity.hpp", folder)
    command = [nanet_program, "build-algorithm", "multiplicity.hpp", "--cuda", "on"]
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "CPUs and GPUs" in said
    return folder / "multiplicity.so"


def test_replay_gives_the_rows_of_the_cpu(nanet, tmp_path, plugin):
    nanet("generate", "--events", "40000", "--seed", "42", "--out", "run.pcap", "--truth", "run.parquet")
    (tmp_path / "cut.toml").write_text("[algorithm.multiplicity]\ncut = 18\ninner_mm = 120\n")
    tables, counts = [], []
    for device in ("cpu", "cuda"):
        files = ["--out", f"{device}.parquet", "--json", f"{device}.json", "--config", "cut.toml"]
        nanet("replay", "run.pcap", "--algorithm", plugin, "--device", device, *files)
        result = json.loads((tmp_path / f"{device}.json").read_text())
        assert "device_failed" not in result and result["account_closes"]
        tables.append(pq.read_table(tmp_path / f"{device}.parquet"))
        counts.append(result["primitives_out"])
    assert tables[0].equals(tables[1])
    assert counts[0] == counts[1] > 30_000
    fired = sum(primitive >> 9 & 1 for primitive in tables[1].to_pydict()["primitive"])
    assert 1_000 < fired < counts[0]


@pytest.mark.parametrize("executor", ["persistent", "launch"])
def test_live(executor, plugin):
    options = ["--device", "cuda", "--executor", executor, "--algorithm", str(plugin)]
    result = run_chain(2.0, 0.01, pad=True, trigger_options=options, times=True)
    assert result.lossless, result.losses
    assert result.trigger["account_closes"]
    assert result.trigger["executor"] == f"cuda-{executor}"
    assert result.trigger["algorithm"] == "multiplicity"
    assert result.trigger["gpu_faults"] == 0
    assert result.trigger["primitives_out"] > 100_000
