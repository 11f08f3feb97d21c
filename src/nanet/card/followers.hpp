// SPDX-License-Identifier: Apache-2.0
// Who follows what a card receives, beside its consumers: bursts as they begin and end, and a copy of every
// packet. Called in the card's thread; must not block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nanet/units.hpp"

namespace nanet::card {

// What fixed the last frame of a burst (docs/formats.md, Bursts).
enum class BurstEnd : std::uint8_t { eob, silence, next_burst, drain };
inline constexpr std::array<std::string_view, 4> burst_end_names = {"eob", "silence", "next_burst", "drain"};

struct BurstEnded {
  std::uint32_t number = 0;         // wraps counted
  std::uint64_t base = 0, end = 0;  // its numbers n: base <= n < end
  std::uint8_t sob = 0, eob = 0;    // boards that sent them
  BurstEnd how = BurstEnd::eob;
};

class BurstFollower {
 public:
  virtual ~BurstFollower() = default;
  // Before the event that tells the consumers; base: n of its frame 0.
  virtual void burst_began(std::uint32_t number, std::uint64_t base) noexcept = 0;
  // All its frames are closed; not all of them need be answered.
  virtual void burst_ended(const BurstEnded& burst) noexcept = 0;
};

class Tap {
 public:
  virtual ~Tap() = default;
  // refused: counted in bad_packets. The bytes are valid during the call.
  virtual void packet(std::span<const std::byte> datagram, bool refused, Nanoseconds stamp) noexcept = 0;
};

}  // namespace nanet::card
