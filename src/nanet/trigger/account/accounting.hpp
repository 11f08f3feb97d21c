// SPDX-License-Identifier: Apache-2.0
// The account: every packet, frame and event that enters is found again on the way out (docs/formats.md, The
// account).
#pragma once

#include <array>
#include <cstdint>

#include "nanet/card/counters.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/decide/downscale.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::trigger {

enum class Stage : std::uint8_t { gather, queue, build, reconstruct, post, send, total };
inline constexpr std::size_t stage_count = 7;
inline constexpr std::array<std::string_view, stage_count> stage_names = {
    "gather", "queue", "build", "reconstruct", "post", "send", "total"};

// Follows the card in its own thread: adds up the traces of the numbers it passes, fills the latency
// histograms, and checks the identities while it runs.
class Accounting final : public card::FrameObserver {
 public:
  Accounting(const card::Counters& card, TraceTable& traces, std::int32_t window_lsb)
      : card_(card), traces_(traces), window_(window_lsb) {}

  stats::Counter events_built, primitives_out, below_min_hits, mtp_overflow, in_late_frames, rings,
      duplicate_hits, split_at_frame_edge, masked_hits;
  std::array<stats::Counter, primitive_kinds> downscaled;
  stats::Counter checks, violations;  // of the identities, while running

  void passed(std::uint64_t n, card::Outcome outcome, Nanoseconds first, Nanoseconds closed,
              Nanoseconds sent) noexcept override;
  void reaped(std::uint64_t n) noexcept override;
  // Between two rounds of the card, when every packet is in exactly one place.
  bool check() noexcept;

  const stats::Histogram& stage(Stage s) const noexcept { return stage_[static_cast<std::size_t>(s)]; }

 private:
  void add(const Trace& trace, bool late) noexcept;
  stats::Histogram& at(Stage s) noexcept { return stage_[static_cast<std::size_t>(s)]; }

  const card::Counters& card_;
  TraceTable& traces_;
  std::int32_t window_;
  std::array<stats::Histogram, stage_count> stage_;
  Trace before_;  // of the number passed last, for events split at the edge between the two
};

// A copy of all counts, as the JSON says them.
struct Account {
  std::uint64_t packets_in = 0, packets_used = 0, burst_markers = 0, bytes_in = 0;
  std::uint64_t events_in = 0, events_built = 0, hits_in = 0, rings = 0, primitives_out = 0;
  std::uint64_t below_min_hits = 0, mtp_overflow = 0, in_late_frames = 0;
  std::uint64_t frames_in = 0, frames_out = 0, frames_answered = 0, frames_late = 0;
  std::uint64_t frames_skipped = 0, frames_incomplete = 0, frames_overrun = 0;
  std::uint64_t duplicate_hits = 0, split_at_frame_edge = 0, masked_hits = 0, bursts = 0;
  std::array<std::uint64_t, primitive_kinds> downscaled{};
  std::uint64_t answers_after_deadline = 0, send_errors = 0, bad_descriptors = 0, events_dropped = 0;
  std::uint64_t account_checks = 0, account_violations = 0;
  std::array<std::uint64_t, wire::mgp::refusal_count> bad{};
  std::array<std::uint64_t, card::lost_count> lost{};
  std::array<std::uint64_t, wire::not_mgp_count> not_mgp{};

  static Account of(const card::Counters& card, const Accounting& accounting);
  // What was counted since `before` of the same run. lost.missing is a balance: it may wrap below 0.
  Account since(const Account& before) const noexcept;
  // The identities at the end of docs/formats.md. While running, frames that are still owed keep the second
  // one open.
  bool balances() const noexcept;
};

}  // namespace nanet::trigger
