// SPDX-License-Identifier: Apache-2.0
// Input and output of the 32-lane algorithms: hits of an event laid out for the lanes, rings written by one
// lane.
#pragma once

#include <cstdint>

#include "nanet/rich/lanes.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

// Common plane, mm. Lanes look at hits 32 by 32: entries up to the next multiple of 32 can be read, and are
// 0.
struct alignas(64) Hits {
  float x[max_event_hits];
  float y[max_event_hits];
};

inline constexpr std::int32_t lanes_step = static_cast<std::int32_t>(lane_count);

// A lane is a thread (GPU warp), not an element of a vector.
template <class L>
inline constexpr bool lane_is_thread = sizeof(typename L::F) == sizeof(float);

// Looks the positions of the first 128 hits up and returns how many there are.
template <class L>
NANET_HD inline std::int32_t load_hits(const EventView& event, const Point* plane, Hits& hits) {
  const std::int32_t n = static_cast<std::int32_t>(event.hits < max_event_hits ? event.hits : max_event_hits);
  for (std::int32_t from = 0; from < n; from += lanes_step) {
    if constexpr (lane_is_thread<L>) {
      const std::int32_t i = from + L::lane();
      const Point p = i < n ? plane[event.pm[i]] : Point{};
      hits.x[i] = p.x;
      hits.y[i] = p.y;
    } else {
      for (std::int32_t i = from; i < from + lanes_step; ++i) {
        const Point p = i < n ? plane[event.pm[i]] : Point{};
        hits.x[i] = p.x;
        hits.y[i] = p.y;
      }
    }
  }
  L::sync();
  return n;
}

// The first lane where m holds; 32 if none does.
template <class L>
NANET_HD inline int first_lane(const typename L::M& m) {
  const typename L::F rest = L::to_float(typename L::I(lanes_step) - L::lane());
  return lanes_step - static_cast<int>(L::max(L::select(m, rest, typename L::F(0.0f))));
}

// One lane writes what all have: memory they share is written in `if (leads<L>()) { ... }`, without a word of
// L inside.
template <class L>
NANET_HD inline bool leads() {
  if constexpr (lane_is_thread<L>) {
    return L::lane() == 0;
  } else {
    return true;
  }
}

// rings: the same in all lanes; out: memory that all lanes share.
template <class L>
NANET_HD inline void write_rings(const Rings& rings, Rings& out) {
  if (leads<L>()) out = rings;
}

}  // namespace nanet::rich
