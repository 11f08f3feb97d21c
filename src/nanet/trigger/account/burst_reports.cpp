// SPDX-License-Identifier: Apache-2.0
// Burst reports: counts per burst, passed to a reader in another thread.
#include "nanet/trigger/account/burst_reports.hpp"

#include <algorithm>
#include <utility>

#include "nanet/os/clock.hpp"

namespace nanet::trigger {

BurstReports::BurstReports(const card::Counters& card, Accounting& accounting, const Choke& choke,
                           ConditionsStore* conditions)
    : card_(card),
      accounting_(accounting),
      choke_(choke),
      conditions_(conditions),
      total_(std::make_unique<stats::Histogram>()),
      ring_(entries) {
  for (Entry& e : ring_) e.total = std::make_unique<stats::Histogram>();
}

void BurstReports::burst_began(std::uint32_t number, std::uint64_t base) noexcept {
  std::uint32_t open = open_.load(std::memory_order_relaxed);
  if (open == most_pending) {  // bursts outpace their answers: the oldest one's counts go to the next report
    std::move(pending_.begin() + 1, pending_.end(), pending_.begin());
    --open;
    ++kept_back;
  }
  pending_[open] = Pending{};
  pending_[open].burst.number = number;
  pending_[open].burst.base = base;
  pending_[open].began = os::monotonic_now();
  if (conditions_) {
    conditions_->burst_began(base, next_);
    pending_[open].conditions = conditions_->current();
  }
  number_.store(number, std::memory_order_relaxed);
  open_.store(open + 1, std::memory_order_relaxed);
}

void BurstReports::burst_ended(const card::BurstEnded& burst) noexcept {
  const std::uint32_t open = open_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < open; ++i)
    if (pending_[i].burst.base == burst.base && pending_[i].burst.number == burst.number) {
      pending_[i].burst = burst;
      pending_[i].known = true;
    }
}

void BurstReports::passed(std::uint64_t n, card::Outcome outcome, Nanoseconds first, Nanoseconds closed,
                          Nanoseconds sent) noexcept {
  // Reaching the first number of the next burst completes the previous one, whatever has been received since.
  while (true) {
    const std::uint32_t open = open_.load(std::memory_order_relaxed);
    const bool over = (open > 0 && pending_[0].known && n >= pending_[0].burst.end) ||
                      (open > 1 && n >= pending_[1].burst.base);
    if (!over) break;
    close();
  }
  accounting_.passed(n, outcome, first, closed, sent);
  ++frames_;
  ++(outcome == card::Outcome::answered ? answered_ : late_);
  last_sent_ = sent;
  next_ = n + 1;
  if (first) total_->add(sent - first);
}

void BurstReports::close() noexcept {
  hand_over(pending_[0], false);
  const std::uint32_t open = open_.load(std::memory_order_relaxed) - 1;
  std::move(pending_.begin() + 1, pending_.end(), pending_.begin());
  open_.store(open, std::memory_order_relaxed);
}

Account BurstReports::now() const noexcept {
  return Account::of(card_, accounting_);
}

void BurstReports::hand_over(const Pending& pending, bool rest) noexcept {
  const std::uint64_t at = written_.load(std::memory_order_relaxed);
  // No space for a report: the counts go into a later one. The last entry is reserved for the rest.
  if (at - taken_.load(std::memory_order_acquire) >= entries - (rest ? 0 : 1)) {
    ++kept_back;
    return;
  }
  const Account account = now();
  Entry& entry = ring_[at % entries];
  BurstReport& report = entry.report;
  report.rest = rest;
  report.burst = pending.burst;
  report.began = pending.began;
  report.ended = last_sent_;
  report.counts = account.since(before_);
  // The next burst may have open frames, or its first frame may just be passing.
  report.counts.frames_in = report.counts.frames_out = frames_;
  report.counts.frames_answered = answered_;
  report.counts.frames_late = late_;
  report.choke_raised = choke_.raised - before_raised_;
  report.choke_time = choke_.time() - before_choked_;
  entry.conditions = pending.conditions;
  std::swap(entry.total, total_);
  before_ = account;
  before_raised_ = choke_.raised;
  before_choked_ = choke_.time();
  frames_ = answered_ = late_ = 0;
  last_sent_ = 0;
  written_.store(at + 1, std::memory_order_release);
}

void BurstReports::finish() noexcept {
  while (open_.load(std::memory_order_relaxed)) close();
  const Account left = now().since(before_);
  std::uint64_t lost = 0;
  for (const std::uint64_t l : left.lost) lost |= l;
  if (frames_ || left.packets_in || left.events_built || lost) hand_over(Pending{}, true);
}

std::vector<BurstReport> BurstReports::take() {
  static constexpr std::array<double, 5> shares = {0.5, 0.9, 0.99, 0.999, 0.9999};
  std::vector<BurstReport> out;
  std::uint64_t at = taken_.load(std::memory_order_relaxed);
  for (; at != written_.load(std::memory_order_acquire); ++at) {
    Entry& entry = ring_[at % entries];
    BurstReport report = entry.report;
    if (entry.conditions) report.conditions = entry.conditions->name;
    entry.conditions.reset();
    for (std::size_t i = 0; i < shares.size(); ++i) report.latency[i] = entry.total->percentile(shares[i]);
    report.latency[5] = static_cast<double>(entry.total->max());
    report.latency_n = entry.total->count();
    entry.total->clear();
    out.push_back(std::move(report));
    taken_.store(at + 1, std::memory_order_release);
  }
  return out;
}

}  // namespace nanet::trigger
