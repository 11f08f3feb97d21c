// SPDX-License-Identifier: Apache-2.0
// What a card counts. One writer (the card's thread), any number of readers while it runs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// A counter with one writer: a plain add for the writer, a clean read for everybody else.
class Counter {
 public:
  void operator+=(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void operator++() noexcept { *this += 1; }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Sound packets that cannot be used, and packets that never came in; the first that applies (docs/formats.md,
// Refusals).
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
  Counter events_in, hits_in;  // fragments, and their hits, of the packets used
  std::array<Counter, wire::mgp::refusal_count> bad;
  std::array<Counter, lost_count> lost;
  Counter bursts;
  Counter frames_in, frames_out, frames_answered, frames_late;
  Counter frames_skipped, frames_incomplete, frames_overrun;
  Counter answers_after_deadline;  // real answers that came after their frame was answered header-only
  Counter send_errors, bad_descriptors, events_dropped;
};

}  // namespace nanet::card
