// SPDX-License-Identifier: Apache-2.0
// Reconstruction tasks: events built by one block and reconstructed by warps of the serving kernel; their
// results.
#pragma once

#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::gpu {

// Entry of a ring in device memory. owner_block: index of the block that owns the frame.
struct alignas(16) Task {
  std::uint32_t first;  // its hits are task_hits[first] .. task_hits[first + hits - 1]
  std::uint16_t hits, owner_block;
  std::uint32_t event;  // index in the block; highest bit: hits may be missing
  std::uint32_t lap;    // validity mark, as in the event queue
  static constexpr std::uint32_t cut = 1u << 31;
};
static_assert(sizeof(Task) == 16 && max_event_hits < 65536);

// Number of rings, and bits of the primitive.
struct TaskResult {
  std::uint16_t rings, primitive;
};

inline constexpr std::uint32_t tasks_at_once = 512;  // per block
inline constexpr std::uint32_t line_words = 32;      // distance of shared counters, in words

}  // namespace nanet::gpu
