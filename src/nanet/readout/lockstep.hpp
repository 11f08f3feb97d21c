// SPDX-License-Identifier: Apache-2.0
// Progress of the board threads: a common last frame, and a bound on how far one thread may lead. Lock-free;
// one load per batch in the common case.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace nanet::readout {

class Lockstep {
 public:
  // leash: maximum lead over the slowest thread, in frames; at least 1.
  Lockstep(std::size_t threads, std::uint64_t leash) : leash_(leash), sent_(threads) {}

  // Claims the frames before `to` for sending. Returns the limit: `to`, or the end of the run once it is
  // fixed.
  std::uint64_t claim(std::uint64_t to) noexcept {
    std::uint64_t now = claimed_.load(std::memory_order_acquire);
    while ((now & ended) == 0) {
      if (now >= to || claimed_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) return to;
    }
    return to < (now & ~ended) ? to : now & ~ended;
  }
  // Fixes the end: every thread sends all frames claimed by any thread. Returns the number of frames;
  // repeated calls return the same.
  std::uint64_t end() noexcept { return claimed_.fetch_or(ended, std::memory_order_acq_rel) & ~ended; }

  // Reports the frames sent by thread `t`.
  void sent(std::size_t t, std::uint64_t frames) noexcept {
    sent_[t].frames.store(frames, std::memory_order_release);
  }
  // Thread `t` has ended and no longer limits the others.
  void left(std::size_t t) noexcept { sent(t, std::numeric_limits<std::uint64_t>::max() - leash_); }
  // Limit set by the slowest thread.
  std::uint64_t reach() const noexcept {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max() - leash_;
    for (const Sent& s : sent_) {
      const std::uint64_t frames = s.frames.load(std::memory_order_acquire);
      if (frames < least) least = frames;
    }
    return least + leash_;
  }

 private:
  static constexpr std::uint64_t ended = std::uint64_t{1} << 63;
  struct alignas(64) Sent {
    std::atomic<std::uint64_t> frames{0};
  };
  alignas(64) std::atomic<std::uint64_t> claimed_{0};
  alignas(64) std::uint64_t leash_;
  std::vector<Sent> sent_;
};

}  // namespace nanet::readout
