// SPDX-License-Identifier: Apache-2.0
// Monotonic clock, and conversion of kernel time stamps to it. All times of nanet are CLOCK_MONOTONIC.
#pragma once

#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::os {

Nanoseconds monotonic_now() noexcept;

// Offset between CLOCK_REALTIME (kernel time stamps) and CLOCK_MONOTONIC. NTP steps and slews CLOCK_REALTIME,
// so refresh the offset regularly.
class ClockOffset {
 public:
  ClockOffset() noexcept { refresh(); }
  // Takes the tightest of three readings; costs about 100 ns.
  void refresh() noexcept;
  // Refreshes if the last refresh is more than `every` ns old; `now` is CLOCK_MONOTONIC.
  void refresh_if_older(Nanoseconds now, Nanoseconds every = 100'000'000) noexcept {
    if (now - refreshed_ > every) refresh();
  }
  Nanoseconds to_monotonic(std::int64_t realtime_ns) const noexcept { return realtime_ns - offset_; }
  // Arrival of a packet that was read at about `now`. A stamp far from `now` may follow a step of
  // CLOCK_REALTIME: the offset is then refreshed first, at most once per ms. Never later than `now` + slack.
  Nanoseconds arrival(std::int64_t realtime_ns, Nanoseconds now) noexcept {
    constexpr Nanoseconds slack = 1'000'000;
    Nanoseconds at = to_monotonic(realtime_ns);
    if (at > now + slack || at < now - slack) {
      refresh_if_older(now, slack);
      at = to_monotonic(realtime_ns);
      if (at > now + slack) at = now;  // stamped before a step backwards
    }
    return at;
  }

 private:
  std::int64_t offset_ = 0;  // realtime - monotonic
  Nanoseconds refreshed_ = 0;
};

}  // namespace nanet::os
