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
  // A usual frame, which is built by its index: all segments and their indices are in the mailbox.
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
    IndexedFragments<B>::prepare(t, tables, s_.merge);
  }
  // Removes those of a thread's units in this mask that belong to the index.
  NANET_DEVICE void clear_index(const ThreadUnits<B>& units, std::uint32_t mask) const {
    const std::uint32_t cleared = units.among(contract::index_units, 0) & mask;
    NANET_UNROLLED
    for (unsigned j = 0; j < ThreadUnits<B>::most; ++j)
      if (cleared >> j & 1 && units.of_index(j)) clear_behind(units.board(), units.in_index(j), 0);
  }

  // Copies the units of a usual frame that thread t has not yet; FrameShared::units_missing if one does not
  // arrive. After prepare() and FrameWork::begin(); visible after the next step.
  template <class Lines>
  NANET_DEVICE void complete(unsigned t, const Lines& lines) const {
    auto units = of(t);
    if (!units.used()) return;
    const unsigned b = units.board();
    // Within the room for them, whatever the line says; is_usual() refuses longer ones.
    const std::uint32_t fragments = smaller(lines.fragments(b), contract::index_entries),
                        bytes = smaller(lines.bytes(b), longest());
    std::uint32_t early = lines.early();
    if (lines.stale()) clear_index(units, lines.stale());
    for (;; units.advance(), early = 0) {
      const std::uint32_t needed = units.holding(fragments, bytes);
      if (needed & ~early && !take_all(lines, units, needed & ~early)) s_.units_missing = 1;
      trim(units, needed | early, fragments);
      if (!units.left(bytes)) return;
    }
  }
  // Entries behind the fragments, in units that came early or in the last one: ones, as the card writes them,
  // whatever it wrote. mask: of the thread's units.
  NANET_DEVICE void trim(const ThreadUnits<B>& units, std::uint32_t mask, std::uint32_t fragments) const {
    NANET_UNROLLED
    for (unsigned j = 0; j < ThreadUnits<B>::most; ++j)
      if (units.of_index(j) && mask >> j & 1 &&
          contract::entries_per_unit * (units.in_index(j) + 1) > fragments)
        clear_behind(units.board(), units.in_index(j), fragments);
  }

  // Units of a thread before the event line comes: mask of those it has, and of those it looks for. size: of
  // its board, by the header of the board's only packet; 0: not known; `several`: there are more packets.
  struct Early {
    static constexpr std::uint32_t several = ~std::uint32_t{0};
    std::uint32_t had = 0, missing = 0, size = 0;
  };
  // Where a thread's units of the first turn are: offsets in the board's part of the mailbox, and in shared
  // memory; first entry or byte of each; mask of those of the index; bytes that they reach. Known once, so
  // that a look takes few instructions.
  struct Places {
    std::uint32_t from[ThreadUnits<B>::most];
    std::uint32_t* to[ThreadUnits<B>::most];
    std::uint32_t begin[ThreadUnits<B>::most];
    std::uint32_t of_index = 0, reach = 0;
  };
  // index_at: offset of the index.
  NANET_DEVICE Places places(const ThreadUnits<B>& units, std::uint32_t index_at) const {
    Places p;
    NANET_UNROLLED
    for (unsigned j = 0; j < ThreadUnits<B>::most; ++j) {
      const bool of_index = units.of_index(j);
      const std::uint32_t u = of_index ? units.in_index(j) : units.in_segment(j);
      p.from[j] = (of_index ? index_at : 0) + static_cast<std::uint32_t>(contract::unit_bytes) * u;
      p.to[j] = room_for(units, j);
      p.begin[j] = of_index ? contract::entries_per_unit * u
                            : static_cast<std::uint32_t>(contract::unit_data_bytes) * u;
      p.of_index |= static_cast<std::uint32_t>(of_index) << j;
    }
    p.reach = units.reach();
    return p;
  }
  // Copies those that have arrived. board: the board's part of the mailbox. heads: each group reads the
  // header too. A group.
  template <class Board>
  NANET_DEVICE void look(const Board& board, const Places& places, bool heads, Early& early) const {
    constexpr unsigned most = ThreadUnits<B>::most;
    const bool asks = heads && early.size == 0;
    typename Board::Unit unit[most] = {}, head{};  // several loads in flight
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j)
      if (early.missing >> j & 1) unit[j] = board.unit(places.from[j]);
    if (asks && B::leads()) head = board.unit(0);
    NANET_UNROLLED
    for (unsigned j = 0; j < most; ++j) {
      if (!(early.missing >> j & 1) || unit[j].word[3] != board.mark) continue;
      NANET_UNROLLED
      for (unsigned i = 0; i < 3; ++i) places.to[j][i] = unit[j].word[i];
      early.missing &= ~(1u << j);
      early.had |= 1u << j;
    }
    if (asks) early.size = B::of_first(head.word[3] == board.mark ? size_by(head.word[0], head.word[1]) : 0);
  }
  // Whether the group has all units of its board, whose size is known; notes the size. A group.
  NANET_DEVICE bool holds(const ThreadUnits<B>& units, const Places& places, std::uint32_t mark,
                          Early& early) const {
    if (early.size == 0 || early.size == Early::several) return false;
    const std::uint32_t bytes = early.size & 0xFFFF, fragments = early.size >> 16;
    std::uint32_t needed = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < ThreadUnits<B>::most; ++j)
      if (places.begin[j] < (places.of_index >> j & 1 ? fragments : bytes)) needed |= 1u << j;
    early.missing = needed & ~early.had;
    if (!B::agree(early.missing == 0 && bytes <= places.reach)) return false;
    if (early.had & ~needed & places.of_index)
      clear_index(units, early.had & ~needed);  // no card writes them
    B::set(s_.held.size[units.board()], early.size);
    B::set(s_.held.mark[units.board()], mark);
    return true;
  }
  // Notes the sizes in a usual frame's event line. After complete(); any thread of each group.
  template <class Lines>
  NANET_DEVICE void note_sizes(const ThreadUnits<B>& units, const Lines& lines) const {
    const unsigned b = units.board();
    if (!units.used()) return;
    B::set(s_.held.size[b], HeldFrame::size_of(lines.bytes(b), lines.fragments(b)));
    B::set(s_.held.mark[b], lines.mark());
  }
  // Mask of units of the thread's first turn that a frame somewhat larger than the held one has; `before` if
  // none is held.
  NANET_DEVICE std::uint32_t likely(const ThreadUnits<B>& units, std::uint32_t before) const {
    if (sizes_.boards > HeldFrame::boards || !units.used()) return before;
    const std::uint32_t size = B::look(s_.held.size[units.board()]), bytes = size & 0xFFFF,
                        fragments = size >> 16;
    if (size == 0) return before;
    return units.holding(fragments + fragments / 4 + 8, smaller(bytes + bytes / 4 + 128, longest()));
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
      std::uint32_t* const to = room_for(units, j);
      NANET_UNROLLED
      for (unsigned i = 0; i < 3; ++i) to[i] = unit[j].word[i];
      missing &= ~(1u << j);
    }
  }

 private:
  NANET_DEVICE std::uint32_t* room_for(const ThreadUnits<B>& units, unsigned j) const {
    const unsigned b = units.board();
    return units.of_index(j)
               ? s_.merge.index[b] + contract::entries_per_unit * units.in_index(j)
               : reinterpret_cast<std::uint32_t*>(small_ + std::size_t{b} * sizes_.stride +
                                                  contract::unit_data_bytes * units.in_segment(j));
  }
  // Early::size by the first two words of a packet.
  NANET_DEVICE std::uint32_t size_by(std::uint32_t word, std::uint32_t next) const {
    namespace mgp = wire::mgp;
    const std::uint32_t flags = word >> 24 & (mgp::flag::last | mgp::flag::fixed), length = next & 0xFFFF,
                        fragments = next >> 16 & 0xFF, index = next >> 24 & 15;
    const bool only = flags == mgp::flag::last && index == 0 && length >= mgp::header_bytes &&
                      length <= longest() && fragments <= contract::index_entries;
    return only ? HeldFrame::size_of(length, fragments) : Early::several;
  }
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
