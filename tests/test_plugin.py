# SPDX-License-Identifier: Apache-2.0
"""User algorithms: built by one command, run by every program, refused if they do not fit."""

import json
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest
from nanet.bench.chain import run_chain
from nanet.cli.build_algorithm import build_id, cmake, find_nvcc, kernels_of

from nanet import _core


@pytest.fixture(scope="module")
def folder(tmp_path_factory, nanet_program, root):
    """The example as a plug-in for CPUs, and a capture."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copy(root / "examples" / "algorithms" / "multiplicity.hpp", folder)

    def run(*arguments):
        return subprocess.run(
            [nanet_program, *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout

    said = run("build-algorithm", "multiplicity.hpp", "--cuda", "off", "--json", "built.json")
    assert "--algorithm ./multiplicity.so" in said and "CPUs only" in said
    shutil.copy(root / "examples" / "algorithms" / "centroid.hpp", folder)
    run("build-algorithm", "centroid.hpp", "--cuda", "off")
    files = ["--out", "run.pcap", "--truth", "run.parquet"]
    run("generate", "--events", "5000", "--seed", "41", *files)
    return folder


def replay(nanet, folder, name, *options):
    files = ["--out", folder / f"{name}.parquet", "--json", folder / f"{name}.json"]
    nanet("replay", folder / "run.pcap", "--device", "cpu", *files, *options)
    result = json.loads((folder / f"{name}.json").read_text())
    assert result["account_closes"]
    return result, pq.read_table(folder / f"{name}.parquet").to_pydict()


def test_what_was_built(folder):
    assert json.loads((folder / "built.json").read_text()) == {
        "algorithm": "multiplicity",
        "file": "multiplicity.so",
        "cuda": False,
        "kernels": [],
    }


@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_it_exports_no_symbols_of_other_libraries(folder):
    """Visible symbols of a static C++ library would replace those of others: stream facets clash."""
    from nanet import _core

    def shown(file):
        command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(file)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {line.split()[0] for line in said.splitlines()}

    assert shown(folder / "multiplicity.so") == {"nanet_algorithm", "nanet_algorithm_needs"}
    assert shown(_core.__file__) == {"PyInit__core"}


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN5nanet4loop8residentINS_6plugin7CarrierI4MineEEEEvNS0_8ResidentET_' for 'sm_90'
ptxas info    : Function properties for _ZN5nanet4loop8residentINS_6plugin7CarrierI4MineEEEEvNS0_8ResidentET_
    48 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 120 registers, used 1 barriers, 128 bytes smem
ptxas info    : Compile time = 6007.288 ms
ptxas info    : Compiling entry function 'plain' for 'sm_100'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 28 registers, used 0 barriers
"""  # noqa: E501


def test_what_kernels_take():
    assert kernels_of(PTXAS) == [
        {
            "kernel": "resident",
            "architecture": "sm_90",
            "registers": 120,
            "spilled_bytes": 40,
            "shared_bytes": 128,
        },
        {"kernel": "plain", "architecture": "sm_100", "registers": 28, "spilled_bytes": 0, "shared_bytes": 0},
    ]
    assert kernels_of("") == []


def test_replay_gives_its_primitives(nanet, folder):
    (folder / "cut.toml").write_text("[algorithm.multiplicity]\ncut = 20\n")
    plugin = folder / "multiplicity.so"
    result, rows = replay(nanet, folder, "cut", "--algorithm", plugin, "--config", folder / "cut.toml")
    assert result["algorithm"] == "multiplicity"
    assert result["events_built"] == result["primitives_out"] == len(rows["primitive"])
    assert set(rows["ring"]) == {255}  # it decides without looking for rings
    fired = 0
    for primitive, hits in zip(rows["primitive"], rows["event_hits"], strict=True):
        assert primitive & 0xF200 == (0x4200 if hits >= 20 else 0x4000)
        assert primitive & 0x3F == min(hits, 63)
        fired += primitive >> 9 & 1
    assert 100 < fired < len(rows["primitive"]) - 100
    threads, again = replay(nanet, folder, "three", "--algorithm", plugin, "--threads", "3")
    default, _ = replay(nanet, folder, "default", "--algorithm", plugin)
    assert threads["primitives_out"] == default["primitives_out"]
    assert sum(p >> 9 & 1 for p in again["primitive"]) < fired  # 24 hits by default


def test_live(folder):
    plugin = str(folder / "multiplicity.so")
    result = run_chain(1.0, 0.002, pad=True, trigger_options=["--device", "cpu", "--algorithm", plugin])
    assert result.trigger["account_closes"]
    assert result.trigger["algorithm"] == "multiplicity"
    assert result.trigger["primitives_out"] > 5_000


def test_parameters_are_checked(nanet, folder):
    plugin = folder / "multiplicity.so"
    for text, parts in {
        "[algorithm.multiplicity]\ncat = 3\n": ("algorithm.multiplicity.cat", "3", "did you mean cut?"),
        "[algorithm.multiplicity]\ncut = 300\n": ("algorithm.multiplicity.cut", "300", "1 to 128"),
        "[algorithm.multiplicit]\ncut = 3\n": ("[algorithm.multiplicit]", "did you mean multiplicity?"),
    }.items():
        (folder / "wrong.toml").write_text(text)
        done = nanet(
            "replay", folder / "run.pcap", "--algorithm", plugin, "--config", folder / "wrong.toml", status=2
        )
        for part in parts:
            assert part in done.stderr
    (folder / "wrong.toml").write_text("[algorithm.multiplicity]\ncut = 3\n")
    done = nanet("replay", folder / "run.pcap", "--config", folder / "wrong.toml", status=2)
    assert "[algorithm.multiplicity]: no such algorithm" in done.stderr and "to its file" in done.stderr


def test_what_is_no_plugin_is_refused(nanet, folder, tmp_path):
    (tmp_path / "text.so").write_text("no shared object\n")
    for given, part in {
        "./none.so": "none.so: No such file",
        "text.so": "cannot be loaded",
        "multiplicit": "the file of a plug-in, such as ./mine.so",
    }.items():
        done = nanet("replay", folder / "run.pcap", "--algorithm", given, status=2)
        assert "algorithm = " in done.stderr and part in done.stderr, done.stderr


def test_a_plugin_without_cuda_is_refused_on_a_gpu(nanet, folder):
    plugin = folder / "multiplicity.so"
    done = nanet("replay", folder / "run.pcap", "--algorithm", plugin, "--device", "cuda", status=2)
    assert "built without CUDA" in done.stderr and "--device cpu" in done.stderr
    nanet("replay", folder / "run.pcap", "--algorithm", plugin, "--device", "auto", "--json", "auto.json")


def test_build_errors_name_the_remedy(nanet, tmp_path):
    assert "none.hpp: there is no such file" in nanet("build-algorithm", "none.hpp", status=2).stderr
    text = '#include "nanet/plugin/algorithm.hpp"\nstruct Wrong {};\nNANET_ALGORITHM(Wrong)\n'
    (tmp_path / "wrong.hpp").write_text(text)
    done = nanet("build-algorithm", "wrong.hpp", "--cuda", "off", status=2)
    assert "error:" in done.stderr and "wrong.hpp" in done.stderr and "refuses it" in done.stderr
    assert not (tmp_path / "wrong.so").exists()
    assert "auto, on or off" in nanet("build-algorithm", "wrong.hpp", "--cuda", "yes", status=2).stderr


def test_a_header_without_registration_is_named_and_leaves_no_file(nanet, root, tmp_path):
    text = (root / "examples" / "algorithms" / "multiplicity.hpp").read_text()
    (tmp_path / "mine.hpp").write_text(text.replace("NANET_ALGORITHM(Multiplicity)", ""))
    done = nanet("build-algorithm", "mine.hpp", "--cuda", "off", status=2)
    assert "registers no algorithm: end it with NANET_ALGORITHM" in done.stderr
    (tmp_path / "mine.hpp").write_text(text.replace('name = "multiplicity"', 'name = "math"'))
    assert (
        "as of one of nanet's own" in nanet("build-algorithm", "mine.hpp", "--cuda", "off", status=2).stderr
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.hpp"]


@pytest.mark.skipif(not find_nvcc()[0], reason="no nvcc")
def test_an_operator_without_its_mark_is_no_plugin_for_gpus(nanet, root, tmp_path):
    text = (root / "examples" / "algorithms" / "multiplicity.hpp").read_text()
    (tmp_path / "mine.hpp").write_text(text.replace("NANET_HD ", ""))
    done = nanet("build-algorithm", "mine.hpp", "--cuda", "on", status=2)
    assert "lacks NANET_HD" in done.stderr and "--cuda off" in done.stderr
    assert not (tmp_path / "mine.so").exists()


def test_quality_takes_plugins(nanet, folder):
    (folder / "quality.toml").write_text("[algorithm.multiplicity]\ncut = 20\n")
    plugin = f"{folder}/multiplicity.so"
    nanet("quality", "--events", 200, "--algorithms", f"math,{plugin}", "--out", "q", "--config",
          folder / "quality.toml", "--json", folder / "quality.json")  # fmt: skip
    result = json.loads((folder / "quality.json").read_text())
    assert list(result["algorithms"]) == ["math", "multiplicity", "oracle", "oracle_prior"]
    assert result["plugins"] == {"multiplicity": "multiplicity.so"}
    assert result["parameters"] == {"multiplicity": {"cut": 20}}
    found = result["algorithms"]["multiplicity"]["mix"]
    assert found["efficiency"]["1"] == 0 and found["fakes"] == 0  # it finds no rings
    done = nanet("quality", "--algorithms", "math,./none.so", status=2)
    assert "none.so: No such file" in done.stderr


def test_the_build_id_follows_the_headers(root, tmp_path):
    """The core's ID is that of the tree's headers; a changed header that a plug-in includes changes it."""
    assert _core.plugin_build_id().rpartition(".")[0] == build_id()
    shutil.copytree(root / "src" / "nanet", tmp_path / "nanet")

    def of_copy():
        script = root / "cmake" / "plugin_build_id.cmake"
        command = [cmake(), f"-DINCLUDE_DIR={tmp_path}", f"-DVERSION={_core.__version__}", "-P", str(script)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stderr.strip()

    assert of_copy() == build_id()
    for name, part in {
        "card/card.hpp": False,
        "rich/ring.hpp": True,
        "gpu/resident/resident.cuh": True,
    }.items():
        before = of_copy()
        with (tmp_path / "nanet" / name).open("a") as header:
            header.write("// changed\n")
        assert (of_copy() != before) == part, name


def test_without_an_nvcc(nanet, folder, monkeypatch):
    monkeypatch.setenv("CUDACXX", str(folder / "no-nvcc"))
    done = nanet("build-algorithm", folder / "multiplicity.hpp", "--cuda", "on", status=2)
    assert "there is no nvcc" in done.stderr and "CUDACXX" in done.stderr
    said = nanet("build-algorithm", folder / "multiplicity.hpp", "-o", "mine.so").stdout
    assert "CPUs only (there is no nvcc" in said


def test_the_ring_finder_of_the_documentation_finds_rings(nanet, folder, tmp_path):
    _, rings = replay(nanet, folder, "centroid", "--algorithm", folder / "centroid.so")
    found = rings["n_rings"]
    assert 0.5 < sum(found) / len(found) <= 1
    names = ("--truth", folder / "run.parquet", "--rings", folder / "centroid.parquet")
    nanet("evaluate", *names, "--json", "centroid.json")
    result = json.loads((tmp_path / "centroid.json").read_text())
    assert result["isolated"]["efficiency"]["1"] > 0.5
    assert result["isolated"]["sigma_r_mm"] < 5
