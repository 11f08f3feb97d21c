// SPDX-License-Identifier: Apache-2.0
// Stops of a bare spinning loop: gaps between successive readings of the clock, which no program on the same
// machine can avoid.
#pragma once

#include <atomic>
#include <thread>

#include "nanet/stats/gap_record.hpp"

namespace nanet::bench {

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
  const stats::GapRecord& record() const noexcept { return record_; }

 private:
  int cpu_;
  stats::GapRecord record_;
  std::atomic<bool> pinned_{false}, running_{false};
  std::jthread thread_;
};

}  // namespace nanet::bench
