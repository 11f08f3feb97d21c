// SPDX-License-Identifier: Apache-2.0
// Fuzz target for merged buffers: with any header, rows and hits, events are whole, their PM IDs ascending
// and valid, their hits' times found, and no byte beyond the buffer and its tail is read.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "nanet/trigger/build/frame_builder.hpp"
#include "nanet/trigger/build/hit_times.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// First two bytes: bytes of the buffer. Then the buffer, repeated until it is full.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet;
  if (size < 3) return 0;
  const std::size_t bytes = std::max<std::size_t>(
      (data[0] + 256u * data[1]) % (contract::merged_buffer_bytes + 1), sizeof(contract::FrameHeader));
  // On the heap, without room behind the tail.
  const auto memory = std::make_unique<std::byte[]>(bytes + contract::tail_bytes);
  for (std::size_t at = 0; at < bytes; at += size - 2)
    std::memcpy(memory.get() + at, data + 2, std::min(size - 2, bytes - at));
  static trigger::FrameBuilder builder(2016, contract::merged_boards);
  const std::span<const std::byte> buffer(memory.get(), bytes);
  const trigger::BuiltFrame& built = builder.build_merged(buffer);
  for (std::uint32_t e = 0; e < built.events; ++e) {
    require(built.first[e] <= built.first[e + 1] && built.first[e + 1] - built.first[e] <= max_event_hits);
    for (std::uint32_t i = built.first[e]; i < built.first[e + 1]; ++i)
      require(built.pm[i] < pm_count && (i == built.first[e] || built.pm[i - 1] < built.pm[i]));
    require(built.boards[e] < 1u << contract::merged_boards && built.order[e] < built.events);
    stats::EventSample event;
    event.hits = static_cast<decltype(event.hits)>(built.first[e + 1] - built.first[e]);
    std::copy_n(built.pm + built.first[e], event.hits, event.pm);
    trigger::set_hit_times(event, buffer, e);
  }
  return 0;
}
