// SPDX-License-Identifier: Apache-2.0
// Reconstruction tasks: events built by one block and reconstructed by warps of other blocks; their results.
#pragma once

#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::gpu {

// In a ring in device memory. owner_block: the block's place, which has the answer.
struct alignas(16) Task {
  std::uint32_t first;  // its hits are task_hits[first] .. task_hits[first + hits - 1]
  std::uint16_t hits, owner_block;
  std::uint32_t event;  // number among the block's; its highest bit: hits may be missing
  std::uint32_t lap;    // of the ring, as for entries of the queue
  static constexpr std::uint32_t cut = 1u << 31;
};
static_assert(sizeof(Task) == 16 && max_event_hits < 65536);

// The number of rings and the primitive's bits.
struct TaskResult {
  std::uint16_t rings, primitive;
};

inline constexpr std::uint32_t tasks_at_once = 512;  // of a block
inline constexpr std::uint32_t line_words = 32;      // words apart that are counted up by many

}  // namespace nanet::gpu
