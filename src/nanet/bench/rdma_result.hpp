// SPDX-License-Identifier: Apache-2.0
// Sizes and statistics of the RDMA benchmark.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "nanet/bench/rdma.hpp"

namespace nanet::bench {

// Distance of two messages. Throws std::invalid_argument for sizes that cannot be marked or stored.
inline std::uint32_t message_stride(std::uint32_t bytes) {
  if (bytes < 8 || bytes % 8 != 0 || bytes > rdma_bench_largest / 2)
    throw std::invalid_argument("bytes: a multiple of 8, at most half of the buffer");
  return (bytes + 127) / 128 * 128;
}

// Transfers of a measurement: half a GiB, at most 512, at least 16.
inline std::uint32_t puts_in_a_row(std::uint32_t bytes) {
  if (bytes == 0 || bytes > rdma_bench_largest)
    throw std::invalid_argument("bytes: at most those of the buffer");
  return std::clamp((512u << 20) / bytes, 16u, 512u);
}

// result: of Exchange, at the node that measures. The first tenth of the rounds does not count.
inline RdmaHalfRoundTrip half_round_trip_of(std::vector<std::uint64_t> ticks, const std::uint64_t* result,
                                            std::uint64_t wrong_at_the_other) {
  if (ticks.empty()) throw std::invalid_argument("rounds: at least one");
  RdmaHalfRoundTrip r;
  r.rounds = static_cast<std::uint32_t>(ticks.size());
  r.wrong = static_cast<std::uint32_t>(result[2] + wrong_at_the_other);
  if (result[1] == 0) throw std::runtime_error("rdma: the exchange ended early");
  const double us = 0.5e-3 * static_cast<double>(result[0]) / static_cast<double>(result[1]);
  ticks.erase(ticks.begin(), ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 10));
  std::sort(ticks.begin(), ticks.end());
  double sum = 0;
  for (const std::uint64_t t : ticks) sum += static_cast<double>(t);
  r.mean_us = us * sum / static_cast<double>(ticks.size());
  r.p50_us = us * static_cast<double>(ticks[ticks.size() / 2]);
  r.p99_us = us * static_cast<double>(ticks[ticks.size() * 99 / 100]);
  return r;
}

}  // namespace nanet::bench
