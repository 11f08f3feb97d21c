// SPDX-License-Identifier: Apache-2.0
// Accounting of a run: every incoming packet, frame and event is accounted for (docs/formats.md, The
// account).
#pragma once

#include <array>
#include <cstdint>

#include "nanet/card/answer_deadline.hpp"
#include "nanet/card/counters.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/stats/counter_list.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/decide/downscale.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::trigger {

#define NANET_LINE(name, from, to) name,
enum class Stage : std::uint8_t { NANET_STAGES(NANET_LINE) };
#undef NANET_LINE

// Observer in the card's thread: sums the traces of passed numbers, fills the latency histograms, and checks
// the identities during the run.
class Accounting final : public card::FrameObserver {
 public:
  // deadline: of the frames, 0 for none; from_closed: it counts from the receive event.
  Accounting(const card::Counters& card, TraceTable& traces, std::int32_t window_lsb,
             Nanoseconds deadline = 0, bool from_closed = false)
      : card_(card), traces_(traces), window_(window_lsb), deadline_{deadline, from_closed, nullptr} {}
  // The limit of the card's answers.
  void limit_answers(const card::AnswerLimit* limit) noexcept { deadline_.limit = limit; }

#define NANET_CARD(name, metric, text)
#define NANET_TRIGGER(name, metric, text) stats::Counter name;
  NANET_RUN_COUNTERS(NANET_CARD, NANET_TRIGGER)
#undef NANET_CARD
#undef NANET_TRIGGER
  std::array<stats::Counter, primitive_kinds> downscaled;

  void passed(std::uint64_t n, card::Outcome outcome, Nanoseconds first, Nanoseconds closed,
              Nanoseconds sent) noexcept override;
  void reaped(std::uint64_t n) noexcept override;
  // Checks the identities between two rounds of the card, when every packet is in exactly one place.
  bool check() noexcept;

  const stats::Histogram& stage(Stage s) const noexcept { return stage_[static_cast<std::size_t>(s)]; }

 private:
  void add(const Trace& trace, bool late) noexcept;
  stats::Histogram& at(Stage s) noexcept { return stage_[static_cast<std::size_t>(s)]; }

  const card::Counters& card_;
  TraceTable& traces_;
  std::int32_t window_;
  card::AnswerDeadline deadline_;
  std::array<stats::Histogram, stats::stage_count> stage_;
  Trace before_;  // of the number passed last, for events split between two frames
};

// Snapshot of all counts, with the keys of the JSON output.
struct Account {
#define NANET_LINE(name, metric, text) std::uint64_t name = 0;
  NANET_RUN_COUNTERS(NANET_LINE, NANET_LINE)
#undef NANET_LINE
  std::array<std::uint64_t, primitive_kinds> downscaled{};
  std::array<std::uint64_t, wire::mgp::refusal_count> bad{};
  std::array<std::uint64_t, card::lost_count> lost{};
  std::array<std::uint64_t, wire::not_mgp_count> not_mgp{};

  static Account of(const card::Counters& card, const Accounting& accounting);
  // Counts since `before` of the same run. lost.missing is a balance and may wrap below 0.
  Account since(const Account& before) const noexcept;
  // True if the identities at the end of docs/formats.md hold. During a run, the second fails while frames
  // are unanswered.
  bool balances() const noexcept;
};

}  // namespace nanet::trigger
