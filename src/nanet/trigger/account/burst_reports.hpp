// SPDX-License-Identifier: Apache-2.0
// Burst reports: counts since the previous report, complete when the last frame of a burst has been answered.
// The sum of all reports is the account of the run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nanet/card/frame_table.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/trigger/account/accounting.hpp"
#include "nanet/trigger/build/conditions.hpp"
#include "nanet/trigger/live/choke.hpp"

namespace nanet::trigger {

struct BurstReport {
  bool rest = false;  // counts after the last burst, outside all bursts
  card::BurstEnded burst;
  Nanoseconds began = 0, ended = 0;  // begin in the receiver; last answer
  Account counts;                    // since the previous report
  std::uint64_t choke_raised = 0;
  Nanoseconds choke_time = 0;
  std::string conditions;  // name of the active conditions
  // Stage total: p50, p90, p99, p99.9, p99.99, max in ns, and the number of values n; n 0: none, or not kept.
  std::array<double, 6> latency{};
  std::uint64_t latency_n = 0;
};

// Observer of receiver and sender in the card's thread, called before the accounting.
class BurstReports final : public card::FrameObserver, public card::BurstObserver {
 public:
  // conditions: may be nullptr. All arguments outlive the object.
  BurstReports(const card::Counters& card, Accounting& accounting, const Choke& choke,
               ConditionsStore* conditions);

  void burst_began(std::uint32_t number, std::uint64_t base) noexcept override;
  void burst_ended(const card::BurstEnded& burst) noexcept override;
  void passed(std::uint64_t n, card::Outcome outcome, Nanoseconds first, Nanoseconds closed,
              Nanoseconds sent) noexcept override;
  void reaped(std::uint64_t n) noexcept override { accounting_.reaped(n); }
  // Called between two rounds of the card; next: numbers below are passed. Returns true if it made a report.
  bool settle(std::uint64_t next) noexcept {
    const bool closes =
        open_.load(std::memory_order_relaxed) && pending_[0].known && next >= pending_[0].burst.end;
    if (closes) close();
    return closes;
  }
  // Called at the end of the run: everything is passed and reaped.
  void finish() noexcept;

  // Takes the reports since the last call, oldest first. One reader, any thread.
  std::vector<BurstReport> take();
  stats::Counter kept_back;  // bursts without space for a report; the next report has their counts

  // True if a burst is open; with its number.
  bool in_burst() const noexcept { return open_.load(std::memory_order_relaxed) != 0; }
  std::uint32_t number() const noexcept { return number_.load(std::memory_order_relaxed); }

 private:
  struct Pending {
    card::BurstEnded burst;
    Nanoseconds began = 0;
    bool known = false;  // last frame is fixed
    std::shared_ptr<const Conditions> conditions;
  };
  struct Entry {
    BurstReport report;
    std::shared_ptr<const Conditions> conditions;
    std::unique_ptr<stats::Histogram> total;
  };
  static constexpr std::size_t most_pending = 8, entries = 16;

  void close() noexcept;
  void hand_over(const Pending& pending, bool rest) noexcept;
  Account now() const noexcept;

  const card::Counters& card_;
  Accounting& accounting_;
  const Choke& choke_;
  ConditionsStore* conditions_;
  std::array<Pending, most_pending> pending_;  // oldest first; open_ entries
  std::atomic<std::uint32_t> open_{0}, number_{0};
  std::uint64_t frames_ = 0, answered_ = 0, late_ = 0;  // passed since the previous report
  std::uint64_t next_ = 0;                              // numbers below are passed
  Account before_;
  std::uint64_t before_raised_ = 0;
  Nanoseconds before_choked_ = 0, last_sent_ = 0;
  std::unique_ptr<stats::Histogram> total_;
  std::vector<Entry> ring_;
  std::atomic<std::uint64_t> written_{0}, taken_{0};
};

}  // namespace nanet::trigger
