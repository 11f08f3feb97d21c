// SPDX-License-Identifier: Apache-2.0
// Observers of a card's frames, bursts and packets, in addition to its consumers. Called in the card's
// thread; they must not block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "nanet/units.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// Outcome of a frame at the sender.
enum class Outcome : std::uint8_t { answered, late, overrun };

class FrameObserver {
 public:
  virtual ~FrameObserver() = default;
  // The sender has passed n. first: time of the first packet; closed: time of the receive event (0 for
  // overrun); sent: time after the packet left.
  virtual void passed(std::uint64_t n, Outcome outcome, Nanoseconds first, Nanoseconds closed,
                      Nanoseconds sent) noexcept = 0;
  // Called when the buffer of a late frame has been returned: the consumer's answer is final.
  virtual void reaped(std::uint64_t n) noexcept = 0;
};

class FramePeriods;

class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // Whether passed_late() is called.
  virtual bool wants_late() const noexcept { return false; }
  // n is passed late: the next packet is header-only. periods: in which the frame has events.
  virtual void passed_late(std::uint64_t, Frame, const FramePeriods&) noexcept {}
  // The packet of n has left, header-only packets included. The bytes are valid during the call only.
  virtual void sent(std::uint64_t n, std::span<const std::byte> packet) noexcept = 0;
  // End of a batch of packets.
  virtual void flush() noexcept = 0;
};

// Reason for fixing the last frame of a burst (docs/formats.md, Bursts).
enum class BurstEnd : std::uint8_t { eob, silence, next_burst, drain };
inline constexpr std::array<std::string_view, 4> burst_end_names = {"eob", "silence", "next_burst", "drain"};

struct BurstEnded {
  std::uint32_t number = 0;         // wraps counted
  std::uint64_t base = 0, end = 0;  // base <= n < end
  std::uint8_t sob = 0, eob = 0;    // masks of boards that sent SOB and EOB
  BurstEnd how = BurstEnd::eob;
};

class BurstObserver {
 public:
  virtual ~BurstObserver() = default;
  // Called before the burst_begins event is written. base: n of frame 0.
  virtual void burst_began(std::uint32_t number, std::uint64_t base) noexcept = 0;
  // All frames are closed; some may still be unanswered.
  virtual void burst_ended(const BurstEnded& burst) noexcept = 0;
};

class PacketObserver {
 public:
  virtual ~PacketObserver() = default;
  // Called for every packet. refused: counted in bad_packets. The bytes are valid during the call only.
  virtual void packet(std::span<const std::byte> datagram, bool refused, Nanoseconds stamp) noexcept = 0;
};

// Called for each packet that validation refuses, with its bytes, the reason and the time of arrival.
using RefusedPacketHook = std::function<void(std::span<const std::byte>, wire::mgp::Refusal, Nanoseconds)>;

}  // namespace nanet::card
