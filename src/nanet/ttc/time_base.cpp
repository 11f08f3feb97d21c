// SPDX-License-Identifier: Apache-2.0
// TTC time base: line of least delay, slewing, sync datagrams, TAI offset.
#include "nanet/ttc/time_base.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

namespace nanet::ttc {

namespace {

// A correction is spread over this time.
constexpr double slew_ns = 20e6;

}  // namespace

void TimeBase::begin(std::uint8_t burst, Nanoseconds sob, double period_ns) noexcept {
  burst_ = burst;
  timed_ = true;
  jumped_ = false;
  exact_ = true;
  anchor_ = sob;
  anchor_periods_ = 0;
  slope_ = period_ = period_ns;
  error_ = 0;
  in_block_ = blocks_done_ = 0;
}

void TimeBase::begin_untimed(std::uint8_t burst) noexcept {
  const double measured = period_;
  begin(burst, 0, measured);
  timed_ = exact_ = false;
}

double TimeBase::periods_at(Nanoseconds now) const noexcept {
  return anchor_periods_ + static_cast<double>(now - anchor_) / slope_;
}

std::optional<Timestamp> TimeBase::at(Nanoseconds now) const noexcept {
  if (!timed_) return std::nullopt;
  const double periods = periods_at(now);
  if (periods < 0 || periods >= 4294967296.0) return std::nullopt;
  return static_cast<Timestamp>(periods);
}

Nanoseconds TimeBase::local(Timestamp period) const noexcept {
  return anchor_ + std::llround((static_cast<double>(period) - anchor_periods_) * slope_);
}

// Continues at the present value with a slope that meets the source's line in slew_ns.
void TimeBase::steer(Nanoseconds now, double periods, double period_ns) noexcept {
  const double present = periods_at(now);
  error_ = (periods - present) * period_ns;
  if (std::abs(error_) > max_jump_ns) {
    timed_ = false;
    jumped_ = true;
    return;
  }
  anchor_ = now;
  anchor_periods_ = present;
  period_ = period_ns;
  slope_ = slew_ns / (slew_ns / period_ns + (periods - present));
}

void TimeBase::correct(Nanoseconds sob) noexcept {
  if (!timed_ || !exact_) return;
  // Evaluated at the anchor's successor, one slew time on, or at the SOB itself for the first correction.
  const Nanoseconds now = std::max(anchor_, sob) + static_cast<Nanoseconds>(slew_ns);
  steer(now, static_cast<double>(now - sob) / period_, period_);
}

void TimeBase::sync(double periods, Nanoseconds at) noexcept {
  if (jumped_) return;
  const double residual = static_cast<double>(at) - periods * period_;
  if (in_block_ == 0 || residual < best_residual_) {
    best_residual_ = residual;
    best_ = {periods, at};
  }
  if (++in_block_ == block_syncs) end_block();
}

void TimeBase::end_block() noexcept {
  in_block_ = 0;
  std::move(blocks_.begin() + 1, blocks_.end(), blocks_.begin());
  blocks_.back() = best_;
  if (blocks_done_ < line_blocks) ++blocks_done_;
  if (blocks_done_ < acquire_blocks) return;
  const Point& newest = blocks_.back();
  const Point& oldest = blocks_[line_blocks - blocks_done_];
  if (newest.periods <= oldest.periods) return;
  const double rate = static_cast<double>(newest.at - oldest.at) / (newest.periods - oldest.periods);
  const bool plausible = std::abs(1e6 * (rate / nominal_ - 1)) <= max_ppm;
  if (!timed_) {
    // First line of the burst, through the newest point, with the rate of the bursts before.
    if (plausible && !rate_measured_) period_ = rate;
    anchor_ = newest.at;
    anchor_periods_ = newest.periods;
    slope_ = period_;
    timed_ = true;
    behind_ = 0;
    return;
  }
  const double ahead = newest.periods - periods_at(newest.at);
  behind_ = ahead * period_ < -max_jump_ns ? behind_ + 1 : 0;
  if (ahead * period_ > max_jump_ns || behind_ == behind_blocks) {
    steer(newest.at, newest.periods, period_);
    return;
  }
  // An early point is true; a late one may be delayed and counts little.
  double period = period_;
  if (plausible && behind_ == 0 && blocks_done_ == line_blocks) {
    period += (rate_measured_ ? 0.1 : 1.0) * (rate - period_);
    rate_measured_ = true;
  }
  const double share = behind_ ? 0 : ahead > 0 ? 0.5 : 0.2;
  steer(newest.at, periods_at(newest.at) + share * ahead, period);
}

void encode(std::span<std::byte, sync_bytes> out, const Sync& sync) noexcept {
  const auto put = [&](std::size_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
  put(0, sync_magic);
  put(4, std::uint8_t{1});
  put(5, static_cast<std::uint8_t>(sync.in_burst));
  put(6, sync.burst);
  put(7, std::uint8_t{0});
  put(8, sync.period);
  put(16, sync.sent_ns);
  put(24, sync.sequence);
  put(28, std::uint32_t{0});
}

namespace {
constexpr std::array<std::string_view, sync_refusal_count + 1> sync_names = {
    "wrong_length", "bad_magic", "bad_version", "reserved_bits", "none"};
}

std::string_view name(SyncRefusal refusal) {
  return sync_names[std::min(static_cast<std::size_t>(refusal), sync_refusal_count)];
}

SyncRefusal decode(std::span<const std::byte> datagram, Sync& sync) noexcept {
  if (datagram.size() != sync_bytes) return SyncRefusal::wrong_length;
  const auto get = [&]<typename T>(std::size_t at, T value) {
    std::memcpy(&value, datagram.data() + at, sizeof value);
    return value;
  };
  if (get(0, std::uint32_t{}) != sync_magic) return SyncRefusal::bad_magic;
  if (get(4, std::uint8_t{}) != 1) return SyncRefusal::bad_version;
  const auto flags = get(5, std::uint8_t{});
  if (flags > 1 || get(7, std::uint8_t{}) != 0 || get(28, std::uint32_t{}) != 0)
    return SyncRefusal::reserved_bits;
  sync = {get(6, std::uint8_t{}), flags == 1, get(8, std::uint64_t{}), get(16, std::int64_t{}),
          get(24, std::uint32_t{})};
  return SyncRefusal::none;
}

SyncRefusal DatagramSource::receive(std::span<const std::byte> datagram, Nanoseconds arrived) noexcept {
  Sync sync;
  const SyncRefusal refusal = decode(datagram, sync);
  ++counts_[static_cast<std::size_t>(refusal)];
  if (refusal != SyncRefusal::none || !sync.in_burst) return refusal;
  if (!begun_ || sync.burst != time_.burst()) {
    time_.begin_untimed(sync.burst);
    begun_ = true;
  }
  time_.sync(static_cast<double>(sync.period), arrived);
  return refusal;
}

void TaiSource::receive(const Sync& sync, Nanoseconds tai_minus_monotonic) noexcept {
  if (!sync.in_burst || sync.period > 0xFFFF'FFFF) return;
  const Nanoseconds at = sync.sent_ns - tai_minus_monotonic;
  if (!begun_ || sync.burst != time_.burst()) {
    begun_ = true;
    jumped_ = false;
  } else if (jumped_) {
    return;
  } else if (const Nanoseconds off = at - time_.local(static_cast<Timestamp>(sync.period));
             std::abs(static_cast<double>(off)) > TimeBase::max_jump_ns) {
    jumped_ = true;
    time_.begin_untimed(sync.burst);
    return;
  }
  time_.begin(sync.burst, at - std::llround(static_cast<double>(sync.period) * period_), period_);
}

Nanoseconds tai_offset() noexcept {
  const auto read = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  Nanoseconds best = 0, tightest = 0;
  for (int i = 0; i < 3; ++i) {
    const Nanoseconds before = read(CLOCK_MONOTONIC), tai = read(CLOCK_TAI), after = read(CLOCK_MONOTONIC);
    if (i == 0 || after - before < tightest) {
      tightest = after - before;
      best = tai - (before + (after - before) / 2);
    }
  }
  return best;
}

}  // namespace nanet::ttc
