// SPDX-License-Identifier: Apache-2.0
// Single-writer event counter, readable from any thread while it is written.
#pragma once

#include <atomic>
#include <cstdint>

namespace nanet::stats {

// One writer: an increment is a plain load and store, without a locked instruction.
class Counter {
 public:
  void operator+=(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void operator++() noexcept { *this += 1; }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace nanet::stats
