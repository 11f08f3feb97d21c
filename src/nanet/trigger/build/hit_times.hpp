// SPDX-License-Identifier: Apache-2.0
// Hit times of an event sample, decoded from the payloads of its frame.
#pragma once

#include <cstdint>
#include <span>

#include "nanet/stats/event_sample.hpp"
#include "nanet/trigger/build/frame_builder.hpp"

namespace nanet::trigger {

// Fills event.late. opened: time of the event's first fragment, LSB since the start of the frame. If two
// fragments in the window contain the same PM, the first counts. Safe on any bytes.
void set_hit_times(stats::EventSample& event, std::span<const Segment> payloads, std::uint16_t opened,
                   std::int32_t window_lsb) noexcept;

// The same from row `row` of a merged buffer.
void set_hit_times(stats::EventSample& event, std::span<const std::byte> buffer, std::uint32_t row) noexcept;

}  // namespace nanet::trigger
