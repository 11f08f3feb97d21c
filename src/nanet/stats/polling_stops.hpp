// SPDX-License-Identifier: Apache-2.0
// Stops of polling threads: intervals between two times of a loop that are long although little was done in
// them. One writer for each thread, any number of concurrent readers.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "nanet/stats/gap_record.hpp"
#include "nanet/units.hpp"

namespace nanet::stats {

// Stops of one thread. An interval with more work than `most_work` is no stop, however long it is, and does
// not count as watched: slowness of the loop itself must not pass for a stop of the machine.
class alignas(64) PollingStops {
 public:
  static constexpr Nanoseconds least = 50'000;   // intervals up to this are no stop
  static constexpr std::uint64_t most_work = 8;  // packets, frames, answers
  static constexpr std::uint64_t unbounded = most_work + 1;
  static_assert(least == GapRecord::limits[1]);

  // cpu: core of the thread; -1: not pinned.
  PollingStops(std::string name, int cpu) : name_(std::move(name)), cpu_(cpu) {}

  // Items processed since the last time(); `unbounded`: work without a small bound, or a wait.
  void worked(std::uint64_t items) noexcept { work_ += items; }
  // A time of the loop, CLOCK_MONOTONIC. The first call starts the record.
  void time(Nanoseconds now) noexcept {
    if (last_ != 0 && work_ <= most_work) {
      gaps_.ran(now - last_);
      if (now - last_ > least) gaps_.gap(last_, now);
    }
    last_ = now;
    work_ = 0;
  }

  const std::string& name() const noexcept { return name_; }
  int cpu() const noexcept { return cpu_; }
  // Its elapsed time: the sum of the intervals watched.
  const GapRecord& record() const noexcept { return gaps_; }

 private:
  Nanoseconds last_ = 0;
  std::uint64_t work_ = 0;
  GapRecord gaps_;
  std::string name_;
  int cpu_;
};

// The threads of a card: the card's thread, then those added.
class PollingThreads {
 public:
  explicit PollingThreads(int card_cpu) { add("card", card_cpu); }

  PollingStops& card() noexcept { return threads_.front(); }
  // Before the thread runs. The reference stays valid.
  PollingStops& add(std::string name, int cpu) { return threads_.emplace_back(std::move(name), cpu); }
  const std::deque<PollingStops>& all() const noexcept { return threads_; }

 private:
  std::deque<PollingStops> threads_;
};

}  // namespace nanet::stats
