// SPDX-License-Identifier: Apache-2.0
// nanet._core: RDMA benchmark.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "nanet/bench/rdma.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace nanet;

namespace {

bench::RdmaPath path_of(const std::string& name) {
  if (name == "G-G") return bench::RdmaPath::gpu_to_gpu;
  if (name == "H-G") return bench::RdmaPath::host_to_gpu;
  if (name == "H-H") return bench::RdmaPath::host_to_host;
  if (name == "staged") return bench::RdmaPath::staged;
  throw std::invalid_argument("path = " + name + " must be G-G, H-G, H-H or staged");
}

}  // namespace

void bind_rdma(nb::module_& m) {
  nb::class_<bench::RdmaBench>(m, "RdmaBench",
                               "Two nodes with emulated RDMA cards: on GPUs (rdma_bench(first, second)) or "
                               "host threads (rdma_bench()).")
      .def(
          "half_round_trip",
          [](bench::RdmaBench& b, const std::string& path, std::uint32_t bytes, std::uint32_t rounds) {
            bench::RdmaHalfRoundTrip r;
            {
              const nb::gil_scoped_release released;
              r = b.half_round_trip(path_of(path), bytes, rounds);
            }
            nb::dict d;
            d["p50_us"] = r.p50_us;
            d["p99_us"] = r.p99_us;
            d["mean_us"] = r.mean_us;
            d["rounds"] = r.rounds;
            d["wrong"] = r.wrong;
            return d;
          },
          "path"_a, "bytes"_a, "rounds"_a,
          "Half round trip of a put with its event. path: memory at both nodes, G-G, H-G (host to GPU), H-H "
          "or "
          "staged (GPU, copied through host memory). bytes: a multiple of 8. Returns p50_us, p99_us, "
          "mean_us, "
          "rounds, wrong (messages with wrong data or event). ValueError; RuntimeError.")
      .def(
          "bandwidth",
          [](bench::RdmaBench& b, std::uint32_t bytes) {
            bench::RdmaBandwidth r;
            {
              const nb::gil_scoped_release released;
              r = b.bandwidth(bytes);
            }
            nb::dict d;
            d["put_bytes_per_s"] = r.put_bytes_per_s;
            d["copy_bytes_per_s"] = r.copy_bytes_per_s;
            d["puts"] = r.puts;
            d["by_copy_engine"] = r.by_copy_engine;
            d["wrong"] = r.wrong;
            return d;
          },
          "bytes"_a,
          "Puts posted in a row, G-G (host threads: H-H). Returns put_bytes_per_s, copy_bytes_per_s (the "
          "same copies "
          "by cudaMemcpyAsync or memcpy), puts, by_copy_engine (of them), wrong (data). ValueError; "
          "RuntimeError.")
      .def_prop_ro("card", &bench::RdmaBench::card, "What executes the operations.")
      .def_prop_ro("link", &bench::RdmaBench::link, "Link between the nodes.");
  m.def(
      "rdma_bench",
      [](int first, int second) {
        const nb::gil_scoped_release released;
        return first < 0 ? bench::open_rdma_host() : bench::open_rdma_cuda(first, second);
      },
      "first"_a = -1, "second"_a = -1,
      "Benchmark of two nodes on these GPUs, which may be one; -1: host threads. RuntimeError.");
}
