// SPDX-License-Identifier: Apache-2.0
// Experiment's time of the simulated card: TTC line, the time of every packet, and how far the card may run.
// The card's clock follows the boards: a packet of frame f reaches the card at the frame's end by TTC,
// whatever the speed of boards and simulation.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "nanet/ttc/line.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gateware {

class BurstClock {
 public:
  // now: cycle of the first call of samples(). boards: mask of those that send.
  BurstClock(Timestamp latency, std::uint64_t now, std::uint8_t boards);

  // Four samples of the line, for the next cycle of the card.
  unsigned samples() noexcept { return line_.samples(samples_per_cycle); }
  // Takes an MGP packet; returns the cycle in which it reaches the card, 0 for at once. Cycles of a board's
  // packets never decrease.
  std::uint64_t packet(std::span<const std::byte> payload, std::uint64_t now);
  // The card may run up to this cycle: later packets may still come before it.
  std::uint64_t limit() const noexcept { return limit_; }
  bool in_burst() const noexcept { return limit_ != forever; }
  // The burst is old enough for the card to stay behind the boards.
  bool behind() const noexcept { return limit_ > sob_; }
  // Triggers may be released until this cycle.
  std::uint64_t busy_until() const noexcept { return busy_until_; }
  // No packets will follow.
  void drain() {
    if (known_ && !ended_) end();
  }

  // Burst of a release at `cycle`, and the cycle in which a period of that burst begins on the line.
  std::uint8_t burst_at(std::uint64_t cycle) const noexcept { return cycle >= sob_ ? burst_ : before_; }
  double cycle_of(Timestamp timestamp, std::uint64_t cycle) const noexcept;

  // Frames by which the card stays behind the slowest board: register accesses cost cycles, too.
  static constexpr Frame lead = 8;
  // A board that is further behind the first one does not count: above a batch of the emulated boards.
  static constexpr Frame patience = 64;

 private:
  static constexpr unsigned samples_per_cycle = 4;
  static constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t arrival(const wire::mgp::Header& header, std::uint64_t now);
  void begin(std::uint8_t burst, std::uint64_t now);
  void end();
  void advance() noexcept;
  std::uint64_t cycle_of_period(std::uint64_t period) const noexcept;

  Timestamp latency_;
  std::uint64_t start_;  // cycle of the first sample
  std::uint8_t boards_;  // mask
  ttc::Line line_;
  bool known_ = false, ended_ = false;
  std::uint8_t burst_ = 0, before_ = 0;
  std::uint8_t seen_ = 0, eob_ = 0;                   // masks of the boards
  std::uint64_t sob_period_ = 0, before_period_ = 0;  // of this burst, of the one before
  std::uint64_t sob_ = 0;                             // its cycle
  std::array<Frame, max_boards> frames_{};            // of each board in this burst
  std::array<std::uint64_t, max_boards> last_{};      // cycle of each board's last packet
  Frame newest_ = 0;                                  // most of them
  std::uint64_t limit_ = forever, busy_until_;
};

}  // namespace nanet::gateware
