// SPDX-License-Identifier: Apache-2.0
// Time wheel: events of the next cycles, in the order of their insertion within a cycle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/torus/pool.hpp"

namespace nanet::torus {

class TimeWheel {
 public:
  static constexpr std::uint32_t size = 8192;  // cycles; longer than any stage

  explicit TimeWheel(std::size_t reserved) : event_(reserved), first_(size, none), last_(size, none) {}

  void clear() {
    event_.clear();
    std::fill(first_.begin(), first_.end(), none);
    std::fill(last_.begin(), last_.end(), none);
    pending_ = 0;
  }

  // An event `kind` (0 to 7) of the record `index` (29 bits), less than `size` cycles after now.
  void add(std::uint64_t at, std::uint32_t kind, std::uint32_t index, std::uint32_t what) {
    const std::uint32_t e = event_.take();
    event_[e] = {none, kind << 29 | index, what};
    const auto bucket = static_cast<std::uint32_t>(at % size);
    if (first_[bucket] == none)
      first_[bucket] = e;
    else
      event_[last_[bucket]].next = e;
    last_[bucket] = e;
    ++pending_;
  }

  // Removes the events of a cycle and calls f(kind, index, what) for each; f adds events of later cycles
  // only.
  template <class F>
  void take(std::uint64_t now, F&& f) {
    const auto bucket = static_cast<std::uint32_t>(now % size);
    for (std::uint32_t e = first_[bucket]; e != none;) {
      const Event event = event_[e];
      event_.give(e);
      --pending_;
      f(event.where >> 29, event.where & ((1u << 29) - 1), event.what);
      e = event.next;
    }
    first_[bucket] = none;
  }

  std::uint64_t pending() const { return pending_; }

 private:
  struct Event {
    std::uint32_t next, where, what;  // where: kind in the three upper bits, index below
  };

  Pool<Event> event_;
  std::vector<std::uint32_t> first_, last_;  // of the buckets
  std::uint64_t pending_ = 0;
};

}  // namespace nanet::torus
