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

// Frames without an answer in time: one of `downscale` periods with events gets a trigger of this type.
struct LatePass {
  std::uint8_t kind = 0;        // 6 bits
  std::uint32_t downscale = 0;  // 0: none
};

class Decisions {
 public:
  // min_ticks: least distance of two triggers in periods, at least 1.
  Decisions(const std::array<TriggerMask, Masks::count>& masks, Timestamp min_ticks,
            const LatePass& late = {}) noexcept
      : masks_(masks), min_ticks_(min_ticks), late_(late) {}

  // decisions = sent + joined + dead; passed is a part of decisions.
  struct Counts {
    std::uint64_t primitives = 0;  // received
    std::uint64_t decisions = 0;   // a mask passed
    std::uint64_t sent = 0;
    std::uint64_t joined = 0;   // same period as the trigger before: types ORed
    std::uint64_t dead = 0;     // closer than min_ticks
    std::uint64_t outside = 0;  // primitives of another frame than their packet's
    std::uint64_t passed = 0;   // of frames without an answer in time
    bool operator==(const Counts&) const = default;
  };

  // SOB: the dead time of the burst before has passed.
  void begin() noexcept { any_ = false; }
  // Triggers of the next frame in order of time; valid until the next call.
  std::span<const wire::trigger::Trigger> frame(
      Frame frame, std::span<const wire::mtp::TimedPrimitive> primitives) noexcept {
    used_ = 0;
    for (const wire::mtp::TimedPrimitive& primitive : primitives) {
      ++counts_.primitives;
      if (primitive.time / lsb_per_frame != frame) {
        ++counts_.outside;
        continue;
      }
      if (const auto kind = masks_.decide(primitive.id))
        decide(static_cast<Timestamp>(primitive.time / lsb_per_period),
               static_cast<FineTime>(primitive.time % lsb_per_period), *kind);
    }
    return std::span(triggers_).first(used_);
  }
  // Triggers of the next frame without an answer in time: every Nth of the periods in which it has events.
  // each_period: calls its argument with each of these periods, 0 to 255, in order. Valid until the next
  // call.
  template <class EachPeriod>
  std::span<const wire::trigger::Trigger> late_frame(Frame frame, const EachPeriod& each_period) noexcept {
    used_ = 0;
    if (late_.downscale != 0)
      each_period([&](unsigned period) {
        if (++late_periods_ < late_.downscale) return;
        late_periods_ = 0;
        ++counts_.passed;
        decide(frame * periods_per_frame + period, 0, late_.kind);
      });
    return std::span(triggers_).first(used_);
  }
  const Counts& counts() const noexcept { return counts_; }

 private:
  void decide(Timestamp timestamp, FineTime fine, std::uint8_t kind) noexcept {
    ++counts_.decisions;
    if (any_ && timestamp == last_ && used_ > 0) {
      triggers_[used_ - 1].kind |= kind;
      ++counts_.joined;
    } else if (any_ && timestamp - last_ < min_ticks_) {
      ++counts_.dead;
    } else {
      triggers_[used_++] = {timestamp, kind, fine, static_cast<std::uint16_t>(counts_.sent++)};
      last_ = timestamp;
      any_ = true;
    }
  }

  Masks masks_;
  Timestamp min_ticks_;
  LatePass late_;
  std::uint32_t late_periods_ = 0;  // since the last one that passed
  unsigned used_ = 0;               // triggers of the frame
  std::array<wire::trigger::Trigger, periods_per_frame> triggers_{};
  Timestamp last_ = 0;
  bool any_ = false;
  Counts counts_;
};

}  // namespace nanet::ttc
