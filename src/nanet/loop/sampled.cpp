// SPDX-License-Identifier: Apache-2.0
#include "nanet/loop/sampled.hpp"

#include <algorithm>
#include <array>

#include "nanet/trigger/tap.hpp"

namespace nanet::loop {

trigger::SampledEvent sampled_event(const Sample& sample, std::uint32_t window) noexcept {
  trigger::SampledEvent event;
  event.burst_base_low = sample.burst_base_low;
  event.frame = sample.frame;
  event.time = sample.time;
  event.primitive = sample.primitive;
  event.hits = std::min<std::uint16_t>(sample.hits, max_event_hits);
  event.rings = sample.rings;
  std::copy_n(sample.pm, event.hits, event.pm.begin());

  std::array<trigger::Segment, max_boards> payloads{};
  std::size_t at = 0, boards = 0;
  for (const std::uint32_t length : sample.length) {
    if (length > sizeof sample.bytes - at) break;
    payloads[boards++] = {sample.bytes + at, length};
    at = std::min((at + length + 15) / 16 * 16, sizeof sample.bytes);
  }
  trigger::ShownEvent shown;
  shown.time = event.time;
  shown.hits = event.hits;
  shown.pm = event.pm;
  shown.set_times({payloads.data(), boards}, sample.opened, static_cast<std::int32_t>(window));
  event.late = shown.late;
  return event;
}

}  // namespace nanet::loop
