// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/clock.hpp"

#include <ctime>
#include <limits>

namespace nanet::os {
namespace {

std::int64_t read_clock(clockid_t clock) noexcept {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

Nanoseconds monotonic_now() noexcept {
  return read_clock(CLOCK_MONOTONIC);
}

void ClockOffset::refresh() noexcept {
  std::int64_t tightest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = read_clock(CLOCK_MONOTONIC);
    const std::int64_t realtime = read_clock(CLOCK_REALTIME);
    const std::int64_t after = read_clock(CLOCK_MONOTONIC);
    if (after - before < tightest) {
      tightest = after - before;
      offset_ = realtime - (before + tightest / 2);
    }
    refreshed_ = after;
  }
}

}  // namespace nanet::os
