// SPDX-License-Identifier: Apache-2.0
// Partition of the memory in which a thread block processes a buffer.
#pragma once

#include "nanet/contract/layout.hpp"
#include "nanet/gpu/frame/tables.hpp"

namespace nanet::gpu {

// Capacity of a block's shared memory: bytes of a frame, fragments. A frame at 10 MHz has 4 kB and 200
// fragments; larger frames are processed in device memory.
inline constexpr std::uint32_t shared_raw_bytes = 24576, shared_fragments = 1024;
// Bytes per board read together with the frame's header, before the length is known: one PCIe wait instead of
// two.
inline constexpr std::uint32_t ahead_bytes = 4096;

NANET_HD inline constexpr std::uint32_t power_of_two(std::uint32_t n) {
  std::uint32_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// Partition of a block's memory.
struct BufferSizes {
  bool frame = true;
  std::uint32_t boards = 1;        // segments; gather packets: 1
  std::uint32_t segment = 0;       // bytes of the largest segment, or of a payload's slot
  std::uint32_t stride = 0;        // distance of segments in shared memory
  std::uint32_t large_stride = 0;  // distance of segments in device memory
  std::uint32_t lists = 1;
  std::uint32_t fragments = 0;  // capacity of the large tables, a power of two

  static BufferSizes of(const contract::Shape& shape) {
    BufferSizes s;
    s.frame = shape.gather == contract::Gather::frame;
    s.boards = s.frame ? shape.boards : 1;
    s.segment = s.frame ? shape.segment_bytes : shape.slot_bytes;
    s.lists = lists_for(s.boards);
    s.large_stride = (s.segment + 15) / 16 * 16;
    const std::uint32_t share = shared_raw_bytes / s.boards / 16 * 16;
    s.stride = share < s.large_stride ? share : s.large_stride;
    s.fragments = power_of_two(s.segment / 8) * s.lists;
    return s;
  }
  NANET_HD std::uint32_t large_hits() const { return large_stride * boards / 2; }
  std::size_t shared_bytes() const {
    return shared_raw_bytes + table_bytes(shared_fragments, lists, shared_raw_bytes / 2);
  }
  std::size_t large_bytes() const {
    return std::size_t{large_stride} * boards + table_bytes(fragments, lists, large_hits());
  }
};

}  // namespace nanet::gpu
