// SPDX-License-Identifier: Apache-2.0
// Frame merger: replaces the segments of a closed frame by rows and hits (docs/formats.md, Merged buffer).
// Reference of the gateware modules merge_store, merge_join and merge_write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/contract/layout.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// Throws std::invalid_argument, with the remedy, for buffers that cannot hold a merged frame, a merged stream
// (boards 0), or a window of more than 255 LSB.
void check_merging(const contract::Shape& shape, std::uint8_t boards, std::int32_t window_lsb);

// Least bytes of a board's segment for merged frames of so many boards, in steps of 1024.
std::size_t merging_segment(std::uint32_t boards) noexcept;

class FrameMerger {
 public:
  // shape: passes check_merging(). encoding: of the hits (wire/mgp.hpp).
  FrameMerger(const contract::Shape& shape, std::int32_t window_lsb,
              std::uint8_t encoding = wire::mgp::hit_encoding);

  // Merges the segments in `buffer`, whose extents are in `header`, and fills the header's fields from
  // `layout` on. Returns the bytes of the merged frame, or 0 if the segments stay. Safe on any bytes;
  // allocates nothing.
  std::uint32_t operator()(std::byte* buffer, contract::FrameHeader& header) noexcept;

 private:
  struct Fragment {
    const std::byte* hits;
    std::uint16_t time;
    std::uint8_t stored;
    bool truncated;
  };
  bool collect(unsigned board, const std::byte* segment, std::size_t bytes) noexcept;
  // joins, number: as mgp::join() gives them.
  void write_row(std::uint32_t event, std::uint32_t first,
                 const std::array<bool, contract::merged_boards>& joins,
                 const std::array<std::uint32_t, contract::merged_boards>& number) noexcept;

  contract::Shape shape_;
  std::uint32_t window_;
  std::uint8_t encoding_;
  std::uint32_t capacity_;  // fragments of a board
  std::vector<Fragment> fragments_;
  std::vector<std::uint32_t> times_;  // a list per board, with an end marker each
  std::array<std::uint32_t, contract::merged_boards> count_{};
  std::uint32_t hits_ = 0, written_ = 0;
  std::vector<std::byte> merged_;  // rows and hits; the segments are read until all are written
};

}  // namespace nanet::card
