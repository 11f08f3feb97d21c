// SPDX-License-Identifier: Apache-2.0
// MATH kernel for events in fixed slots (MGP, flag b4), as in packet payloads; limited by memory bandwidth.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::bench {

inline constexpr std::size_t slot_bytes = 72;  // 8 B header, 32 hits of 2 B

// PM table of the kernel: x and row of each PM (rich::Math::pair). Entry 2047, the ID of unused hit words,
// and all other non-PM entries lie at the origin and contribute nothing.
inline constexpr std::size_t slot_table_entries = 2048;
// The table ends with two counters, claimed tiles and finished blocks, both 0 before and after each launch.
// Each stream needs a separate table.
inline constexpr std::size_t slot_table_words = slot_table_entries + 2;
// table: slot_table_words. Throws std::invalid_argument if the positions are not whole numbers (mirror
// rotations that are not whole mm).
void make_slot_table(const rich::Geometry& geometry, std::uint32_t* table);

// slots: events x slot_bytes, 16 B aligned, unused hits 0xFFFF (formats.md). words: one MTP primitive word
// per event: ID, timestamp 7:0, fine time; 0 below min_hits. All in device memory. Asynchronous.
cudaError_t launch_math_slots(const rich::Math& math, std::uint32_t* table, const std::byte* slots,
                              std::uint64_t events, std::uint32_t* words,
                              const trigger::DecisionOptions& decision, int multiprocessors,
                              cudaStream_t stream);

}  // namespace nanet::bench
