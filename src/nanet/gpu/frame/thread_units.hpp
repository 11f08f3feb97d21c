// SPDX-License-Identifier: Apache-2.0
// Share of a thread in copying a frame from the mailbox.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/fragments.hpp"
#include "nanet/gpu/frame/tables.hpp"

namespace nanet::gpu {

// Units of a board, of its index and of its segment, that hold the boards of a usual frame: at 10 MHz.
inline constexpr std::uint32_t usual_index_units = 44, usual_segment_units = 168;
static_assert(usual_index_units * contract::entries_per_unit >= usual_members);

// Units of a frame in the mailbox that a thread of a block copies: of one board, `most` at a time. First
// those of a usual frame, then the others; in each part those of the index come first. The first warp of a
// block has none: it waits for the event line.
template <class B>
class ThreadUnits {
 public:
  static constexpr unsigned most = B::most_units;

  // index, segment: units of no board are more.
  NANET_HD ThreadUnits(unsigned boards, unsigned thread, unsigned threads, std::uint32_t index,
                       std::uint32_t segment)
      : has_index_(boards <= contract::index_boards) {
    const unsigned lists = lists_for(boards), bits = lists == 1 ? 0 : lists == 4 ? 2 : 3;  // bits: log2
    const unsigned worker = thread - B::idle;
    board_ = worker & (lists - 1);
    first_ = worker >> bits;
    step_ = (threads - B::idle) >> bits;
    end_ = segment > usual_segment_units ? index_units() + segment
           : index > usual_index_units   ? index_units() + usual_segment_units
                                         : index_begin() + usual_segment_units;
    used_ = thread >= B::idle && board_ < boards;
  }
  // Whether any thread has units left, and the next `most`. The same in all threads.
  NANET_HD bool left() const { return passed_ < end_; }
  NANET_HD void advance() { passed_ += most * step_; }

  NANET_HD unsigned board() const { return board_; }
  NANET_HD bool of_index(unsigned j) const {
    const std::uint32_t u = unit(j);
    return u < index_begin() ||
           (u >= index_begin() + usual_segment_units && u < index_units() + usual_segment_units);
  }
  NANET_HD std::uint32_t in_index(unsigned j) const {
    const std::uint32_t u = unit(j);
    return u < index_begin() ? u : u - usual_segment_units;
  }
  NANET_HD std::uint32_t in_segment(unsigned j) const {
    const std::uint32_t u = unit(j);
    return u - (u < index_begin() + usual_segment_units ? index_begin() : index_units());
  }
  // Mask of the thread's units, where the board has these numbers of them.
  NANET_HD std::uint32_t among(std::uint32_t index, std::uint32_t segment) const {
    std::uint32_t mask = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j) {
      if (passed_ + j * step_ >= end_) break;
      if (used_ && (of_index(j) ? in_index(j) < index : in_segment(j) < segment)) mask |= 1u << j;
    }
    return mask;
  }

 private:
  NANET_HD std::uint32_t unit(unsigned j) const { return first_ + passed_ + j * step_; }
  // Units of the index in the first part, and in both.
  NANET_HD std::uint32_t index_begin() const { return has_index_ ? usual_index_units : 0; }
  NANET_HD std::uint32_t index_units() const { return has_index_ ? contract::index_units : 0; }

  bool has_index_, used_;
  unsigned board_, first_, step_;
  std::uint32_t passed_ = 0, end_;
};

}  // namespace nanet::gpu
