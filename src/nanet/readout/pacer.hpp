// SPDX-License-Identifier: Apache-2.0
// Pacer: waits until a time of CLOCK_MONOTONIC, sleeping first, then spinning; never early.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/units.hpp"

namespace nanet::readout {

class Pacer {
 public:
  // `spin`: never sleep (needs a dedicated core). Sets the calling thread's timer slack to the minimum.
  explicit Pacer(bool spin) : spin_(spin) { prctl(PR_SET_TIMERSLACK, 1UL); }

  // Returns the current time, at or after `due`; earlier only if `stop` is set.
  Nanoseconds wait(Nanoseconds due, const std::atomic<bool>& stop) const noexcept {
    while (true) {
      const Nanoseconds now = os::monotonic_now();
      if (now >= due || stop.load(std::memory_order_relaxed)) return now;
      if (!spin_ && due - now > nap_ns) {
        const Nanoseconds until = std::min(due, now + slice_ns);
        const timespec t{until / 1'000'000'000, until % 1'000'000'000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
      } else {
        os::spin();
      }
    }
  }

 private:
  static constexpr Nanoseconds nap_ns = 20'000;        // shorter waits spin: a sleep costs more
  static constexpr Nanoseconds slice_ns = 20'000'000;  // maximum delay of a stop request
  bool spin_;
};

}  // namespace nanet::readout
