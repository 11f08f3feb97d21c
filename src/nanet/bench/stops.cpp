// SPDX-License-Identifier: Apache-2.0
#include "nanet/bench/stops.hpp"

#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::bench {

StopProbe::~StopProbe() {
  stop();
}

void StopProbe::start() {
  stop();
  pinned_ = running_ = false;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!pinned_ && !stop.stop_requested()) os::spin();  // the move to its core is no stop
    const Nanoseconds began = os::monotonic_now();
    running_ = true;
    running_.notify_one();
    Nanoseconds last = began;
    do {
      const Nanoseconds now = os::monotonic_now();
      record_.gap(last, now);
      last = now;
    } while (!stop.stop_requested());
    record_.ran(last - began);
  });
  if (cpu_ >= 0) os::pin_thread(thread_.native_handle(), cpu_);
  pinned_ = true;
  running_.wait(false);
}

void StopProbe::stop() {
  thread_ = {};  // requests the end and joins
}

}  // namespace nanet::bench
