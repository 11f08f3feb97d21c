// SPDX-License-Identifier: Apache-2.0
// Index of a segment: offset and time of every fragment, so that a consumer finds them at once instead of one
// after the other (docs/formats.md, Mailbox). Consumers check every entry against the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nanet/units.hpp"

namespace nanet::contract {

// Entry of an index, one word.
struct IndexEntry {
  static constexpr std::uint32_t none = ~std::uint32_t{0};  // no fragment
  // offset: of the fragment in the segment, bytes; time: within the frame, LSB.
  NANET_HD static constexpr std::uint32_t of(std::uint32_t offset, std::uint32_t time) {
    return time << 16 | offset;
  }
  NANET_HD static constexpr std::uint32_t offset(std::uint32_t entry) { return entry & 0xFFFF; }
  NANET_HD static constexpr std::uint32_t time(std::uint32_t entry) { return entry >> 16; }
};

inline constexpr std::uint32_t no_index = ~std::uint32_t{0};

// Packets of a segment with an index: at most three, packed, in order of sequence number. As many of 1472 B
// as a mailbox holds.
inline constexpr unsigned indexed_packets = 3;

// Fills the entries of a segment's fragments, in order of their bytes. Returns their number, or no_index:
// more than there is room for, or packets without an index, or bytes that break a rule of theirs. Safe on any
// bytes.
std::uint32_t index_fragments(const std::byte* segment, std::uint32_t bytes,
                              std::span<std::uint32_t> entry) noexcept;

}  // namespace nanet::contract
