// SPDX-License-Identifier: Apache-2.0
// Accounting of a run: counters, identities, stage latencies.
#include "nanet/trigger/account/accounting.hpp"

#include <algorithm>
#include <numeric>

#include "nanet/contract/atomic.hpp"

namespace nanet::trigger {
namespace {

// Terms of `lost` that are received packets; missing, socket_overflow and ring_overflow never
// arrived.
constexpr std::size_t lost_packets = static_cast<std::size_t>(card::Lost::other_node) + 1;

}  // namespace

void Accounting::add(const Trace& trace, bool late) noexcept {
  events_built += trace.events;
  below_min_hits += trace.below_min_hits;
  mtp_overflow += trace.mtp_overflow;
  rings += trace.rings;
  duplicate_hits += trace.duplicate_hits;
  masked_hits += trace.masked_hits;
  for (std::size_t k = 0; k < primitive_kinds; ++k)
    if (trace.downscaled[k]) downscaled[k] += trace.downscaled[k];
  if (late)
    in_late_frames += trace.primitives;
  else
    primitives_out += trace.primitives;
}

void Accounting::passed(std::uint64_t n, card::Outcome outcome, Nanoseconds first, Nanoseconds closed,
                        Nanoseconds sent) noexcept {
  FrameProgress& progress = traces_.progress();
  contract::relax(progress.passed, n + 1);
  const Nanoseconds due = deadline_.of(n, first, closed);
  if (first && closed)
    contract::relax(progress.lag, deadline_.any()         ? closed + deadline_.after - due
                                  : deadline_.from_closed ? 0
                                                          : closed - first);
  if (outcome != card::Outcome::answered) {
    if (first) at(Stage::total).add(sent - first);
    if (first && deadline_.any()) at(Stage::header_only).add(std::max<Nanoseconds>(sent - due, 0));
    before_.n = ~std::uint64_t{0};
    return;  // its trace, if any, is added when the buffer is returned
  }
  const Trace& t = traces_[n];
  if (t.n != n) return;  // posted by a user's application
  add(t, false);
  if (before_.n + 1 == n &&
      before_.frame + 1 == t.frame) {  // the last frame of a burst has no neighbour in the next burst
    for (unsigned i = 0; i < t.lows; ++i)
      for (unsigned j = before_.highs; j-- > 0;)  // the earliest event, as in merging
        if (t.low[i].opened + lsb_per_frame - before_.high[j].opened <= window_ &&
            !(t.low[i].boards & before_.high[j].boards)) {
          before_.high[j].boards |= t.low[i].boards;
          ++split_at_frame_edge;
          break;
        }
  }
  before_ = t;
  at(Stage::build).add(t.built - t.seen);
  at(Stage::reconstruct).add(t.reconstructed - t.built);
  at(Stage::post).add(t.posted - t.reconstructed);
  if (first == 0) return;  // a replay: recorded stamps and the current clock are unrelated
  at(Stage::gather).add(closed - first);
  at(Stage::queue).add(t.seen - closed);
  at(Stage::send).add(sent - t.posted);
  at(Stage::total).add(sent - first);
}

void Accounting::reaped(std::uint64_t n) noexcept {
  const Trace& t = traces_[n];
  if (t.n == n) add(t, true);
}

bool Accounting::check() noexcept {
  ++account_checks;
  std::uint64_t accounted = card_.packets_used + card_.burst_markers;
  for (const auto& c : card_.bad) accounted += c;
  for (std::size_t i = 0; i < lost_packets; ++i) accounted += card_.lost[i];
  const bool packets = card_.packets_in == accounted;
  const bool frames =
      card_.frames_out == card_.frames_answered + card_.frames_late && card_.frames_out <= card_.frames_in;
  std::uint64_t not_sent = below_min_hits + mtp_overflow + in_late_frames;
  for (const auto& kind : downscaled) not_sent += kind;
  const bool events = events_built == primitives_out + not_sent;
  if (packets && frames && events) return true;
  ++account_violations;
  return false;
}

Account Account::of(const card::Counters& card, const Accounting& accounting) {
  Account a;
#define NANET_CARD(name, metric, text) a.name = card.name;
#define NANET_TRIGGER(name, metric, text) a.name = accounting.name;
  NANET_RUN_COUNTERS(NANET_CARD, NANET_TRIGGER)
#undef NANET_CARD
#undef NANET_TRIGGER
  const auto copy = [](auto& to, const auto& from) { std::copy(from.begin(), from.end(), to.begin()); };
  copy(a.downscaled, accounting.downscaled);
  copy(a.bad, card.bad);
  copy(a.lost, card.lost);
  return a;
}

Account Account::since(const Account& before) const noexcept {
  Account out = *this;
#define NANET_LINE(name, metric, text) out.name -= before.name;
  NANET_RUN_COUNTERS(NANET_LINE, NANET_LINE)
#undef NANET_LINE
  const auto subtract = [](auto& from, const auto& by) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] -= by[i];
  };
  subtract(out.downscaled, before.downscaled);
  subtract(out.bad, before.bad);
  subtract(out.lost, before.lost);
  subtract(out.not_mgp, before.not_mgp);
  return out;
}

bool Account::balances() const noexcept {
  const std::uint64_t refused = std::accumulate(bad.begin(), bad.end(), std::uint64_t{0});
  const std::uint64_t unused = std::accumulate(lost.begin(), lost.begin() + lost_packets, std::uint64_t{0});
  const std::uint64_t scaled = std::accumulate(downscaled.begin(), downscaled.end(), std::uint64_t{0});
  return packets_in == packets_used + burst_markers + refused + unused && frames_in == frames_out &&
         frames_out == frames_answered + frames_late &&
         events_built == primitives_out + below_min_hits + mtp_overflow + in_late_frames + scaled &&
         account_violations == 0;
}

}  // namespace nanet::trigger
