// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/burst_clock.hpp"

#include <algorithm>
#include <cmath>

#include "model.hpp"
#include "nanet/gateware/trigger_unit.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gateware {
namespace {

// Least distance of two SOBs: a whole turn of the card's latency memory, which else is cleared.
constexpr std::uint64_t sob_distance = (1u << 15) + 1024;
// Periods after t + L, for the registers on the way, and for the EOB's frame.
constexpr std::uint64_t margin = 128;
// A frame number further ahead is an error of the packet, which the card refuses or drops.
constexpr Frame largest_step = 1024;

}  // namespace

BurstClock::BurstClock(Timestamp latency, std::uint64_t now, std::uint8_t boards)
    : latency_(latency),
      start_(now),
      boards_(boards),
      line_(period_ns / sim::cycle_ns * samples_per_cycle),
      busy_until_(now) {}

std::uint64_t BurstClock::cycle_of_period(std::uint64_t period) const noexcept {
  return start_ + static_cast<std::uint64_t>(std::ceil(line_.begin_of(period) / samples_per_cycle));
}

double BurstClock::cycle_of(Timestamp timestamp, std::uint64_t cycle) const noexcept {
  const std::uint64_t begin = cycle >= sob_ ? sob_period_ : before_period_;
  return static_cast<double>(start_) + line_.begin_of(begin + timestamp) / samples_per_cycle;
}

void BurstClock::begin(std::uint8_t burst, std::uint64_t now) {
  if (known_ && !ended_) end();
  std::uint64_t from = line_.period() + 2;
  if (known_) from = std::max(from, sob_period_ + sob_distance);
  while (cycle_of_period(from) < std::max(now, busy_until_)) ++from;
  before_ = burst_;
  before_period_ = sob_period_;
  burst_ = burst;
  known_ = true;
  ended_ = false;
  seen_ = eob_ = 0;
  frames_.fill(0);
  newest_ = 0;
  sob_period_ = from;
  sob_ = cycle_of_period(from);
  line_.send({false, ttc::start_of_burst}, from);
  limit_ = sob_;
  busy_until_ = forever;
}

// After EOB time runs on for L, so that the last events are answered.
void BurstClock::end() {
  ended_ = true;
  const std::uint64_t last = sob_period_ + std::uint64_t{newest_} * periods_per_frame;
  line_.send({false, ttc::end_of_burst}, last);
  busy_until_ = cycle_of_period(last + latency_ + margin);
  limit_ = forever;
}

std::uint64_t BurstClock::packet(std::span<const std::byte> payload, std::uint64_t now) {
  if (payload.size() < wire::mgp::header_bytes) return 0;
  const wire::mgp::Header header = wire::mgp::decode_header(payload.data());
  std::uint64_t& last = last_[header.board % max_boards];
  return last = std::max(last, arrival(header, now));
}

std::uint64_t BurstClock::arrival(const wire::mgp::Header& header, std::uint64_t now) {
  const bool sob = header.has(wire::mgp::flag::sob);
  if (!known_ || static_cast<std::int8_t>(header.burst - burst_) > 0) {
    if (sob)
      begin(header.burst, now);
    else if (known_ && !ended_)
      end();  // the next burst has begun without SOB, and is untimed
  }
  if (!known_ || header.burst != burst_) return 0;
  const unsigned board = header.board % max_boards;  // a merged stream: 7
  const auto bit = static_cast<std::uint8_t>(1u << board);
  seen_ = static_cast<std::uint8_t>(seen_ | bit);
  if (sob) return sob_;
  if (header.frame >= newest_ + largest_step) return 0;
  if (!ended_) {
    frames_[board] = std::max(frames_[board], header.frame + 1);
    newest_ = std::max(newest_, frames_[board]);
    advance();
    if (header.has(wire::mgp::flag::eob)) eob_ = static_cast<std::uint8_t>(eob_ | bit);
    if (eob_ == seen_) end();
  }
  return cycle_of_period(sob_period_ + std::uint64_t{header.frame + 1} * periods_per_frame);
}

void BurstClock::advance() noexcept {
  Frame least = newest_;
  for (unsigned board = 0; board < max_boards; ++board)
    if ((seen_ | boards_) >> board & 1) least = std::min(least, frames_[board]);
  least = std::max(least, newest_ - std::min(newest_, patience));
  if (least > lead)
    limit_ = std::max(limit_, cycle_of_period(sob_period_ + std::uint64_t{least - lead} * periods_per_frame));
}

}  // namespace nanet::gateware
