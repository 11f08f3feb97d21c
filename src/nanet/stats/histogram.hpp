// SPDX-License-Identifier: Apache-2.0
// Log-linear latency histogram: three significant digits, constant memory. One writer, any number of
// concurrent readers.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::stats {

class Histogram {
 public:
  // 1024 steps per octave: the relative width of a bin is below 1/1024, so percentiles are exact to three
  // digits.
  static constexpr unsigned bits = 10;
  static constexpr unsigned octaves = 32;  // up to 2^42 ns, over an hour; larger values land in the last bin
  static constexpr std::size_t bins = (std::size_t{1} << (bits + 1)) + (octaves << bits);

  Histogram() : bin_(std::make_unique<std::atomic<std::uint64_t>[]>(bins)) {}

  // Nanoseconds; negative values (a clock that was set) count as 0. Single writer, wait-free.
  void add(Nanoseconds value) noexcept {
    const std::uint64_t v = value < 0 ? 0 : static_cast<std::uint64_t>(value);
    bump(bin_[index(v)], 1);
    bump(count_, 1);
    if (v > max_.load(std::memory_order_relaxed)) max_.store(v, std::memory_order_relaxed);
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  Nanoseconds max() const noexcept { return static_cast<Nanoseconds>(max_.load(std::memory_order_relaxed)); }

  // The smallest bin edge that at least a share p (0 - 1) of the values does not exceed, in ns; 0 when empty.
  // Never above max().
  double percentile(double p) const noexcept {
    const std::uint64_t n = count();
    if (n == 0) return 0;
    const double want = p * static_cast<double>(n);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < bins; ++i) {
      seen += bin_[i].load(std::memory_order_relaxed);
      if (seen > 0 && static_cast<double>(seen) >= want) {
        const double edge = static_cast<double>(upper(i));
        return edge < static_cast<double>(max()) ? edge : static_cast<double>(max());
      }
    }
    return static_cast<double>(max());
  }
  // Adds another histogram's values; the caller is the writer of this one.
  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < bins; ++i) {
      const auto n = other.bin_[i].load(std::memory_order_relaxed);
      if (n) bump(bin_[i], n);
    }
    bump(count_, other.count());
    if (other.max() > max()) max_.store(static_cast<std::uint64_t>(other.max()), std::memory_order_relaxed);
  }
  void clear() noexcept {
    for (std::size_t i = 0; i < bins; ++i) bin_[i].store(0, std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
    max_.store(0, std::memory_order_relaxed);
  }
  std::uint64_t in_bin(std::size_t i) const noexcept { return bin_[i].load(std::memory_order_relaxed); }

  static constexpr std::size_t index(std::uint64_t v) noexcept {
    if (v < (1u << (bits + 1))) return static_cast<std::size_t>(v);
    const unsigned shift = static_cast<unsigned>(std::bit_width(v)) - (bits + 1);
    const std::size_t i = (static_cast<std::size_t>(shift) << bits) + static_cast<std::size_t>(v >> shift);
    return i < bins ? i : bins - 1;
  }
  // Largest value of bin i.
  static constexpr std::uint64_t upper(std::size_t i) noexcept {
    if (i < (1u << (bits + 1))) return i;
    const unsigned shift = static_cast<unsigned>(i >> bits) - 1;
    return ((((i & ((1u << bits) - 1)) | (1u << bits)) + 1) << shift) - 1;
  }

 private:
  static void bump(std::atomic<std::uint64_t>& a, std::uint64_t n) noexcept {
    a.store(a.load(std::memory_order_relaxed) + n,
            std::memory_order_relaxed);  // single writer: no locked instruction
  }
  std::unique_ptr<std::atomic<std::uint64_t>[]> bin_;
  std::atomic<std::uint64_t> count_{0}, max_{0};
};

}  // namespace nanet::stats
