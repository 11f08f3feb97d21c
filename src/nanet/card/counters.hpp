// SPDX-License-Identifier: Apache-2.0
// Counters of a card. One writer (the card's thread), any number of concurrent readers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "nanet/stats/counter.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

using stats::Counter;

// Reasons why sound packets are not used, and packets that never arrived. The first reason that applies is
// counted (docs/formats.md, Refusals).
enum class Lost : std::uint8_t {
  late,
  duplicate,
  replayed_sequence,
  unconfirmed_jump,
  overrun,
  segment_overflow,
  missing,
  socket_overflow,
};
inline constexpr std::size_t lost_count = 8;
inline constexpr std::array<std::string_view, lost_count> lost_names = {
    "late",    "duplicate",        "replayed_sequence", "unconfirmed_jump",
    "overrun", "segment_overflow", "missing",           "socket_overflow"};

struct Counters {
  Counter packets_in, packets_used, burst_markers, bytes_in;
  Counter events_in, hits_in;  // fragments of the packets used, and their hits
  std::array<Counter, wire::mgp::refusal_count> bad;
  std::array<Counter, lost_count> lost;
  Counter bursts;
  Counter frames_in, frames_out, frames_answered, frames_late;
  Counter frames_skipped, frames_incomplete, frames_overrun;
  Counter answers_after_deadline;  // answers posted after their frame was answered header-only
  Counter send_errors, bad_descriptors, events_dropped;
};

}  // namespace nanet::card
