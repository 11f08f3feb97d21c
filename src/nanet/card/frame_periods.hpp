// SPDX-License-Identifier: Apache-2.0
// Periods in which a frame has events: 256 bits, from the fragments or rows of its buffer.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/card/frame_table.hpp"
#include "nanet/contract/layout.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

class FramePeriods {
 public:
  void set(unsigned period) noexcept { words_[period / 64] |= std::uint64_t{1} << (period % 64); }
  bool has(unsigned period) const noexcept { return words_[period / 64] >> (period % 64) & 1; }
  // In ascending order.
  template <class Each>
  void each(const Each& each) const {
    for (unsigned w = 0; w < words_.size(); ++w)
      for (std::uint64_t word = words_[w]; word != 0; word &= word - 1)
        each(64 * w + static_cast<unsigned>(std::countr_zero(word)));
  }
  bool operator==(const FramePeriods&) const = default;

 private:
  std::array<std::uint64_t, periods_per_frame / 64> words_{};
};

namespace detail {

// Payloads at 16-byte boundaries, as trigger::FrameBuilder lists them.
inline void add_segment(FramePeriods& periods, const std::byte* at, std::size_t bytes, Frame frame) noexcept {
  constexpr std::size_t align = contract::payload_alignment;
  const Timestamp first = frame * periods_per_frame;
  for (std::size_t from = 0; from + wire::mgp::header_bytes <= bytes;) {
    const wire::mgp::Header header = wire::mgp::decode_header(at + from);
    if (header.length < wire::mgp::header_bytes || from + header.length > bytes) return;
    wire::mgp::FragmentReader fragments(at + from, header.length, header);
    for (wire::mgp::Fragment f; fragments.next(f);)
      if (f.timestamp - first < periods_per_frame) periods.set(f.timestamp - first);
    from += (header.length + align - 1) / align * align;
  }
}

inline void add_rows(FramePeriods& periods, const std::byte* buffer, std::size_t bytes,
                     const contract::FrameHeader& header) noexcept {
  const std::uint32_t rows = contract::MergedExtent::of(header.events, header.rows, header.hits, bytes).rows;
  for (std::uint32_t r = 0; r < rows; ++r) {
    contract::MergedRow row;
    std::memcpy(&row, buffer + contract::frame_header_bytes + r * sizeof row, sizeof row);
    periods.set(row.opened / lsb_per_period);
  }
}

}  // namespace detail

// slot: of a frame with a buffer in gather mode `frame`. closed: its header has been written.
inline FramePeriods periods_of(const contract::View& view, const FrameTable::Slot& slot,
                               bool closed) noexcept {
  FramePeriods periods;
  const std::uint32_t index = view.buffer_of(slot.n);
  contract::FrameHeader header;
  if (closed) std::memcpy(&header, view.buffer(index), sizeof header);
  if (header.layout == contract::Layout::merged) {
    detail::add_rows(periods, view.buffer(index), view.shape.buffer_bytes(), header);
    return periods;
  }
  for (unsigned b = 0; b < view.shape.boards; ++b)
    detail::add_segment(periods, view.segment(index, b), slot.board[b].bytes, slot.frame);
  return periods;
}

}  // namespace nanet::card
