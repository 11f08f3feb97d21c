// SPDX-License-Identifier: Apache-2.0
// Deadline of a frame's answer: a fixed time after the frame's first packet, or an earlier limit set by the
// experiment's time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::card {

class AnswerLimit {
 public:
  virtual ~AnswerLimit() = default;
  // Time at which an answer of n becomes useless; far in the future if unknown. Called in the card's thread.
  virtual Nanoseconds latest(std::uint64_t n) const noexcept = 0;
};

struct AnswerDeadline {
  Nanoseconds after = 0;  // the frame's first packet; <= 0: none (replay)
  // Gather mode packets: after the time at which the buffer was closed.
  bool from_closed = false;
  const AnswerLimit* limit = nullptr;

  bool any() const noexcept { return after > 0; }
  Nanoseconds of(std::uint64_t n, Nanoseconds first, Nanoseconds closed) const noexcept {
    const Nanoseconds due = (from_closed ? closed : first) + after;
    return limit ? std::min(due, limit->latest(n)) : due;
  }
};

}  // namespace nanet::card
