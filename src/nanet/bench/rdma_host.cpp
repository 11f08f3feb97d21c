// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "nanet/bench/rdma.hpp"
#include "nanet/bench/rdma_exchange.hpp"
#include "nanet/bench/rdma_result.hpp"
#include "nanet/gpu/rdma/host_nodes.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::bench {
namespace {

class HostBench final : public RdmaBench {
 public:
  HostBench() : nodes_(gpu::RdmaOptions{}) {
    for (unsigned n = 0; n < 2; ++n) {
      from_[n].resize(rdma_bench_largest);
      to_[n].resize(rdma_bench_largest);
      nodes_.register_memory(n, from_[n].data(), from_[n].size());
      key_[n] = nodes_.register_memory(n, to_[n].data(), to_[n].size());
    }
    nodes_.start();
  }
  RdmaHalfRoundTrip half_round_trip(RdmaPath path, std::uint32_t bytes, std::uint32_t rounds) override {
    if (path != RdmaPath::host_to_host)
      throw std::invalid_argument("rdma: host threads have no GPU memory; use --device cuda");
    const std::uint32_t stride = message_stride(bytes);
    std::vector<std::uint64_t> ticks(rounds);
    std::uint64_t result[2][3] = {};
    Exchange x[2];
    for (unsigned n = 0; n < 2; ++n) {
      x[n].key = key_[1 - n];
      x[n].other = static_cast<std::uint16_t>(1 - n);
      x[n].first = n == 0;
      x[n].from = from_[n].data();
      x[n].to = to_[n].data();
      x[n].bytes = bytes;
      x[n].stride = stride;
      x[n].rounds = rounds;
      x[n].ticks = ticks.data();
      x[n].result = result[n];
    }
    {
      const std::jthread second([&] { run(1, x[1], exchange); });
      run(0, x[0], exchange);
    }
    return half_round_trip_of(ticks, result[0], result[1][2]);
  }
  RdmaBandwidth bandwidth(std::uint32_t bytes) override {
    const std::uint32_t puts = puts_in_a_row(bytes);
    std::fill_n(from_[0].begin(), bytes, static_cast<std::byte>(++fill_));
    std::uint64_t result[3] = {};
    Exchange x;
    x.key = key_[1];
    x.other = 1;
    x.from = from_[0].data();
    x.bytes = bytes;
    x.rounds = puts;
    x.result = result;
    run(0, x, put_in_a_row);  // pages of the target
    run(0, x, put_in_a_row);
    RdmaBandwidth r;
    r.puts = puts;
    r.put_bytes_per_s = 1e9 * puts * bytes / static_cast<double>(std::max<std::uint64_t>(1, result[0]));
    r.wrong = result[2] != 0 || std::memcmp(from_[0].data(), to_[1].data(), bytes) != 0;
    const Nanoseconds began = os::monotonic_now();
    for (std::uint32_t i = 0; i < puts; ++i) std::memcpy(to_[1].data(), from_[0].data(), bytes);
    r.copy_bytes_per_s =
        1e9 * puts * bytes / static_cast<double>(std::max<Nanoseconds>(1, os::monotonic_now() - began));
    return r;
  }
  std::string card() const override { return "emulated by a thread per node"; }
  std::string link() const override { return "host memory"; }

 private:
  template <class F>
  void run(unsigned node, const Exchange& x, F program) {
    ExchangeWork work;
    program(nodes_.argument(node), work, x);
  }

  std::vector<std::byte> from_[2], to_[2];
  gpu::RdmaKey key_[2] = {};
  unsigned fill_ = 0;
  gpu::HostRdma nodes_;  // ends before the memory that it uses
};

}  // namespace

std::unique_ptr<RdmaBench> open_rdma_host() {
  return std::make_unique<HostBench>();
}

}  // namespace nanet::bench
