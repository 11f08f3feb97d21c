// SPDX-License-Identifier: Apache-2.0
// Final trigger in the card: settings, counters, and the observer of its releases.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nanet/stats/counter.hpp"
#include "nanet/stats/counter_list.hpp"
#include "nanet/ttc/masks.hpp"
#include "nanet/units.hpp"

namespace nanet::card {

struct CardTriggerOptions {
  std::array<ttc::TriggerMask, ttc::Masks::count> masks{};
  Timestamp latency = 0;    // L, periods
  Timestamp min_ticks = 3;  // least distance of two triggers
  // A frame closes this many periods after its end, if its timeout has not passed before. 0: at its timeout.
  Timestamp close_ticks = 0;
};

// decisions = sent + joined + late + early + dead + choked + untimed + flushed, once the memory is empty.
// time_lost: SOBs in a burst, bunch errors, slips, losses of lock. out_of_time: packets used whose frame has
// no period within the last L.
struct CardTriggerCounts {
#define NANET_LINE(name, metric, text) stats::Counter name;
#define NANET_SKIP(name, metric, text)
  NANET_CARD_TRIGGER_COUNTERS(NANET_LINE, NANET_SKIP)
#undef NANET_SKIP
#undef NANET_LINE
  // Triggers of SOB, EOB, choke on and choke off that have left.
  std::array<stats::Counter, 4> specials;
  // Slack t + L - now of the decisions that were placed, in periods: counts by bin (register histogram).
  static constexpr unsigned slack_bins = 128;
  std::array<stats::Counter, slack_bins> slack;
  // Clock cycles of the card from the begin of period t + L on the line to the pulse; least and most.
  stats::Counter release_min, release_max;
};

class TriggerObserver {
 public:
  virtual ~TriggerObserver() = default;
  // An answer has left the card. The bytes are valid during the call only.
  virtual void answered(std::span<const std::byte> packet) noexcept = 0;
  // The card has released a trigger for period t of a burst, at t + L. Called in the card's thread.
  virtual void released(std::uint8_t burst, Timestamp t, std::uint8_t kind) noexcept = 0;
  virtual void flush() noexcept = 0;
};

}  // namespace nanet::card
