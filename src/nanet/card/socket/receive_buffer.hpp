// SPDX-License-Identifier: Apache-2.0
// Receive buffer of a socket under overload: a full buffer that takes longer to read than the deadline would
// make every packet late.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nanet/os/socket.hpp"
#include "nanet/units.hpp"

namespace nanet::card {

class ReceiveBuffer {
 public:
  static constexpr Nanoseconds patience = 200'000'000;
  static constexpr Nanoseconds relief = 2'000'000'000;
  static constexpr int least = 128 << 10;  // bytes
  static constexpr double nearly_full = 0.5;

  // fd: a socket with its full buffer. tolerated: age of packets when they are read, exceeded for `patience`
  // at most. hopeless: age from which no packet can be answered in time. Not above 0: no limit.
  ReceiveBuffer(int fd, Nanoseconds tolerated, Nanoseconds hopeless) noexcept
      : fd_(fd), full_(os::receive_buffer(fd)), bytes_(full_), tolerated_(tolerated), hopeless_(hopeless) {}

  // age: of a packet when it was read; arrival: its CLOCK_REALTIME (ns). Returns the datagrams discarded:
  // all older ones than tolerated of a nearly full buffer, if this one was hopeless. After a stop the card
  // would read them at its own rate, and answer late until the backlog is gone.
  std::uint64_t observe(Nanoseconds now, Nanoseconds age, std::int64_t arrival) noexcept {
    if (tolerated_ <= 0) return 0;
    std::uint64_t discarded = 0;
    if (age > hopeless_ && hopeless_ > 0 && os::receive_backlog(fd_) > nearly_full) {
      discarded = os::discard_received(fd_, arrival + (age - tolerated_));
      // Hopeless again before the relief: not a stop, an overload.
      if (now - discarded_at_ < relief) resize(age);
      discarded_at_ = now;
    } else {
      adapt(now, age);
    }
    return discarded;
  }
  int bytes() const noexcept { return bytes_; }

 private:
  // The buffer shrinks after `patience` of packets older than tolerated, and is full again after `relief` of
  // younger ones.
  void adapt(Nanoseconds now, Nanoseconds age) noexcept {
    const bool old = age > tolerated_;
    if (old != old_) {
      old_ = old;
      since_ = now;
    }
    if (old ? now - since_ < patience : bytes_ == full_ || now - since_ < relief) return;
    since_ = now;
    if (old)
      resize(age);
    else
      set(full_);
  }
  void resize(Nanoseconds age) noexcept {
    const double share = std::max(0.25, static_cast<double>(tolerated_) / static_cast<double>(age));
    set(std::max(static_cast<int>(share * bytes_), std::min(least, full_)));
  }
  void set(int bytes) noexcept {
    if (bytes == bytes_) return;
    // The kernel doubles the request.
    os::set_receive_buffer(fd_, bytes / 2);
    bytes_ = bytes == full_ ? full_ : os::receive_buffer(fd_);
  }

  int fd_, full_, bytes_;
  Nanoseconds tolerated_, hopeless_, since_ = 0, discarded_at_ = -relief;
  bool old_ = false;
};

}  // namespace nanet::card
