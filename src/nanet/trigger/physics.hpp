// SPDX-License-Identifier: Apache-2.0
// What a shifter looks at: counts of rings over all events, and of hits, radii, centres and PM occupancy over
// a sample of frames; and a small ring of sampled events. One writer each, any reader, no locks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

struct SampledEvent {
  std::uint32_t burst_base_low = 0;  // of n, to tell events of different bursts apart
  Frame frame = 0;
  Lsb time = 0;  // since SOB
  std::uint16_t primitive = 0;
  std::uint16_t hits = 0;
  rich::Rings rings;
  std::array<PmId, max_event_hits> pm{};
  // LSB after the event's time, or INT16_MIN: from executors on a GPU; those on a CPU give times to
  // EventTap alone.
  std::array<std::int16_t, max_event_hits> late = no_times();

  static constexpr std::array<std::int16_t, max_event_hits> no_times() {
    std::array<std::int16_t, max_event_hits> none{};
    for (std::int16_t& t : none) t = INT16_MIN;
    return none;
  }
};

class Physics {
 public:
  using Counter = card::Counter;
  static constexpr Frame sample_every =
      8;  // frames; counted over a sample, events are not slowed down for a plot
  static constexpr unsigned centre_bins = 64;
  static constexpr float centre_low_x = -552, centre_low_y = -400, centre_width = 12.5f;  // mm

  std::array<Counter, max_event_hits + 1> hits_per_event;
  std::array<Counter, rich::max_rings + 1> rings_per_event;  // over all events
  std::array<Counter, 256> radius;                           // 1 mm bins, leading ring
  std::array<Counter, centre_bins * centre_bins> centre;     // [y][x], leading ring
  std::array<Counter, pm_count> occupancy;
  Counter sampled_events;

  void count(const rich::EventView& event, const rich::Rings& rings) noexcept {
    ++sampled_events;
    ++hits_per_event[event.hits <= max_event_hits ? event.hits : max_event_hits];
    for (std::uint32_t i = 0; i < event.hits; ++i) ++occupancy[event.pm[i]];
    if (rings.count == 0) return;
    const rich::Ring& ring = rings.ring[0];
    if (ring.r >= 0 && ring.r < 256) ++radius[static_cast<std::size_t>(ring.r)];
    const float bx = (ring.x - centre_low_x) / centre_width, by = (ring.y - centre_low_y) / centre_width;
    if (bx >= 0 && bx < centre_bins && by >= 0 && by < centre_bins)
      ++centre[static_cast<std::size_t>(by) * centre_bins + static_cast<std::size_t>(bx)];
  }

  // Keeps one event; overwrites the oldest.
  void keep(const SampledEvent& event) noexcept {
    Slot& slot = slots_[kept_ % slots];
    const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
    slot.version.store(version + 1, std::memory_order_relaxed);
    std::array<std::uint32_t, words> raw{};
    std::memcpy(raw.data(), &event, sizeof event);
    for (std::size_t i = 0; i < words; ++i) slot.word[i].store(raw[i], std::memory_order_release);
    slot.version.store(version + 2, std::memory_order_release);
    ++kept_;
  }
  // The events kept, oldest first; an event that is overwritten meanwhile is left out.
  std::vector<SampledEvent> events() const {
    std::vector<SampledEvent> out;
    const std::uint64_t kept = kept_;
    for (std::uint64_t i = kept > slots ? kept - slots : 0; i < kept; ++i) {
      const Slot& slot = slots_[i % slots];
      const std::uint32_t before = slot.version.load(std::memory_order_acquire);
      if (before & 1) continue;
      std::array<std::uint32_t, words> raw;
      for (std::size_t w = 0; w < words; ++w) raw[w] = slot.word[w].load(std::memory_order_acquire);
      if (slot.version.load(std::memory_order_relaxed) != before) continue;
      SampledEvent event;
      std::memcpy(static_cast<void*>(&event), raw.data(), sizeof event);
      out.push_back(event);
    }
    return out;
  }

 private:
  static constexpr std::size_t slots = 64, words = (sizeof(SampledEvent) + 3) / 4;
  struct Slot {
    std::atomic<std::uint32_t> version{0};
    std::array<std::atomic<std::uint32_t>, words> word{};
  };
  std::array<Slot, slots> slots_;
  Counter kept_;
};

}  // namespace nanet::trigger
