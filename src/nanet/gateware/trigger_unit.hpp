// SPDX-License-Identifier: Apache-2.0
// Driver of the card's final trigger (gateware/rtl/ttc/stream_trigger.sv). Registers: gateware/doc/send.md.
#pragma once

#include <cstdint>

#include "nanet/card/card_trigger.hpp"
#include "nanet/gateware/driver.hpp"

namespace nanet::gateware {

class TriggerUnit {
 public:
  explicit TriggerUnit(Driver& driver) noexcept : driver_(driver) {}

  // Ticks between the reading of a place and its release; a decision needs two more.
  static constexpr Timestamp ahead = 8;
  // Timestamp of the period in which an SOB is decoded that began in period 0: 15 periods to its stop bit, 3
  // of decoding.
  static constexpr std::uint32_t sob_offset = 18;
  // Types from here on are the unit's. It uses SOB, EOB, choke on, choke off, in this order.
  static constexpr std::uint8_t first_special = 0x20, sob = 0x22;

  // Throws std::invalid_argument, naming option and remedy, for settings that the unit cannot hold.
  static void check(const card::CardTriggerOptions& options);
  // Configures and enables the unit. Throws std::runtime_error if the card has none.
  void open(const card::CardTriggerOptions& options);
  // Stops the physics triggers until L after the withdrawal.
  void choke(bool on);
  // Time is locked, and the memory is cleared.
  bool ready();
  // Copies counters and slack histogram.
  void read(card::CardTriggerCounts& counts);

 private:
  Driver& driver_;
};

}  // namespace nanet::gateware
