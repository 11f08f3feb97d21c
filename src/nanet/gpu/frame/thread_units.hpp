// SPDX-License-Identifier: Apache-2.0
// Share of a thread in copying a frame from the mailbox.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/block.hpp"
#include "nanet/gpu/frame/tables.hpp"

namespace nanet::gpu {

// Units of a frame in the mailbox that a thread of a block copies: of one board, first of its index, then of
// its segment, `most` at a time; frames of up to 2.4 kB per board take one turn of a block of 512. Up to
// index_boards boards, all threads of a group (B::group, a warp) have units of one board. The first warp of a
// block has none: it waits for the event line.
template <class B>
class ThreadUnits {
 public:
  static constexpr unsigned most = B::most_units;

  NANET_HD ThreadUnits(unsigned boards, unsigned thread, unsigned threads)
      : index_units_(boards <= contract::index_boards ? contract::index_units : 0) {
    const unsigned lists = lists_for(boards), bits = lists == 1 ? 0 : lists == 4 ? 2 : 3;  // bits: log2
    const unsigned size = index_units_ ? B::group : 1, worker = thread - B::idle, group = worker / size;
    board_ = group & (lists - 1);
    const unsigned of_board = groups_of((threads - B::idle) / size, lists, bits, board_);
    first_ = (group >> bits) * size + worker % size;
    step_ = of_board * size;
    used_ = thread >= B::idle && group >> bits < of_board && board_ < boards;
  }
  // Groups of a block that read fragments, the same number of each board, the first ones of a board's. Those
  // with higher numbers join fragments, a turn of which takes as long as two of reading; the last one reads
  // what the others leave. boards: up to index_boards, each with two groups or more.
  struct Roles {
    unsigned readers, joiners, of_board;  // of_board: readers of a board
    NANET_HD Roles(unsigned boards, unsigned threads) {
      const unsigned lists = lists_for(boards), groups = (threads - B::idle) / B::group;
      of_board = groups / (3 * lists) > 1 ? groups / (3 * lists) : 1;
      readers = lists * of_board;
      joiners = groups - readers - 1;
    }
  };
  NANET_HD static bool has_roles(unsigned boards, unsigned threads) {
    const unsigned lists = lists_for(boards), groups = (threads - B::idle) / B::group;
    return boards <= contract::index_boards && groups >= 2 * lists && groups > 2;
  }
  NANET_HD unsigned board() const { return board_; }
  // Number of the thread's group among its board's, and their number; of boards with an index, before
  // advance().
  NANET_HD unsigned group() const { return first_ / B::group; }
  NANET_HD unsigned groups() const { return step_ / B::group; }
  NANET_HD bool used() const { return used_; }
  // The next turn, and whether it has units of the index, or of a segment of so many bytes.
  NANET_HD void advance() { first_ += most * step_; }
  NANET_HD bool has_index() const { return used_ && first_ < index_units_; }
  NANET_HD bool left(std::uint32_t bytes) const {
    const std::uint32_t next = first_ + most * step_;
    return next < index_units_ || starts_at(next) < bytes;
  }

  // Bytes of a segment that have no unit after this turn.
  NANET_HD std::uint32_t reach() const {
    const std::uint32_t next = first_ + most * step_;
    return next < index_units_ ? 0 : starts_at(next);
  }

  NANET_HD bool of_index(unsigned j) const { return unit(j) < index_units_; }
  NANET_HD std::uint32_t in_index(unsigned j) const { return unit(j); }
  NANET_HD std::uint32_t in_segment(unsigned j) const { return unit(j) - index_units_; }
  // Mask of the turn's units, where the board has these numbers of them.
  NANET_HD std::uint32_t among(std::uint32_t index, std::uint32_t segment) const {
    std::uint32_t mask = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j)
      if (of_index(j) ? in_index(j) < index : in_segment(j) < segment) mask |= 1u << j;
    return used_ ? mask : 0;
  }
  // The same by entries of the index and bytes of the segment.
  NANET_HD std::uint32_t holding(std::uint32_t entries, std::uint32_t bytes) const {
    std::uint32_t mask = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j)
      if (of_index(j) ? contract::entries_per_unit * in_index(j) < entries : starts_at(unit(j)) < bytes)
        mask |= 1u << j;
    return used_ ? mask : 0;
  }

 private:
  NANET_HD static unsigned groups_of(unsigned groups, unsigned lists, unsigned bits, unsigned board) {
    return (groups + lists - 1 - board) >> bits;
  }
  NANET_HD std::uint32_t unit(unsigned j) const { return first_ + j * step_; }  // j-th of the turn
  // Offset of a unit in its segment.
  NANET_HD std::uint32_t starts_at(std::uint32_t unit) const {
    return static_cast<std::uint32_t>(contract::unit_data_bytes) * (unit - index_units_);
  }

  std::uint32_t index_units_, first_, step_;
  unsigned board_;
  bool used_;
};

}  // namespace nanet::gpu
