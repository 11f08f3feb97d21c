// SPDX-License-Identifier: Apache-2.0
// Final step of the single-ring algorithms over lanes: a refined circle becomes a ring or is rejected.
#pragma once

#include "nanet/rich/parameters.hpp"
#include "nanet/rich/refine.hpp"

namespace nanet::rich {

// Limits of a ring.
struct RingLimits {
  std::uint32_t min_hits = 4;
  float r_min = 50.0f;                 // mm: a ring of this radius has one photoelectron on average
  float r_max = 201.0f;                // mm: 190.7 mm at beta = 1, plus 10 mm for the fit error
  float cut = ring_cut_mm;             // mm: hits this close to the circle belong to the ring
  std::uint32_t ambiguity_margin = 1;  // hits: a ring with fewer than min_hits + this is "ambiguous"
  RingModel model;
};

NANET_HD inline bool is_ring(const RingLimits& limits, const Circle& c, std::int32_t hits) {
  return hits >= 3 && hits >= static_cast<std::int32_t>(limits.min_hits) && c.r >= limits.r_min &&
         c.r <= limits.r_max;
}

NANET_HD inline bool is_ambiguous(const RingLimits& limits, std::int32_t hits) {
  return hits < static_cast<std::int32_t>(limits.min_hits + limits.ambiguity_margin);
}

// The ring supported by the hits near `start`, or none.
template <class L>
NANET_HD inline Rings single_ring(const Hits& hits, std::int32_t n, const Circle& start,
                                  const RingLimits& limits) {
  Rings rings;
  Circle c = start;
  const Support found = refine<L>(hits, n, limits.cut, c);
  if (!is_ring(limits, c, found.hits)) return rings;
  rings.count = 1;
  rings.ambiguous = is_ambiguous(limits, found.hits);
  rings.ring[0] = {c.x, c.y, c.r, chi2_per_freedom(found, limits.model),
                   static_cast<std::uint8_t>(found.hits)};
  return rings;
}

}  // namespace nanet::rich
