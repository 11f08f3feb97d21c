// SPDX-License-Identifier: Apache-2.0
// Event histograms and event samples of one executor thread, for monitoring. One writer, any number of
// readers, lock-free.
#pragma once

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
  }
  void keep(const stats::EventSample& event) noexcept { samples_.push(event); }
  std::vector<stats::EventSample> events() const { return samples_.events(); }

 private:
  stats::EventRing samples_;
};

}  // namespace nanet::trigger
