// SPDX-License-Identifier: Apache-2.0
// Choke (XOFF): flow-control state with hysteresis, raised when buffers fill, or for given frames. Without
// effect on the data path; the final trigger of a card stops physics triggers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/card/stream.hpp"

namespace nanet::trigger {

struct ChokeOptions {
  double high = 0.75;  // raised at this fraction of the buffers
  double low = 0.5;    // withdrawn below this fraction
  // Raised in these frames too, by first frame of the run and number.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> frames;
};

// One writer, any number of readers.
class Choke {
 public:
  explicit Choke(ChokeOptions options) noexcept : options_(std::move(options)) {}

  // Updates the state; fill: 0 - 1, at time `now`, after this number of frames.
  void update(double fill, Nanoseconds now, std::uint64_t frames = 0) noexcept {
    fill_.store(fill, std::memory_order_relaxed);
    if (fill > most()) most_.store(fill, std::memory_order_relaxed);
    const bool was = on();
    if (was) time_.store(time() + (now - last_), std::memory_order_relaxed);
    last_ = now;
    const bool is = wanted(frames) || (was ? fill >= options_.low : fill >= options_.high);
    if (is && !was) ++raised;
    if (is != was) on_.store(is, std::memory_order_relaxed);
  }
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  // Fraction of the buffers in use at the last update, and its maximum.
  double fill() const noexcept { return fill_.load(std::memory_order_relaxed); }
  double most() const noexcept { return most_.load(std::memory_order_relaxed); }
  // Total time raised, ns.
  Nanoseconds time() const noexcept { return time_.load(std::memory_order_relaxed); }

  stats::Counter raised;

 private:
  bool wanted(std::uint64_t frames) const noexcept {
    return std::any_of(options_.frames.begin(), options_.frames.end(), [frames](const auto& range) {
      return frames > range.first && frames - range.first <= range.second;
    });
  }
  ChokeOptions options_;
  std::atomic<bool> on_{false};
  std::atomic<double> fill_{0}, most_{0};
  std::atomic<Nanoseconds> time_{0};
  Nanoseconds last_ = 0;
};

// Fraction of a stream's buffers between the oldest unreturned one and the newest; at 1 the next frame has no
// buffer. Updated in the card's thread.
class BufferFill {
 public:
  double operator()(card::Stream& stream) noexcept {
    card::FrameTable& table = stream.table();
    const std::uint64_t slots = table.slots();
    // Buffers held for more than a lap affect only their own frames.
    if (table.end > oldest_ + slots) oldest_ = table.end - slots;
    while (oldest_ < table.end && !out(stream, table, oldest_)) ++oldest_;
    return static_cast<double>(table.end - oldest_) / static_cast<double>(slots);
  }

 private:
  static bool out(const card::Stream& stream, card::FrameTable& table, std::uint64_t n) noexcept {
    const card::FrameTable::Slot& slot = table.slot(n);
    if (!slot.used || slot.n != n) return false;
    const contract::View& view = stream.view(static_cast<std::size_t>(n & (stream.options().devices - 1)));
    return contract::acquire(view.returned[view.buffer_of(n)]) != static_cast<std::uint32_t>(n + 1);
  }
  std::uint64_t oldest_ = 0;
};

}  // namespace nanet::trigger
