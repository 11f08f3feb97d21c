// SPDX-License-Identifier: Apache-2.0
// Gaps between successive times of a loop: number, shares of time, percentiles, and a bounded list. One
// writer, any number of concurrent readers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nanet/stats/counter.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/units.hpp"

namespace nanet::stats {

// Shares and percentiles are weighted by time: the share of the loop's time that lies in such gaps. The
// constructor allocates all memory.
class GapRecord {
 public:
  static constexpr Nanoseconds least = 1'000;  // gaps up to this count as no stop
  static constexpr std::array<Nanoseconds, 3> limits{10'000, 50'000, 100'000};
  static constexpr std::size_t most_listed = 1 << 18;
  struct Gap {
    Nanoseconds begin, end;
  };
  struct Above {
    Counter count, time;  // time in ns
  };

  GapRecord() : list_(std::make_unique_for_overwrite<Gap[]>(most_listed)) {}

  // A gap between two readings, CLOCK_MONOTONIC.
  void gap(Nanoseconds begin, Nanoseconds end) noexcept;
  // The loop ran for this time, gaps included.
  void ran(Nanoseconds elapsed) noexcept { elapsed_ += static_cast<std::uint64_t>(elapsed); }

  Nanoseconds elapsed() const noexcept { return static_cast<Nanoseconds>(std::uint64_t{elapsed_}); }
  std::uint64_t count() const noexcept { return gaps_.count(); }  // gaps above `least`
  Nanoseconds longest() const noexcept { return gaps_.max(); }
  // Gaps above limits[i].
  const Above& above(std::size_t i) const noexcept { return above_[i]; }
  double share_above(std::size_t i) const noexcept;
  // Smallest gap such that a share p (0 - 1) of the time lies in gaps up to it, in ns; `least` if shorter; 0
  // without a run.
  double percentile(double p) const noexcept;
  // Gaps above the first limit, in order of time; the first `most_listed`.
  std::span<const Gap> listed() const noexcept {
    return {list_.get(), listed_.load(std::memory_order_acquire)};
  }

 private:
  Histogram gaps_;
  std::array<Above, limits.size()> above_;
  std::unique_ptr<Gap[]> list_;
  std::atomic<std::size_t> listed_{0};  // entries written
  Counter elapsed_, time_;              // ns; time_: in gaps above `least`
};

}  // namespace nanet::stats
