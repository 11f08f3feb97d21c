// SPDX-License-Identifier: Apache-2.0
// Event sample for monitoring, and the two ring buffers that carry samples to readers.
// EventRing keeps the newest samples inside the process. SharedEventRing crosses to the monitor process and
// is filled on request only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "nanet/rich/ring.hpp"
#include "nanet/stats/counter.hpp"
#include "nanet/units.hpp"

namespace nanet::stats {

// One event with the times of its hits. Plain bytes with C arrays: written by CPU and GPU code, and shared
// between processes of one build.
struct EventSample {
  static constexpr std::int16_t no_time = INT16_MIN;
  EventSample() noexcept { clear_times(); }

  std::uint64_t serial = 0;  // 1, 2, ... in order of publication; set by SharedEventRing
  std::uint64_t n = 0;       // running number of the frame
  Lsb time = 0;              // since SOB
  Frame frame = 0;
  std::uint16_t primitive = 0;  // 0: none
  std::uint16_t hits = 0;
  rich::Rings rings;
  PmId pm[max_event_hits] = {};       // ascending
  std::int16_t late[max_event_hits];  // hit time in LSB after the event's time, or no_time

  void clear_times() noexcept {
    for (std::int16_t& t : late) t = no_time;
  }
};
static_assert(sizeof(EventSample) % 8 == 0 && std::is_trivially_copyable_v<EventSample>);

// Storage for one sample with a version counter (seqlock). Lock-free, also between processes.
class EventSlot {
 public:
  // False: another writer holds the slot, and nothing is written.
  bool write(const EventSample& event) noexcept;
  // False: a writer was active, and `event` is unspecified.
  bool read(EventSample& event) const noexcept;

 private:
  static constexpr std::size_t words = sizeof(EventSample) / 8;
  std::atomic<std::uint64_t> version_{0};  // odd while it is written
  std::array<std::atomic<std::uint64_t>, words> word_{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The newest samples of one writer; any reader. Has no pointers, so it may lie in shared memory.
class EventRing {
 public:
  static constexpr std::size_t slots = 64;
  void push(const EventSample& event) noexcept;  // overwrites the oldest
  // Oldest first; samples that are overwritten during the call are left out.
  std::vector<EventSample> events() const;

 private:
  std::array<EventSlot, slots> slot_;
  Counter pushed_;
};

// Samples on request, in memory shared by a trigger's workers and its monitor. Each end maps the same memory.
// Wait-free for the workers; a reader that writes garbage costs them at most the publication of samples.
class SharedEventRing {
 public:
  static constexpr std::uint32_t slots = 64;
  // fd: file or memfd of bytes() bytes, zero at first. It is mapped and may be closed afterwards. Throws
  // std::system_error.
  explicit SharedEventRing(int fd);
  ~SharedEventRing();
  SharedEventRing(const SharedEventRing&) = delete;
  SharedEventRing& operator=(const SharedEventRing&) = delete;
  static std::size_t bytes() noexcept;

  // Any number of workers.
  bool requested() const noexcept;
  void publish(const EventSample& event) noexcept;

  // One reader: requests up to `events` samples from now on, at most half of the slots.
  void request(std::uint32_t events) noexcept;
  // Samples published since the last call, oldest first; overwritten ones are left out.
  std::vector<EventSample> take();

 private:
  struct Memory;
  Memory* memory_;
  std::uint64_t taken_ = 0;
};

}  // namespace nanet::stats
