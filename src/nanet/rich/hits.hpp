// SPDX-License-Identifier: Apache-2.0
// Input and output of the 32-lane algorithms: hits of an event in lane order, rings written by one lane.
#pragma once

#include <cstdint>

#include "nanet/rich/lanes.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

// Common plane, mm. Lanes read hits in groups of 32: entries up to the next multiple of 32 are readable and
// 0.
struct alignas(64) Hits {
  float x[max_event_hits];
  float y[max_event_hits];
};

inline constexpr std::int32_t lanes_step = static_cast<std::int32_t>(lane_count);

// True if a lane is a thread (GPU warp) rather than a vector element.
template <class L>
inline constexpr bool lane_is_thread = sizeof(typename L::F) == sizeof(float);

// Looks up the positions of the first 128 hits; returns the number of hits.
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

// Position of the lowest set bit. word: not 0.
NANET_HD inline int lowest_bit(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return __builtin_ctz(word);
#endif
}

// First lane with m set; 32 if none.
template <class L>
NANET_HD inline int first_lane(const typename L::M& m) {
  const std::uint32_t word = L::ballot(m);
  return word ? lowest_bit(word) : lanes_step;
}

// Selects one lane to write shared memory: `if (leads<L>()) { ... }`. The block must not use operations of L.
template <class L>
NANET_HD inline bool leads() {
  if constexpr (lane_is_thread<L>) {
    return L::lane() == 0;
  } else {
    return true;
  }
}

// rings: the same in all lanes; out: memory shared by all lanes.
template <class L>
NANET_HD inline void write_rings(const Rings& rings, Rings& out) {
  if (leads<L>()) out = rings;
}

}  // namespace nanet::rich
