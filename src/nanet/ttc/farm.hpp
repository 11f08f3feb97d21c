// SPDX-License-Identifier: Apache-2.0
// Event builder of the farm: every board answers every trigger once. Fixed memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/mep.hpp"
#include "nanet/wire/trigger.hpp"

namespace nanet::ttc {

class Farm {
 public:
  // boards: 1 to 8; open: events that may be open at once, a power of two. Throws std::invalid_argument that
  // names value and remedy.
  Farm(unsigned boards, std::size_t open = 1 << 16);

  struct Counts {
    std::uint64_t triggered = 0;    // events sent to the boards
    std::uint64_t complete = 0;     // answered by every board once
    std::uint64_t incomplete = 0;   // given up with boards missing
    std::uint64_t twice = 0;        // answers of a board that had answered
    std::uint64_t untriggered = 0;  // answers for an event that was not triggered, or is given up
    std::uint64_t wrong_time = 0;   // answers with another timestamp than the trigger's
    std::uint64_t refused = 0;      // packets refused, see refusals()
    std::uint64_t empty = 0;        // complete events without a fragment
    std::uint64_t bytes = 0;        // data of the answers that were taken
  };
  // Event that is given up or replaced, in order of number.
  struct Closed {
    std::uint8_t burst = 0;
    Lsb time = 0;  // of the trigger, since SOB
    bool complete = false;
  };
  void on_closed(std::function<void(const Closed&)> hook) { hook_ = std::move(hook); }

  void triggered(std::uint32_t number, Timestamp timestamp, std::uint8_t burst = 0,
                 FineTime fine = 0) noexcept;
  // One packet of a board.
  wire::mep::Refusal receive(std::span<const std::byte> packet) noexcept;
  // Gives up all open events, at the end of a burst.
  void end() noexcept;
  const Counts& counts() const noexcept { return counts_; }
  std::span<const std::uint64_t> refusals() const noexcept { return refusals_; }
  std::span<const std::uint64_t> answers() const noexcept { return answers_; }  // per board

 private:
  struct Slot {
    std::uint32_t number = 0;
    Timestamp timestamp = 0;
    std::uint32_t bytes = 0;
    FineTime fine = 0;
    std::uint8_t burst = 0;
    std::uint8_t answered = 0;  // mask of boards
    bool open = false, done = false;
  };
  void close(Slot& slot) noexcept;
  unsigned boards_;
  std::uint32_t next_ = 0;  // after the last event triggered
  std::function<void(const Closed&)> hook_;
  std::vector<Slot> slots_;
  std::vector<wire::mep::Event> events_;
  std::vector<std::uint64_t> refusals_, answers_;
  Counts counts_;
};

}  // namespace nanet::ttc
