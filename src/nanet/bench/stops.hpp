// SPDX-License-Identifier: Apache-2.0
// Stops of a bare spinning loop: gaps between successive readings of the clock, which no program on the same
// machine can avoid.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "nanet/stats/histogram.hpp"
#include "nanet/units.hpp"

namespace nanet::bench {

// Gaps of a loop that reads the clock. Shares and percentiles are weighted by time: the share of the loop's
// time that lies in such gaps.
class GapRecord {
 public:
  static constexpr Nanoseconds least = 1'000;  // gaps up to this count as no stop
  static constexpr std::array<Nanoseconds, 3> limits{10'000, 50'000, 100'000};
  static constexpr std::size_t most_listed = 1 << 18;
  struct Gap {
    Nanoseconds begin, end;
  };
  struct Above {
    std::uint64_t count = 0;
    Nanoseconds time = 0;
  };

  // Allocates the list, so that the loop does not.
  void reserve() { listed_.reserve(most_listed); }
  // A gap between two readings, CLOCK_MONOTONIC.
  void gap(Nanoseconds begin, Nanoseconds end);
  // A run of the loop has ended.
  void ran(Nanoseconds elapsed) noexcept { elapsed_ += elapsed; }

  Nanoseconds elapsed() const noexcept { return elapsed_; }
  std::uint64_t count() const noexcept { return gaps_.count(); }  // gaps above `least`
  Nanoseconds longest() const noexcept { return gaps_.max(); }
  // Gaps above limits[i].
  const Above& above(std::size_t i) const noexcept { return above_[i]; }
  double share_above(std::size_t i) const noexcept;
  // Smallest gap such that a share p (0 - 1) of the time lies in gaps up to it, in ns; `least` if shorter; 0
  // without a run.
  double percentile(double p) const noexcept;
  // Gaps above the first limit, in order of time; the first `most_listed`.
  const std::vector<Gap>& listed() const noexcept { return listed_; }

 private:
  stats::Histogram gaps_;
  std::array<Above, limits.size()> above_;
  std::vector<Gap> listed_;
  Nanoseconds elapsed_ = 0, time_ = 0;  // time_: in gaps above `least`
};

// Thread that reads the clock in a loop and records the gaps.
class StopProbe {
 public:
  explicit StopProbe(int cpu = -1) : cpu_(cpu) {}  // -1: not pinned
  ~StopProbe();
  StopProbe(const StopProbe&) = delete;
  StopProbe& operator=(const StopProbe&) = delete;

  // Starts the loop and returns once it runs; runs add up. Throws std::system_error if the thread cannot be
  // pinned.
  void start();
  // Ends the loop; the record may be read until the next start.
  void stop();
  const GapRecord& record() const noexcept { return record_; }

 private:
  int cpu_;
  GapRecord record_;
  std::atomic<bool> pinned_{false}, running_{false};
  std::jthread thread_;
};

}  // namespace nanet::bench
