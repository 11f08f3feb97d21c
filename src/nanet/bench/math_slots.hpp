// SPDX-License-Identifier: Apache-2.0
// MATH over events in fixed slots (MGP, flag b4), as they lie in packets' payloads: as fast as memory gives
// them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::bench {

inline constexpr std::size_t slot_bytes = 72;  // 8 B header, 32 hits of 2 B

// The table of PMs that the kernel looks up: x and row of each as two half-precision numbers, exact. Entry
// 2047, which is what an unused hit word names, and all others that are no PM, are at the origin and add
// nothing.
inline constexpr std::size_t slot_table_entries = 2048;
// And two counters, of tiles given out and of blocks done, 0 before and after every launch: a table for each
// stream.
inline constexpr std::size_t slot_table_words = slot_table_entries + 2;
// table: slot_table_words. Throws std::invalid_argument where the numbers are not exact in half precision:
// mirror rotations that are not whole mm.
void make_slot_table(const rich::Geometry& geometry, std::uint32_t* table);

// slots: events x slot_bytes, on a 16 B boundary, unused hits 0xFFFF (formats.md). words: one MTP primitive
// word for each event: ID, timestamp 7:0, fine time; 0 where it has fewer than min_hits. All in device
// memory. Does not wait.
cudaError_t launch_math_slots(const rich::Math& math, std::uint32_t* table, const std::byte* slots,
                              std::uint64_t events, std::uint32_t* words,
                              const trigger::DecisionOptions& decision, int multiprocessors,
                              cudaStream_t stream);

}  // namespace nanet::bench
