// SPDX-License-Identifier: Apache-2.0
// Trigger masks: primitive ID to trigger decision, with downscaling. Same rule as
// gateware/rtl/ttc/trigger_tap.sv.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace nanet::ttc {

struct TriggerMask {
  std::uint16_t care = 0;
  std::uint16_t value = 0;
  std::uint8_t kind = 0;        // 6 bits
  std::uint32_t downscale = 0;  // every n-th match passes; 0: mask off
};

class Masks {
 public:
  static constexpr unsigned count = 16;
  explicit Masks(const std::array<TriggerMask, count>& masks) noexcept : masks_(masks) {}

  // Types of all masks that pass, ORed; nothing if none passes.
  std::optional<std::uint8_t> decide(std::uint16_t id) noexcept {
    bool any = false;
    std::uint8_t kind = 0;
    for (unsigned i = 0; i < count; ++i) {
      const TriggerMask& mask = masks_[i];
      if (mask.downscale == 0 || (id & mask.care) != mask.value) continue;
      if (++matches_[i] < mask.downscale) continue;
      matches_[i] = 0;
      any = true;
      kind = static_cast<std::uint8_t>(kind | mask.kind);
    }
    return any ? std::optional{kind} : std::nullopt;
  }

 private:
  std::array<TriggerMask, count> masks_;
  std::array<std::uint32_t, count> matches_{};
};

}  // namespace nanet::ttc
