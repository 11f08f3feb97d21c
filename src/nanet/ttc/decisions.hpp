// SPDX-License-Identifier: Apache-2.0
// Final decisions: triggers of the primitives of a frame, by masks, with joining, dead time and event
// numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nanet/ttc/masks.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/mtp.hpp"
#include "nanet/wire/trigger.hpp"

namespace nanet::ttc {

class Decisions {
 public:
  // min_ticks: least distance of two triggers in periods, at least 1.
  Decisions(const std::array<TriggerMask, Masks::count>& masks, Timestamp min_ticks) noexcept
      : masks_(masks), min_ticks_(min_ticks) {}

  // decisions = sent + joined + dead.
  struct Counts {
    std::uint64_t primitives = 0;  // received
    std::uint64_t decisions = 0;   // a mask passed
    std::uint64_t sent = 0;
    std::uint64_t joined = 0;   // same period as the trigger before: types ORed
    std::uint64_t dead = 0;     // closer than min_ticks
    std::uint64_t outside = 0;  // primitives of another frame than their packet's
    bool operator==(const Counts&) const = default;
  };

  // SOB: the dead time of the burst before has passed.
  void begin() noexcept { any_ = false; }
  // Triggers of the next frame in order of time; valid until the next call.
  std::span<const wire::trigger::Trigger> frame(
      Frame frame, std::span<const wire::mtp::TimedPrimitive> primitives) noexcept {
    unsigned used = 0;
    for (const wire::mtp::TimedPrimitive& primitive : primitives) {
      ++counts_.primitives;
      if (primitive.time / lsb_per_frame != frame) {
        ++counts_.outside;
        continue;
      }
      const auto kind = masks_.decide(primitive.id);
      if (!kind) continue;
      ++counts_.decisions;
      const auto timestamp = static_cast<Timestamp>(primitive.time / lsb_per_period);
      if (any_ && timestamp == last_ && used > 0) {
        triggers_[used - 1].kind |= *kind;
        ++counts_.joined;
      } else if (any_ && timestamp - last_ < min_ticks_) {
        ++counts_.dead;
      } else {
        triggers_[used++] = {timestamp, *kind, static_cast<FineTime>(primitive.time % lsb_per_period),
                             static_cast<std::uint16_t>(counts_.sent++)};
        last_ = timestamp;
        any_ = true;
      }
    }
    return std::span(triggers_).first(used);
  }
  const Counts& counts() const noexcept { return counts_; }

 private:
  Masks masks_;
  Timestamp min_ticks_;
  std::array<wire::trigger::Trigger, periods_per_frame> triggers_{};
  Timestamp last_ = 0;
  bool any_ = false;
  Counts counts_;
};

}  // namespace nanet::ttc
