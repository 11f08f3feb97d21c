// SPDX-License-Identifier: Apache-2.0
// Downscaling: sends one primitive in N of a kind. The choice depends only on the primitive's time, so all
// executors and replays agree.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "nanet/stats/counter_list.hpp"
#include "nanet/trigger/decide/decide.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

// Kinds by b13:12 of the primitive ID: no ring, one, two, three or more.
#define NANET_LINE(name, text) std::string_view(#name),
inline constexpr std::array kind_names{NANET_DOWNSCALED(NANET_LINE)};
#undef NANET_LINE
inline constexpr std::size_t primitive_kinds = kind_names.size();
NANET_HD inline unsigned kind_of(std::uint16_t primitive) {
  return primitive >> primitive_bit::rings_shift & 3;
}

// True if the primitive at `time` (since SOB) is sent; factor 1: all, 0: none. Mixes with the finaliser of
// SplitMix64 (Steele, Lea, Flood 2014), so that neighbouring times are independent.
NANET_HD inline bool downscale_keeps(Lsb time, std::uint32_t factor) {
  if (factor <= 1) return factor == 1;
  auto x = static_cast<std::uint64_t>(time) + 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return (x >> 32) * factor >> 32 == 0;
}

struct Downscale {
  std::array<std::uint32_t, primitive_kinds> factor{1, 1, 1, 1};
  bool any() const noexcept { return factor != std::array<std::uint32_t, primitive_kinds>{1, 1, 1, 1}; }
  bool keeps(std::uint16_t primitive, Lsb time) const noexcept {
    return downscale_keeps(time, factor[kind_of(primitive)]);
  }
};

}  // namespace nanet::trigger
