// SPDX-License-Identifier: Apache-2.0
// Receive buffer of a socket, bounded under overload: a full buffer that takes longer to read than the
// deadline would make every packet late.
#pragma once

#include <algorithm>

#include "nanet/os/socket.hpp"
#include "nanet/units.hpp"

namespace nanet::card {

class ReceiveBuffer {
 public:
  static constexpr Nanoseconds patience = 200'000'000;  // longer than catching up after a stop
  static constexpr Nanoseconds relief = 2'000'000'000;
  static constexpr int least = 128 << 10;  // bytes

  // fd: a socket with its full buffer. most_age: of packets when they are read, exceeded for `patience` at
  // most; 0: no limit.
  ReceiveBuffer(int fd, Nanoseconds most_age) noexcept
      : fd_(fd), full_(os::receive_buffer(fd)), bytes_(full_), most_age_(most_age) {}

  // age: of a packet when it was read. The buffer shrinks after `patience` of packets older than most_age,
  // and is full again after `relief` of younger ones.
  void observe(Nanoseconds now, Nanoseconds age) noexcept {
    if (most_age_ <= 0) return;
    const bool old = age > most_age_;
    if (old != old_) {
      old_ = old;
      since_ = now;
    }
    if (old ? now - since_ < patience : bytes_ == full_ || now - since_ < relief) return;
    const double share = std::max(0.25, static_cast<double>(most_age_) / static_cast<double>(age));
    const int bytes = old ? std::max(static_cast<int>(share * bytes_), std::min(least, full_)) : full_;
    since_ = now;
    if (bytes == bytes_) return;
    // The kernel doubles the request.
    os::set_receive_buffer(fd_, bytes / 2);
    bytes_ = old ? os::receive_buffer(fd_) : full_;
  }
  int bytes() const noexcept { return bytes_; }

 private:
  int fd_, full_, bytes_;
  Nanoseconds most_age_, since_ = 0;
  bool old_ = false;
};

}  // namespace nanet::card
