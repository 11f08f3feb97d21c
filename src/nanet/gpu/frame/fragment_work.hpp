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
        if (task < 2 * shares) return join(fragments, {share_lanes * (task - shares) + lane});
        return lane >= boards_ || fragments.board(lane).sound();
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }

  // The same in parts, for boards of one packet each: some groups read the fragments of a board as soon as
  // its units are there, the others join those of all boards. size: HeldFrame::size of the board. A few
  // fragments beyond two turns of its groups are left to read_rest().
  NANET_DEVICE NANET_INLINED void read_board(unsigned b, std::uint32_t size, unsigned group,
                                             unsigned groups) const {
    const std::uint32_t bytes = size & 0xFFFF, count = size >> 16, turn = share_lanes * groups;
    const Bytes in = unsized();
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    const std::uint32_t end = count - left_of(count, turn);
    NANET_ROLLED
    for (std::uint32_t from = share_lanes * group; from < end; from += turn) {
      const bool good = B::lanes([&](unsigned lane) {
        return from + lane >= end || read_only(fragments, b, bytes, count, from + lane);
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }
  // of_board: groups that read a board. One group, when all boards are there.
  NANET_DEVICE NANET_INLINED void read_rest(unsigned of_board) const {
    const std::uint32_t turn = share_lanes * of_board;
    std::uint32_t size[join_boards], end[join_boards], sum = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) {
      size[c] = s_.held.size[c];
      end[c] = sum += left_of(size[c] >> 16, turn);
    }
    const Bytes in = unsized();
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    NANET_ROLLED
    for (std::uint32_t from = 0; from < sum; from += share_lanes) {
      const bool good = B::lanes([&](unsigned lane) {
        const std::uint32_t x = from + lane;
        if (x >= sum) return true;
        unsigned b = 0;
        std::uint32_t own = size[0], behind = end[0] - x;  // behind: fragments from this one on
        NANET_UNROLLED
        for (unsigned c = 0; c + 1 < join_boards; ++c)
          if (x >= end[c]) {
            b = c + 1;
            own = size[c + 1];
            behind = end[c + 1] - x;
          }
        const std::uint32_t count = own >> 16;
        return read_only(fragments, b, own & 0xFFFF, count, count - behind);
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }
  // group, groups: of those that join.
  NANET_DEVICE NANET_INLINED void join_all(unsigned group, unsigned groups) const {
    const Bytes in = s_.held.bytes(boards_, small_, stride_);
    const Fragments fragments(in, small_, t_, s_.merge, window_, conditions_);
    const std::uint32_t total = fragments.total(), shares = shares_of(total);
    if (group == 0 && B::leads()) B::set(s_.held.total, total);
    NANET_ROLLED
    for (std::uint32_t share = group; share < shares; share += 2 * groups) {
      const std::uint32_t next = share + groups;
      const bool good = B::lanes([&](unsigned lane) {
        if (next >= shares) return join(fragments, {share_lanes * share + lane});
        return join(fragments, {share_lanes * share + lane, share_lanes * next + lane});
      });
      if (!good) B::set(s_.held.unusual, 1);
    }
  }

 private:
  NANET_DEVICE auto counts() const {
    return [this](unsigned board) { return s_.held.size[board] >> 16; };
  }
  template <std::size_t n>
  NANET_DEVICE bool join(const Fragments& fragments, const std::uint32_t (&x)[n]) const {
    return fragments.join(x, counts());
  }
  // Description of the bytes, for fragments of known boards.
  NANET_DEVICE Bytes unsized() const {
    Bytes in;
    in.at = small_;
    in.stride = stride_;
    return in;
  }
  // Fragments of a board that are left to read_rest().
  NANET_DEVICE static std::uint32_t left_of(std::uint32_t count, std::uint32_t turn) {
    constexpr std::uint32_t most = share_lanes / 2;
    return count > 2 * turn && count - 2 * turn <= most ? count - 2 * turn : 0;
  }
  // Reads fragment i of a board whose only packet has these bytes and fragments.
  NANET_DEVICE bool read_only(const Fragments& fragments, unsigned b, std::uint32_t bytes,
                              std::uint32_t count, std::uint32_t i) const {
    const auto found =
        IndexedBoard::of_only(small_ + std::size_t{b} * stride_, bytes, count, s_.merge.index[b], i);
    return found.sound && read(fragments, b, i, found);
  }
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
