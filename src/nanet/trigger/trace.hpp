// SPDX-License-Identifier: Apache-2.0
// What an executor leaves behind of each number n for the account and the histograms: written before the
// descriptor is posted, read by the card's thread after it has seen the descriptor or the returned buffer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::trigger {

struct Trace {
  std::uint64_t n = ~std::uint64_t{0};
  Frame frame = 0;
  Nanoseconds seen = 0, built = 0, reconstructed = 0, posted = 0;
  std::uint32_t events = 0, primitives = 0, below_min_hits = 0, mtp_overflow = 0, rings = 0,
                duplicate_hits = 0;
  // Events so close to an edge of the frame that another frame may hold the rest of their fragments.
  struct Edge {
    std::uint16_t opened;
    std::uint8_t boards;
  };
  static constexpr unsigned edges = 8;
  std::array<Edge, edges> low, high;
  std::uint8_t lows = 0, highs = 0;
};

// One entry per CLOP buffer of all devices; n finds its own.
class TraceTable {
 public:
  explicit TraceTable(std::size_t slots) : trace_(slots), mask_(slots - 1) {}
  Trace& operator[](std::uint64_t n) noexcept { return trace_[n & mask_]; }

 private:
  std::vector<Trace> trace_;
  std::uint64_t mask_;
};

}  // namespace nanet::trigger
