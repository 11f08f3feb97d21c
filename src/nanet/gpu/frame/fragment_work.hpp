// SPDX-License-Identifier: Apache-2.0
// Work on the fragments of a usual frame: checks every entry of the index against the bytes, reads each
// fragment's hits (for exact sums: sums them), and joins fragments into events by their times. Both at once,
// by different groups of threads: hits need no table of the events, and sums wait for no join. It needs
// units, not the event line: of all boards to join, of one to read.
#pragma once

#include "nanet/gpu/frame/indexed_frame.hpp"
#include "nanet/gpu/frame/indexed_merge.hpp"

namespace nanet::gpu {

template <class A, class B>
class FragmentWork {
  using Fragments = IndexedFragments<B>;
  static_assert(join_boards == HeldFrame::boards);

 public:
  // small: segments, stride apart. Tables: in shared memory, prepared (MailboxUnits::prepare()).
  NANET_DEVICE FragmentWork(unsigned boards, FrameShared& shared, const std::byte* small,
                            std::uint32_t stride, const Tables& tables,
                            const typename PlaneOf<A>::type* plane, std::uint32_t window,
                            const std::int16_t* conditions)
      : boards_(boards),
        s_(shared),
        t_(tables),
        small_(small),
        plane_(plane),
        conditions_(conditions),
        stride_(stride),
        window_(window) {}

  // The group's part for the sizes of the held frame; HeldFrame::unusual for any but the usual bytes. Visible
  // after the next step.
  NANET_DEVICE NANET_INLINED void work(unsigned group, unsigned groups) const {
    const Bytes in = s_.held.bytes(boards_, small_, stride_);
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    // Tasks of share_lanes fragments each: to read them, which takes longest; to join them; and, of boards
    // without fragments too, to check the packets.
    const std::uint32_t total = fragments.total(), shares = shares_of(total);
    if (group == 0 && B::leads()) B::set(s_.held.total, total);
    NANET_ROLLED
    for (std::uint32_t task = group; task <= 2 * shares; task += groups) {
      const bool good = B::lanes([&](unsigned lane) {
        if (task < shares)
          return fragments.check(share_lanes * task + lane,
                                 [&](unsigned b, std::uint32_t i, const IndexedBoard::Found& found) {
                                   return read(fragments, b, i, found);
                                 });
        if (task < 2 * shares) return fragments.join(share_lanes * (task - shares) + lane);
        return lane >= boards_ || fragments.board(lane).sound();
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }

  // The same in two parts, for boards of one packet each. Number of a board's groups that read its fragments,
  // as soon as its units are there; the others join those of all boards.
  NANET_DEVICE static unsigned readers(std::uint32_t fragments, unsigned groups) {
    const std::uint32_t shares = shares_of(fragments);
    return shares < groups ? shares : groups - 1;
  }
  // size: HeldFrame::size of the board.
  NANET_DEVICE NANET_INLINED void read_board(unsigned b, std::uint32_t size, unsigned group,
                                             unsigned groups) const {
    const std::uint32_t bytes = size & 0xFFFF, count = size >> 16;
    Bytes in;
    in.at = small_;
    in.stride = stride_;
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    NANET_ROLLED
    for (std::uint32_t from = share_lanes * group; from < count; from += share_lanes * groups) {
      const bool good = B::lanes([&](unsigned lane) {
        const std::uint32_t i = from + lane;
        if (i >= count) return true;
        const auto found =
            IndexedBoard::of_only(small_ + std::size_t{b} * stride_, bytes, count, s_.merge.index[b], i);
        return found.sound && read(fragments, b, i, found);
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }
  // groups_of(b): groups of board b. group, board: of the caller, among its board's. Groups that hold other
  // sizes than those held join any fragments: that work is dropped.
  template <class GroupsOf>
  NANET_DEVICE NANET_INLINED void join_all(unsigned board, unsigned group, const GroupsOf& groups_of) const {
    const Bytes in = s_.held.bytes(boards_, small_, stride_);
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    unsigned joiner = 0, joiners = 0;  // number among those that join
    NANET_UNROLLED
    for (unsigned b = 0; b < HeldFrame::boards; ++b) {
      const unsigned of_board = groups_of(b), reading = of_board ? readers(in.fragments[b], of_board) : 0;
      if (b == board) joiner = joiners + group - reading;
      joiners += of_board - reading;
    }
    const std::uint32_t total = fragments.total(), shares = shares_of(total);
    if (joiner == 0 && B::leads()) B::set(s_.held.total, total);
    NANET_ROLLED
    for (std::uint32_t share = joiner; share < shares; share += joiners) {
      const bool good = B::lanes([&](unsigned lane) { return fragments.join(share_lanes * share + lane); });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }

 private:
  NANET_DEVICE static std::uint32_t shares_of(std::uint32_t fragments) {
    return (fragments + share_lanes - 1) / share_lanes;
  }
  NANET_DEVICE bool read(const Fragments& fragments, unsigned b, std::uint32_t i,
                         const IndexedBoard::Found& found) const {
    if constexpr (Summed<A>)
      return IndexedFrame<A, B>::read(fragments, t_, plane_, b, i, found);
    else
      return IndexedMerge<B>::read(fragments, t_, b, i, found);
  }

  const unsigned boards_;
  FrameShared& s_;
  const Tables& t_;
  const std::byte* const small_;
  const typename PlaneOf<A>::type* const plane_;
  const std::int16_t* const conditions_;
  const std::uint32_t stride_, window_;
};

}  // namespace nanet::gpu
