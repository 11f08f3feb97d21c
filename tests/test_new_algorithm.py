# SPDX-License-Identifier: Apache-2.0
"""A ring algorithm added by one header and one line in the list (docs/writing-algorithms.md), then built."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from nanet.cli.build_algorithm import find_nvcc
from nanet.run import host

pytestmark = [pytest.mark.complete, pytest.mark.timeout(3600)]

HEADER = """\
// SPDX-License-Identifier: Apache-2.0
// CENTROID: circle about the mean of the hits, with their mean distance as radius.
#pragma once

#include <string_view>

#include "nanet/rich/lanes.hpp"
#include "nanet/rich/parameters.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

struct Centroid {
  static constexpr std::string_view name = "centroid";
  static constexpr bool is_fit = false;
  struct Parameters {
    std::uint32_t min_hits = 4;
    float r_min = 50.0f, r_max = 201.0f;
  };
  static Keys<Parameters> keys() { return ring_keys<Parameters>(); }
  Parameters parameters;

  NANET_HD Rings operator()(const EventView& event, const Point* plane) const {
    Rings rings;
    const std::uint32_t hits = event.hits < max_event_hits ? event.hits : max_event_hits;
    if (hits < parameters.min_hits) return rings;
    const float n = static_cast<float>(hits);
    float x = 0, y = 0, r = 0;
    for (std::uint32_t i = 0; i < hits; ++i) x += plane[event.pm[i]].x, y += plane[event.pm[i]].y;
    x /= n, y /= n;
    for (std::uint32_t i = 0; i < hits; ++i) {
      const float dx = plane[event.pm[i]].x - x, dy = plane[event.pm[i]].y - y;
      r += sqrtf(dx * dx + dy * dy);
    }
    r /= n;
    if (r < parameters.r_min || r > parameters.r_max) return rings;
    rings.count = 1;
    rings.ring[0] = {x, y, r, 0.0f, static_cast<std::uint8_t>(hits)};
    return rings;
  }
};

}  // namespace nanet::rich
"""
LINE = "centroid  Centroid\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory, root, building):
    """A copy of the Python package with a core that has the algorithm, on CPUs and, with an nvcc, on GPUs."""
    folder = tmp_path_factory.mktemp("centroid")
    (folder / "centroid.hpp").write_text(HEADER)
    (folder / "extra.list").write_text(LINE)
    nvcc, _ = find_nvcc()
    cuda = ["-DNANET_CUDA=OFF"]
    if nvcc:
        cuda = ["-DNANET_CUDA=ON", "-DNANET_CUDA_ALGORITHMS=centroid", f"-DCMAKE_CUDA_COMPILER={nvcc}"]
        cuda += ["-DCMAKE_CUDA_ARCHITECTURES=90-real"]
    definitions = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DNANET_PYTHON=ON",
        "-DNANET_GATEWARE=OFF",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DNANET_EXTRA_ALGORITHMS={folder / 'extra.list'}",
    ]
    configure = ["cmake", "-G", "Ninja", "-S", root, "-B", folder / "build", *definitions, *cuda]
    for command in (configure, ["cmake", "--build", folder / "build", "--target", "_core"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=building)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    source = root / "python" / "nanet"
    shutil.copytree(source, folder / "nanet", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (core,) = (path for path in (folder / "build").glob("**/_core*.so") if "stubs" not in path.parts)
    shutil.copy(core, folder / "nanet")
    return folder


def run(folder, *arguments, status=0):
    """The command line of the copy, in its folder; its output."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def replay(folder, device, algorithm="centroid", status=0):
    files = ["--device", device, "--out", f"{device}.parquet"]
    return run(folder, "-m", "nanet", "replay", "run.pcap", "--algorithm", algorithm, *files, status=status)


@pytest.fixture(scope="module")
def capture(package):
    run(package, "-m", "nanet", "generate", "--events", 20000, "--seed", 7, "--out", "run.pcap")
    return package


def test_the_command_line_finds_it_by_name(capture):
    replay(capture, "cpu")
    rings = pq.read_table(capture / "cpu.parquet").to_pydict()
    assert np.count_nonzero(np.array(rings["n_rings"])) > 5000
    assert "centroid" in run(capture, "-m", "nanet", "replay", "--help")
    assert "centroid" in replay(capture, "cpu", algorithm="centroids", status=2)


def test_its_name_is_in_every_list(capture):
    said = run(
        capture,
        "-c",
        "from nanet.config.sections import ALGORITHMS; from nanet.quality.figures import COLOURS; "
        "from nanet import _core; print(ALGORITHMS[-1], 'centroid' in COLOURS, _core.algorithm_names()[-1])",
    )
    assert said.split() == ["centroid", "True", "centroid"]


@pytest.mark.skipif(not find_nvcc()[0], reason="no nvcc")
def test_the_build_has_its_kernels_and_no_other(capture):
    assert "['centroid']" in run(capture, "-c", "from nanet import _core; print(_core.cuda_algorithms())")


@pytest.mark.gpu
@pytest.mark.skipif(bool(host.cuda()["trouble"]), reason="no GPU")
def test_a_gpu_gives_the_rows_of_the_cpu_and_refuses_what_has_no_kernel(capture):
    for device in ("cpu", "cuda"):
        replay(capture, device)
    assert pq.read_table(capture / "cpu.parquet").equals(pq.read_table(capture / "cuda.parquet"))
    said = replay(capture, "cuda", algorithm="math", status=2)
    assert "math" in said and "NANET_CUDA_ALGORITHMS" in said and "--device cpu" in said
