// SPDX-License-Identifier: Apache-2.0
// Event histograms and event samples of one executor thread, for monitoring. One writer, any number of
// readers, lock-free.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nanet/stats/counter.hpp"
#include "nanet/stats/event_histograms.hpp"
#include "nanet/stats/event_sample.hpp"

namespace nanet::trigger {

class Physics : public stats::EventHistograms<stats::Counter> {
 public:
  // In frames. Histograms use one frame in eight, so that the cost per event is negligible.
  static constexpr Frame sample_every = 8;

  void count(const rich::EventView& event, const rich::Rings& rings) noexcept {
    stats::count_event(*this, event, rings, [](stats::Counter& cell) { ++cell; });
    if (beyond_.empty()) return;
    for (std::uint32_t i = 0; i < event.hits; ++i) {
      const std::size_t at = std::size_t{event.pm[i]} - pm_count;  // wraps for those below
      if (at < beyond_.size()) ++beyond_[at];
    }
  }
  // Occupancy of the PM IDs from pm_count on, of a detector with so many; the memory belongs to the executor.
  void count_beyond(std::span<stats::Counter> cells) noexcept { beyond_ = cells; }
  std::span<const stats::Counter> beyond() const noexcept { return beyond_; }
  // Adds the counts of another executor thread.
  void add(const Physics& other) noexcept {
    stats::add_histograms(*this, other);
    for (std::size_t i = 0; i < beyond_.size() && i < other.beyond_.size(); ++i)
      beyond_[i] += other.beyond_[i];
  }
  void keep(const stats::EventSample& event) noexcept { samples_.push(event); }
  std::vector<stats::EventSample> events() const { return samples_.events(); }

 private:
  stats::EventRing samples_;
  std::span<stats::Counter> beyond_;
};

}  // namespace nanet::trigger
