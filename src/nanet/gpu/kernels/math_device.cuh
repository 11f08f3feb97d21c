// SPDX-License-Identifier: Apache-2.0
// Ring and primitive of MATH from the moments of an event, for both kernels; the same steps as
// Math::operator().
#pragma once

#include <cstdint>

#include "nanet/rich/math.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::gpu {

// Ring from the moments; false if there is none. share: 1 / hits.
__device__ inline bool math_ring(const rich::Math& math, const rich::Math::Moments<rich::OneLane>& moments,
                                 std::uint32_t hits, float share, rich::Ring& ring) {
  if (hits < math.parameters.min_hits || hits < 3) return false;
  rich::Math::Fit<rich::OneLane> fit;
  if (!math.solve(moments, static_cast<float>(hits), share, fit)) return false;
  ring = {fit.x, fit.y, fit.r, fit.chi2_ndf, static_cast<std::uint8_t>(hits)};
  return true;
}

// decide() for an event of one ring or none, without an array of rings. seen: hits of the event; the first
// 128 were fitted.
__device__ inline std::uint32_t math_primitive(bool found, const rich::Ring& ring, std::uint32_t seen,
                                               bool incomplete, const trigger::DecisionOptions& decision) {
  if (seen < decision.min_hits) return 0;
  const std::uint32_t id = trigger::decide_event(seen, false, incomplete, decision);
  return found ? id | trigger::decide_leading(ring, 1, decision) : id;
}

}  // namespace nanet::gpu
