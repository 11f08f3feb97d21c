// SPDX-License-Identifier: Apache-2.0
// Trigger decision: from the rings of an event to its primitive (docs/formats.md, MTP). One source for CPU
// and GPU.
#pragma once

#include <cstdint>

#include "nanet/rich/ring.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

struct DecisionOptions {
  std::uint32_t min_hits = 1;       // events with fewer hits give no primitive
  std::uint32_t multiplicity = 24;  // b9: minimum hits
  float saturated_mm = 185.0f;      // b11: minimum radius of the leading ring
  float small_mm = 180.0f;          // b10: any ring below this
  float chi2_cut = 3.0f;            // b6: leading ring's chi2/ndf above this
};

namespace primitive_bit {
inline constexpr std::uint16_t valid = 1u << 14;
inline constexpr unsigned rings_shift = 12;
inline constexpr std::uint16_t saturated = 1u << 11;
inline constexpr std::uint16_t small = 1u << 10;
inline constexpr std::uint16_t multiplicity = 1u << 9;
inline constexpr std::uint16_t ambiguous = 1u << 8;
inline constexpr std::uint16_t incomplete = 1u << 7;
inline constexpr std::uint16_t poor = 1u << 6;
}  // namespace primitive_bit

inline constexpr float radius_offset_mm = 60.0f, radius_step_mm = 2.25f;

// Radius of the leading ring in 6 bits, rounded, clamped to 0 - 63.
NANET_HD inline std::uint16_t radius_code(float r) {
  const float code = (r - radius_offset_mm) / radius_step_mm + 0.5f;
  return code < 0.0f ? 0 : code >= 63.0f ? 63 : static_cast<std::uint16_t>(code);
}

// Bits of an event without rings; incomplete: a fragment was truncated or the frame is incomplete.
NANET_HD inline std::uint32_t decide_event(std::uint32_t hits, bool ambiguous, bool incomplete,
                                           const DecisionOptions& o) {
  namespace bit = primitive_bit;
  std::uint32_t id = bit::valid;
  if (hits >= o.multiplicity) id |= bit::multiplicity;
  if (ambiguous) id |= bit::ambiguous;
  if (incomplete) id |= bit::incomplete;
  return id;
}

// Bits added by the leading ring.
NANET_HD inline std::uint32_t decide_leading(const rich::Ring& leading, std::uint32_t rings,
                                             const DecisionOptions& o) {
  namespace bit = primitive_bit;
  std::uint32_t id = (rings < 3 ? rings : 3) << bit::rings_shift;
  if (leading.r >= o.saturated_mm) id |= bit::saturated;
  if (leading.r < o.small_mm) id |= bit::small;
  if (leading.chi2_ndf > o.chi2_cut) id |= bit::poor;
  return id | radius_code(leading.r);
}

// Bits common to all primitives. A user algorithm that makes the decision sets all other bits.
inline constexpr std::uint32_t reserved_bits = 1u << 15 | primitive_bit::valid | primitive_bit::incomplete;

NANET_HD inline std::uint16_t decide(const rich::Rings& rings, std::uint32_t hits, bool incomplete,
                                     const DecisionOptions& o) {
  if (rings.primitive)
    return static_cast<std::uint16_t>((rings.primitive & ~reserved_bits) | primitive_bit::valid |
                                      (incomplete ? primitive_bit::incomplete : 0u));
  std::uint32_t id = decide_event(hits, rings.ambiguous, incomplete, o);
  if (rings.count == 0) return static_cast<std::uint16_t>(id);
  id |= decide_leading(rings.ring[0], rings.count, o);
  for (unsigned i = 1; i < rings.count; ++i)
    if (rings.ring[i].r < o.small_mm) id |= primitive_bit::small;
  return static_cast<std::uint16_t>(id);
}

}  // namespace nanet::trigger
