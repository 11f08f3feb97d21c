// SPDX-License-Identifier: Apache-2.0
// What a shifter looks at: counts of rings over all events, and of hits, radii, centres and PM occupancy over
// a sample of frames; and a small ring of sampled events. One writer each, any reader, no locks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nanet/rich/ring.hpp"
#include "nanet/stats/counter.hpp"
#include "nanet/stats/event_sample.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

class Physics {
 public:
  using Counter = stats::Counter;
  static constexpr Frame sample_every =
      8;  // frames; counted over a sample, events are not slowed down for a plot
  static constexpr unsigned centre_bins = 64;
  static constexpr float centre_low_x = -552, centre_low_y = -400, centre_width = 12.5f;  // mm

  std::array<Counter, max_event_hits + 1> hits_per_event;
  std::array<Counter, rich::max_rings + 1> rings_per_event;  // over all events
  std::array<Counter, 256> radius;                           // 1 mm bins, leading ring
  std::array<Counter, centre_bins * centre_bins> centre;     // [y][x], leading ring
  std::array<Counter, pm_count> occupancy;
  Counter sampled_events;

  void count(const rich::EventView& event, const rich::Rings& rings) noexcept {
    ++sampled_events;
    ++hits_per_event[event.hits <= max_event_hits ? event.hits : max_event_hits];
    for (std::uint32_t i = 0; i < event.hits; ++i) ++occupancy[event.pm[i]];
    if (rings.count == 0) return;
    const rich::Ring& ring = rings.ring[0];
    if (ring.r >= 0 && ring.r < 256) ++radius[static_cast<std::size_t>(ring.r)];
    const float bx = (ring.x - centre_low_x) / centre_width, by = (ring.y - centre_low_y) / centre_width;
    if (bx >= 0 && bx < centre_bins && by >= 0 && by < centre_bins)
      ++centre[static_cast<std::size_t>(by) * centre_bins + static_cast<std::size_t>(bx)];
  }

  void keep(const stats::EventSample& event) noexcept { events_.push(event); }
  std::vector<stats::EventSample> events() const { return events_.events(); }

 private:
  stats::EventRing events_;
};

}  // namespace nanet::trigger
