// SPDX-License-Identifier: Apache-2.0
// Stops of a bare spinning loop: record and thread.
#include "nanet/bench/stops.hpp"

#include <algorithm>

#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::bench {

void GapRecord::gap(Nanoseconds begin, Nanoseconds end) {
  const Nanoseconds length = end - begin;
  if (length <= least) return;
  gaps_.add(length);
  time_ += length;
  for (std::size_t i = 0; i < limits.size() && length > limits[i]; ++i) {
    ++above_[i].count;
    above_[i].time += length;
  }
  if (length > limits.front() && listed_.size() < most_listed) listed_.push_back({begin, end});
}

double GapRecord::share_above(std::size_t i) const noexcept {
  return elapsed_ > 0 ? static_cast<double>(above_[i].time) / static_cast<double>(elapsed_) : 0;
}

double GapRecord::percentile(double p) const noexcept {
  if (elapsed_ <= 0) return 0;
  const double wanted = p * static_cast<double>(elapsed_);
  auto seen = static_cast<double>(elapsed_ - time_);
  if (seen >= wanted) return static_cast<double>(least);
  for (std::size_t i = stats::Histogram::index(least); i < stats::Histogram::bins; ++i) {
    const auto upper = static_cast<double>(stats::Histogram::upper(i));
    seen += static_cast<double>(gaps_.in_bin(i)) * upper;
    if (seen >= wanted) return std::min(upper, static_cast<double>(longest()));
  }
  return static_cast<double>(longest());
}

StopProbe::~StopProbe() {
  stop();
}

void StopProbe::start() {
  stop();
  record_.reserve();
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
