// SPDX-License-Identifier: Apache-2.0
// Fragments of a frame by their index (contract/fragment_index.hpp): check of an entry against the bytes, and
// the merging rule for fragments whose times are in order.
#pragma once

#include <utility>

#include "nanet/contract/fragment_index.hpp"
#include "nanet/gpu/frame/merge.hpp"

namespace nanet::gpu {

// Checks the index of a board: its entries are the fragments that a walk over the bytes finds, or a check
// fails. So an index of any content changes no result. Each thread checks entries alone: a fragment ends
// where the next one begins.
class IndexedBoard {
 public:
  static constexpr unsigned packets = contract::indexed_packets;

  // segment: bytes of the board at a multiple of 16; entry: index_entries words.
  NANET_DEVICE IndexedBoard(const std::byte* segment, std::uint32_t bytes, std::uint32_t fragments,
                            const std::uint32_t* entry)
      : segment_(segment), entry_(entry) {
    std::uint32_t at = 0, sequence = 0, found = 0;
    NANET_UNROLLED
    for (unsigned q = 0; q < packets; ++q) {
      if (at >= bytes) break;  // after the first packet, as a rule
      sound_ = at + 16 <= bytes;
      if (!sound_) break;
      const std::uint32_t word = full_word(segment + at), next = full_word(segment + at + 4),
                          number = full_word(segment + at + 8), length = next & 0xFFFF;
      const bool fixed = word >> 28 & 1;
      sound_ = !fixed && length >= 16 && at + length <= bytes && number >= sequence;
      if (!sound_) break;
      count_[q] = next >> 16 & 0xFF;
      found += count_[q];
      first_[q] = at + 16;
      stop_[q] = at + length;
      sequence = number;
      at += (length + 15) / 16 * 16;
    }
    sound_ = sound_ && at >= bytes && found == fragments;
  }
  // Whether the packets have as many fragments as the index, and are the usual ones.
  NANET_DEVICE bool sound() const { return sound_; }

  struct Found {
    std::uint32_t offset = 0, stored = 0, truncated = 0;  // offset: in the segment
    bool sound = false;                                   // the entry is right; else the rest is 0
  };
  // Fragment i < fragments of a sound board.
  NANET_DEVICE Found operator()(std::uint32_t i) const {
    std::uint32_t from = 0, to = count_[0], first = first_[0], stop = stop_[0];
    NANET_UNROLLED
    for (unsigned q = 1; q < packets; ++q) {
      if (i < to) break;
      from = to;
      to += count_[q];
      first = first_[q];
      stop = stop_[q];
    }
    return find(segment_, entry_, i, from, to, first, stop);
  }
  // The same for a board whose only packet, a usual one, has these bytes and fragments.
  NANET_DEVICE static Found of_only(const std::byte* segment, std::uint32_t bytes, std::uint32_t fragments,
                                    const std::uint32_t* entry, std::uint32_t i) {
    return find(segment, entry, i, 0, fragments, wire::mgp::header_bytes, bytes);
  }

 private:
  // Fragment i of a packet, whose fragments are `from` to `to` - 1 and lie at `first` to `stop` - 1.
  NANET_DEVICE static Found find(const std::byte* segment, const std::uint32_t* entries, std::uint32_t i,
                                 std::uint32_t from, std::uint32_t to, std::uint32_t first,
                                 std::uint32_t stop) {
    Found found;
    const std::uint32_t entry = entries[i], offset = contract::IndexEntry::offset(entry);
    if (offset % 2 || offset < first || offset + 8 > stop || (i == from && offset != first)) return found;
    const std::byte* const at = segment + offset;
    const std::uint32_t low = half_word(at), head = half_word(at + 4), rest = half_word(at + 6);
    const std::uint32_t stored = head >> 8, end = offset + 8 + 2 * stored;
    const std::uint32_t next = i + 1 < to ? contract::IndexEntry::offset(entries[i + 1]) : end;
    found.sound = stored <= max_fragment_hits && end <= stop && end == next &&
                  contract::IndexEntry::time(entry) == ((low & 0xFF) << 8 | (head & 0xFF));
    if (!found.sound) return found;
    found.offset = offset;
    found.stored = stored;
    found.truncated = (rest >> 8 & 1) != 0 || (rest & 0xFF) > stored ? 1 : 0;
    return found;
  }

  const std::byte* segment_;
  const std::uint32_t* entry_;
  std::uint32_t count_[packets] = {}, first_[packets] = {}, stop_[packets] = {};
  bool sound_ = true;
};

// Members of an event: of each of four boards the number of its fragment, 8 bits; `absent`: none.
inline constexpr unsigned join_boards = 4;
inline constexpr std::uint32_t absent_member = 0xFF;
// Fragments of a board, at most: of a frame at 10 MHz, and of any frame that is joined.
inline constexpr std::uint32_t usual_members = 128, most_members = contract::index_entries;
static_assert(most_members <= absent_member && most_members <= 2 * usual_members);

// Times of a board's fragments: half words, `stride` of them apart, in shared memory.
template <unsigned stride>
struct FragmentTimes {
  const std::byte* at;
  NANET_DEVICE std::uint32_t operator()(std::uint32_t i) const { return half_word(at + 2 * stride * i); }
};

// Merger::join() for up to most_members fragments of each board. Times: board -> FragmentTimes, above all
// times for i beyond the board's count. Read for i < usual_members, or < index_room if a board has more
// fragments; from most_members on only where all fragments are earlier, so that any value will do.
template <class Times, class Counts>
class FragmentJoin {
 public:
  // counts: board -> fragments.
  NANET_DEVICE FragmentJoin(const Times& times, const Counts& counts, std::uint32_t window)
      : times_(times), counts_(counts), window_(window) {
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) {
      const std::uint32_t count = counts(c);
      many_ = many_ || count > usual_members;
      few_ = few_ && count <= usual_members / 2;
    }
  }

  // Joins the fragments of the cluster that fragment i of a board begins, if it begins one; begun(number,
  // members) for each event, number: of fragments in earlier events. Returns false if the fragment is earlier
  // than the one before it. One thread for each fragment.
  template <class Begun>
  NANET_DEVICE bool operator()(unsigned board, std::uint32_t i, const Begun& begun) const {
    const auto own = times_(board);
    const std::uint32_t opened = own(i), before = i ? own(i - 1) : 0;
    if (i > 0 && before > opened) return false;
    if (i > 0 && opened - before <= window_) return true;
    // The other boards, in the order of their distance from the fragment's.
    const Row row[join_boards] = {own, times_(other(board, 1)), times_(other(board, 2)),
                                  times_(other(board, 3))};
    static_assert(join_boards == 4);
    std::uint32_t at[join_boards], count[join_boards], limit[join_boards];
    NANET_UNROLLED
    for (unsigned k = 0; k < join_boards; ++k) {
      at[k] = k ? 0 : i;
      count[k] = counts_(other(board, k));
      limit[k] = opened + (other(board, k) < board);
    }
    below(row, limit, count, at);
    std::uint32_t earlier[join_boards];
    NANET_UNROLLED
    for (unsigned k = 1; k < join_boards; ++k) earlier[k] = at[k] ? row[k](at[k] - 1) : 0;
    bool begins = true;
    NANET_UNROLLED
    for (unsigned k = 1; k < join_boards; ++k)
      begins = begins && !(at[k] > 0 && opened - earlier[k] <= window_);
    if (begins) cluster(board, row, count, at, opened, begun);
    return true;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  using Row = decltype(std::declval<const Times&>()(0u));

  // k-th board after `board`, which is the 0th.
  NANET_DEVICE static unsigned other(unsigned board, unsigned k) { return (board + k) % join_boards; }
  // at[k]: number of fragments of the k-th board, k > 0, with a time below limit[k]; boards in parallel.
  NANET_DEVICE void below(const Row (&row)[join_boards], const std::uint32_t (&limit)[join_boards],
                          const std::uint32_t (&count)[join_boards], std::uint32_t (&at)[join_boards]) const {
    if (many_) advance(usual_members, row, limit, at);
    if (!few_) advance(usual_members / 2, row, limit, at);
    NANET_UNROLLED
    for (std::uint32_t step = usual_members / 4; step > 0; step /= 2) advance(step, row, limit, at);
    NANET_UNROLLED
    for (unsigned k = 1; k < join_boards; ++k) {
      if (row[k](at[k]) < limit[k]) ++at[k];
      if (at[k] > count[k]) at[k] = count[k];
    }
  }
  NANET_DEVICE static void advance(std::uint32_t step, const Row (&row)[join_boards],
                                   const std::uint32_t (&limit)[join_boards],
                                   std::uint32_t (&at)[join_boards]) {
    std::uint32_t there[join_boards];
    NANET_UNROLLED
    for (unsigned k = 1; k < join_boards; ++k) there[k] = row[k](at[k] + step - 1);
    NANET_UNROLLED
    for (unsigned k = 1; k < join_boards; ++k) at[k] += there[k] < limit[k] ? step : 0;
  }
  template <class Begun>
  NANET_DEVICE void cluster(unsigned board, const Row (&row)[join_boards],
                            const std::uint32_t (&count)[join_boards], std::uint32_t (&at)[join_boards],
                            std::uint32_t latest, const Begun& begun) const {
    for (;;) {
      std::uint32_t head[join_boards], first = none, number = 0;
      NANET_UNROLLED
      for (unsigned k = 0; k < join_boards; ++k) {
        head[k] = at[k] < count[k] ? row[k](at[k]) : none;
        first = head[k] < first ? head[k] : first;
        number += at[k];
      }
      if (first == none || (first > latest && first - latest > window_)) return;
      std::uint32_t members = 0;
      NANET_UNROLLED
      for (unsigned k = 0; k < join_boards; ++k) {
        const bool take = head[k] != none && head[k] - first <= window_;
        members |= (take ? at[k] : absent_member) << 8 * other(board, k);
        if (take && head[k] > latest) latest = head[k];
        at[k] += take;
      }
      begun(number, members);
    }
  }

  const Times& times_;
  const Counts& counts_;
  std::uint32_t window_;
  bool many_ = false, few_ = true;  // the same in all threads
};

}  // namespace nanet::gpu
