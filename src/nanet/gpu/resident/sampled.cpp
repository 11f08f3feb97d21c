// SPDX-License-Identifier: Apache-2.0
// Event samples of the GPU: hit times added on the host.
#include "nanet/gpu/resident/sampled.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "nanet/trigger/build/hit_times.hpp"

namespace nanet::gpu {

stats::EventSample sampled_event(const Sample& sample, std::uint32_t window) noexcept {
  stats::EventSample event = sample.event;
  event.hits = std::min<std::uint16_t>(event.hits, max_event_hits);
  if (sample.merged_bytes) {
    const std::size_t bytes = std::min<std::size_t>(sample.merged_bytes, sizeof sample.bytes);
    trigger::set_hit_times(event, std::span(sample.bytes, bytes), 0);
    return event;
  }
  std::array<trigger::Segment, max_boards> payloads{};
  std::size_t at = 0, boards = 0;
  for (const std::uint32_t length : sample.length) {
    if (length > sizeof sample.bytes - at) break;
    payloads[boards++] = {sample.bytes + at, length};
    at = std::min((at + length + 15) / 16 * 16, sizeof sample.bytes);
  }
  trigger::set_hit_times(event, {payloads.data(), boards}, sample.opened, static_cast<std::int32_t>(window));
  return event;
}

}  // namespace nanet::gpu
