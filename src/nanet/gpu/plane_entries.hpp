// SPDX-License-Identifier: Apache-2.0
// Size of the PM position table on a GPU.
#pragma once

#include <cstdint>

namespace nanet::gpu {

// All PM IDs of eleven bits: an unchecked hit word cannot reach past the table.
inline constexpr std::uint32_t plane_entries = 2048;
// All PM IDs of 16 bits: detectors with more PMs, and hits at free positions.
inline constexpr std::uint32_t wide_plane_entries = 65536;

}  // namespace nanet::gpu
