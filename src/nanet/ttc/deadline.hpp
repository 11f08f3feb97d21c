// SPDX-License-Identifier: Apache-2.0
// Deadline of the answers in final mode: their triggers leave at t + L, and reach the trigger unit or the
// boards a margin earlier.
#pragma once

#include "nanet/units.hpp"

namespace nanet::ttc {

// 20 us. NA62's L0TP discards primitives older than L - 768 periods (dariosol/na62l0tpfw, ethlink.vhd:2966).
inline constexpr Timestamp answer_margin = 802;

// Periods from a frame's first period to the deadline of its answer.
constexpr Timestamp answer_deadline(Timestamp latency) noexcept {
  return latency > answer_margin ? latency - answer_margin : 0;
}

}  // namespace nanet::ttc
