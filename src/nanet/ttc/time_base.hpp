// SPDX-License-Identifier: Apache-2.0
// TTC time of a host: local nanoseconds to periods since SOB, from an exact start, sync datagrams or PTP. It
// never steps. A source that jumps by more than a microsecond makes the burst untimed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "nanet/units.hpp"

namespace nanet::ttc {

// NA62's clock: 961.883 MHz / 24. A start value; sources measure the rate.
inline constexpr double nominal_period_ns = 24e3 / 961.883;

// Piecewise linear map that is continuous and strictly increasing within a burst. One writer.
class TimeBase {
 public:
  static constexpr double max_jump_ns = 1000;
  static constexpr double max_ppm = 200;  // larger rate differences count as a jump
  static constexpr unsigned block_syncs =
      64;  // the earliest of a block represents it: 26 ms of sync datagrams
  static constexpr unsigned acquire_blocks = 2;
  static constexpr unsigned line_blocks = 8;    // the rate is measured over these
  static constexpr unsigned behind_blocks = 4;  // so many late blocks in a row are a jump, fewer are delay

  // nominal_ns: a period before its rate is measured; longer for an experiment that runs slowly.
  explicit TimeBase(double nominal_ns = nominal_period_ns) noexcept
      : nominal_(nominal_ns), slope_(nominal_ns), period_(nominal_ns) {}

  // Exact start: `sob` is the local time of period 0. Timed at once.
  void begin(std::uint8_t burst, Nanoseconds sob, double period_ns = nominal_period_ns) noexcept;
  // Start of unknown delay: untimed until two blocks of syncs.
  void begin_untimed(std::uint8_t burst) noexcept;
  // The source was at `periods` not later than local time `at`. Delays are positive: a line through the syncs
  // of least delay is followed, by slewing.
  void sync(double periods, Nanoseconds at) noexcept;
  // Corrects the start of a burst that began with begin(): the source's present reading of period 0.
  void correct(Nanoseconds sob) noexcept;

  bool timed() const noexcept { return timed_; }
  // The source jumped in this burst.
  bool jumped() const noexcept { return jumped_; }
  std::uint8_t burst() const noexcept { return burst_; }
  double period_ns() const noexcept { return period_; }
  // Difference between source and this time base at the last correction, in ns.
  double error_ns() const noexcept { return error_; }

  // Period of a local time; nothing while untimed or before the SOB.
  std::optional<Timestamp> at(Nanoseconds now) const noexcept;
  // Local time of a period; valid while timed.
  Nanoseconds local(Timestamp period) const noexcept;

 private:
  struct Point {
    double periods = 0;
    Nanoseconds at = 0;
  };
  void end_block() noexcept;
  void steer(Nanoseconds now, double periods, double period_ns) noexcept;
  double periods_at(Nanoseconds now) const noexcept;

  std::uint8_t burst_ = 0;
  bool timed_ = false, jumped_ = false, exact_ = false;
  Nanoseconds anchor_ = 0;  // local time of anchor_periods_
  double nominal_, anchor_periods_ = 0, slope_, period_, error_ = 0;
  std::array<Point, line_blocks> blocks_{};  // the earliest sync of each block, the newest last
  Point best_{};
  double best_residual_ = 0;
  unsigned in_block_ = 0, blocks_done_ = 0, behind_ = 0;
  bool rate_measured_ = false;
};

// Sync datagram, 32 B, one every 64 frames (docs/formats.md).
struct Sync {
  std::uint8_t burst = 0;
  bool in_burst = false;
  std::uint64_t period = 0;
  std::int64_t sent_ns = 0;  // sender's TAI
  std::uint32_t sequence = 0;
  bool operator==(const Sync&) const = default;
};
inline constexpr std::size_t sync_bytes = 32;
inline constexpr std::uint32_t sync_magic = 0x53435454;  // "TTCS"
void encode(std::span<std::byte, sync_bytes> out, const Sync& sync) noexcept;

enum class SyncRefusal : std::uint8_t { wrong_length, bad_magic, bad_version, reserved_bits, none };
inline constexpr std::size_t sync_refusal_count = static_cast<std::size_t>(SyncRefusal::none);
std::string_view name(SyncRefusal refusal);
SyncRefusal decode(std::span<const std::byte> datagram, Sync& sync) noexcept;

// Sources: each feeds one TimeBase.

// Virtual: one process owns SOB and rate and shares them.
class VirtualSource {
 public:
  VirtualSource(TimeBase& time, double period_ns = nominal_period_ns) noexcept
      : time_(time), period_(period_ns) {}
  void start_of_burst(std::uint8_t burst, Nanoseconds sob) noexcept { time_.begin(burst, sob, period_); }

 private:
  TimeBase& time_;
  double period_;
};

// Datagrams: counts what it refuses; a new burst number begins a burst.
class DatagramSource {
 public:
  explicit DatagramSource(TimeBase& time) noexcept : time_(time) {}
  // `arrived`: CLOCK_MONOTONIC of the datagram.
  SyncRefusal receive(std::span<const std::byte> datagram, Nanoseconds arrived) noexcept;
  const std::array<std::uint64_t, sync_refusal_count + 1>& counts() const noexcept { return counts_; }

 private:
  TimeBase& time_;
  bool begun_ = false;
  std::array<std::uint64_t, sync_refusal_count + 1> counts_{};
};

// Sync datagrams of a host with the same CLOCK_TAI: this host, or one kept by ptp4l and phc2sys. Each is a
// reading of the source's time, so that delays have no effect.
class TaiSource {
 public:
  explicit TaiSource(TimeBase& time, double period_ns = nominal_period_ns) noexcept
      : time_(time), period_(period_ns) {}
  // A reading off by more than a microsecond makes the rest of the burst untimed.
  void receive(const Sync& sync, Nanoseconds tai_minus_monotonic) noexcept;

 private:
  TimeBase& time_;
  double period_;
  bool begun_ = false, jumped_ = false;
};

// PTP: SOB in TAI, the host's CLOCK_TAI held by ptp4l and phc2sys.
class PtpSource {
 public:
  explicit PtpSource(TimeBase& time, double period_ns = nominal_period_ns) noexcept
      : time_(time), period_(period_ns) {}
  // tai_minus_monotonic: see tai_offset(). Call poll() about every 100 ms within the burst.
  void start_of_burst(std::uint8_t burst, std::int64_t sob_tai, Nanoseconds tai_minus_monotonic) noexcept {
    sob_tai_ = sob_tai;
    time_.begin(burst, sob_tai - tai_minus_monotonic, period_);
  }
  void poll(Nanoseconds tai_minus_monotonic) noexcept { time_.correct(sob_tai_ - tai_minus_monotonic); }

 private:
  TimeBase& time_;
  double period_;
  std::int64_t sob_tai_ = 0;
};
// CLOCK_TAI - CLOCK_MONOTONIC, the tightest of three readings.
Nanoseconds tai_offset() noexcept;

}  // namespace nanet::ttc
