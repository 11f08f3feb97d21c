// SPDX-License-Identifier: Apache-2.0
// Copy of a frame's segments and indices from the mailbox to a block's shared memory. Each thread copies
// certain units (thread_units.hpp), some of them before the event line comes.
#pragma once

#include "nanet/gpu/frame/buffer_sizes.hpp"
#include "nanet/gpu/frame/indexed_fragments.hpp"
#include "nanet/gpu/frame/thread_units.hpp"
#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

// Lines: the frame in the mailbox. bytes(b), fragments(b): of a board; segment(b, u), index(b, u): a unit;
// mark(): of its units. early(), stale(): masks of the calling thread's units of the first turn that it has
// copied, of this frame and of another one.
template <class B>
class MailboxUnits {
 public:
  // small: segments, sizes.stride apart. room: fragments that the tables hold.
  NANET_DEVICE MailboxUnits(const BufferSizes& sizes, FrameShared& shared, std::byte* small,
                            std::uint32_t room)
      : sizes_(sizes), s_(shared), small_(small), room_(room) {}

  // Bytes of the longest segment in a mailbox.
  NANET_DEVICE std::uint32_t longest() const {
    const std::uint32_t most = sizes_.stride < sizes_.segment ? sizes_.stride : sizes_.segment;
    return most < contract::mailbox_segment_bytes ? most : contract::mailbox_segment_bytes;
  }
  // A frame that BufferWork::usual() takes: all segments and their indices are in the mailbox.
  template <class Lines>
  NANET_DEVICE bool is_usual(const Lines& lines) const {
    if (!lines.used() || !lines.indexed() || sizes_.boards > contract::index_boards) return false;
    if (room_ < IndexedFragments<B>::all) return false;
    const std::uint32_t most = longest();
    bool usual = true;
    NANET_UNROLLED
    for (unsigned b = 0; b < contract::index_boards; ++b)
      usual = usual && (b >= sizes_.boards ||
                        (lines.bytes(b) <= most && lines.fragments(b) <= contract::index_entries));
    return usual;
  }

  // Memory of a usual frame, before any of its units is copied. Visible after the next step.
  NANET_DEVICE void prepare(unsigned t, const Tables& tables) const {
    for (std::uint32_t x = t; x < IndexedFragments<B>::all; x += B::threads()) tables.slot[x] = 0;
    for (auto units = of(t); units.has_index(); units.advance()) clear_index(units, ~std::uint32_t{0});
  }
  // Removes those of a thread's units in this mask that belong to the index.
  NANET_DEVICE void clear_index(const ThreadUnits<B>& units, std::uint32_t mask) const {
    const std::uint32_t cleared = units.among(contract::index_units, 0) & mask;
    NANET_UNROLLED
    for (unsigned j = 0; j < ThreadUnits<B>::most; ++j)
      if (cleared >> j & 1 && units.of_index(j)) clear_behind(units.board(), units.in_index(j), 0);
  }

  // Copies the units of a usual frame that thread t has not yet; FrameShared::units_missing if one does not
  // arrive. After prepare() and FrameWork::begin(); visible after the next step. Returns a mask of units of
  // the thread's first turn that a frame of this size, or somewhat larger, has.
  template <class Lines>
  NANET_DEVICE std::uint32_t complete(unsigned t, const Lines& lines) const {
    auto units = of(t);
    if (!units.used()) return 0;
    const unsigned b = units.board();
    // Within the room for them, whatever the line says; is_usual() refuses longer ones.
    const std::uint32_t fragments = smaller(lines.fragments(b), contract::index_entries),
                        bytes = smaller(lines.bytes(b), longest());
    const std::uint32_t next =
        units.holding(fragments + fragments / 4 + 8, smaller(bytes + bytes / 4 + 128, longest()));
    std::uint32_t early = lines.early();
    if (lines.stale()) clear_index(units, lines.stale());
    for (;; units.advance(), early = 0) {
      const std::uint32_t needed = units.holding(fragments, bytes);
      if (needed & ~early && !take_all(lines, units, needed & ~early)) s_.units_missing = 1;
      // Entries behind the fragments, in units that came early or in the last one: ones, as the card writes
      // them, whatever it wrote.
      NANET_UNROLLED
      for (unsigned j = 0; j < ThreadUnits<B>::most; ++j)
        if (units.of_index(j) && (needed | early) >> j & 1 &&
            contract::entries_per_unit * (units.in_index(j) + 1) > fragments)
          clear_behind(b, units.in_index(j), fragments);
      if (!units.left(bytes)) return next;
    }
  }
  // The thread's units of the segments alone. Returns false if one does not arrive.
  template <class Lines>
  NANET_DEVICE bool take(unsigned t, const Lines& lines) const {
    auto units = of(t);
    if (!units.used()) return true;
    const std::uint32_t bytes = lines.bytes(units.board());
    for (std::uint32_t early = lines.early();; units.advance(), early = 0) {
      if (!take_all(lines, units, units.holding(0, bytes) & ~early)) return false;
      if (!units.left(bytes)) return true;
    }
  }

  // Units of thread t in its first turn, and a mask of those that memory and mailbox have room for.
  // segment_bytes: of the mailbox.
  NANET_DEVICE ThreadUnits<B> of(unsigned t) const { return {sizes_.boards, t, B::threads()}; }
  NANET_DEVICE std::uint32_t possible(const ThreadUnits<B>& units, std::uint32_t segment_bytes) const {
    return units.among(contract::index_units, smaller(segment_bytes, sizes_.stride) /
                                                  static_cast<std::uint32_t>(contract::unit_data_bytes));
  }
  // Copies those of the thread's `missing` units that have arrived, and removes them from the mask.
  template <class Lines>
  NANET_DEVICE void take_some(const Lines& lines, const ThreadUnits<B>& units, std::uint32_t& missing) const {
    constexpr unsigned most = ThreadUnits<B>::most;
    const unsigned b = units.board();
    typename Lines::Unit unit[most] = {};  // several loads in flight
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j)
      if (missing >> j & 1)
        unit[j] =
            units.of_index(j) ? lines.index(b, units.in_index(j)) : lines.segment(b, units.in_segment(j));
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j) {
      if (!(missing >> j & 1) || unit[j].word[3] != lines.mark()) continue;
      std::uint32_t* const to =
          units.of_index(j)
              ? s_.merge.index[b] + contract::entries_per_unit * units.in_index(j)
              : reinterpret_cast<std::uint32_t*>(small_ + std::size_t{b} * sizes_.stride +
                                                 contract::unit_data_bytes * units.in_segment(j));
      NANET_UNROLLED
      for (unsigned i = 0; i < 3; ++i) to[i] = unit[j].word[i];
      missing &= ~(1u << j);
    }
  }

 private:
  NANET_DEVICE static std::uint32_t smaller(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
  // Units arrive at most a few accesses after the event line, which the card writes last.
  template <class Lines>
  NANET_DEVICE bool take_all(const Lines& lines, const ThreadUnits<B>& units, std::uint32_t missing) const {
    for (unsigned look = 0; missing && look < contract::most_unit_reads; ++look)
      take_some(lines, units, missing);
    return missing == 0;
  }
  // Entries of a unit of the index from `fragments` on.
  NANET_DEVICE void clear_behind(unsigned board, std::uint32_t unit, std::uint32_t fragments) const {
    const std::uint32_t first = contract::entries_per_unit * unit;
    for (std::uint32_t i = first; i < first + contract::entries_per_unit; ++i)
      if (i >= fragments) s_.merge.index[board][i] = contract::IndexEntry::none;
  }

 protected:
  const BufferSizes& sizes_;
  FrameShared& s_;
  std::byte* const small_;
  const std::uint32_t room_;
};

}  // namespace nanet::gpu
