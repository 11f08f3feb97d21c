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

  // segment: bytes of the board at a multiple of 16, at least 16; entry: index_entries words and two more.
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
    bool sound = false;                                   // the entry is right; else the rest is any
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
  // The same for a board whose only packet, a usual one, has these bytes and fragments. The last entry is
  // right if ones follow it in its unit.
  NANET_DEVICE static Found of_only(const std::byte* segment, std::uint32_t bytes, std::uint32_t fragments,
                                    const std::uint32_t* entry, std::uint32_t i) {
    static_assert(contract::entries_per_unit == 3 && contract::IndexEntry::none == ~std::uint32_t{0});
    Found found = find(segment, entry, i, 0, fragments, wire::mgp::header_bytes, bytes);
    found.sound &= (i + 1 != fragments) | ((entry[i + 1] & entry[i + 2]) == contract::IndexEntry::none);
    return found;
  }

 private:
  // Fragment i of a packet, whose fragments are `from` to `to` - 1 and lie at `first` to `stop` - 1.
  NANET_DEVICE static Found find(const std::byte* segment, const std::uint32_t* entries, std::uint32_t i,
                                 std::uint32_t from, std::uint32_t to, std::uint32_t first,
                                 std::uint32_t stop) {
    // Without branches: the loads of all threads then go together.
    const std::uint32_t entry = entries[i], following = entries[i + 1],
                        offset = contract::IndexEntry::offset(entry);
    const bool inside =
        !(offset & 1) & (offset >= first) & (offset + 8 <= stop) & ((i != from) | (offset == first));
    const std::byte* const at = segment + (inside ? offset : 0);
    const std::uint32_t low = half_word(at), head = half_word(at + 4), rest = half_word(at + 6);
    Found found;
    found.offset = offset;
    found.stored = head >> 8;
    found.truncated = (rest >> 8 & 1) | ((rest & 0xFF) > found.stored ? 1 : 0);
    const std::uint32_t end = offset + 8 + 2 * found.stored;
    const std::uint32_t next = i + 1 < to ? contract::IndexEntry::offset(following) : end;
    found.sound = inside & (found.stored <= max_fragment_hits) & (end <= stop) & (end == next) &
                  (contract::IndexEntry::time(entry) == ((low & 0xFF) << 8 | (head & 0xFF)));
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

  // A fragment; `there` is false for none.
  struct Place {
    unsigned board;
    std::uint32_t i;
    bool there;
  };
  // Joins the fragments of the clusters that these fragments begin, of those that begin one; begun(number,
  // members) for each event, number: of fragments in earlier events. Returns false if one of them is earlier
  // than the one before it on its board. Each fragment has one thread, which may have several: their chains
  // of instructions then run side by side.
  template <std::size_t n, class Begun>
  NANET_DEVICE bool operator()(const Place (&of)[n], const Begun& begun) const {
    Search search[n];
    bool good = true;
    NANET_UNROLLED
    for (unsigned j = 0; j < n; ++j) {
      const unsigned board = of[j].board;
      const std::uint32_t i = of[j].i;
      Search& s = search[j];
      const auto own = times_(board);
      const std::uint32_t before = i ? own(i - 1) : 0;
      s.latest = own(i);
      good = good && !(of[j].there && i > 0 && before > s.latest);
      s.begins = of[j].there && (i == 0 || (before <= s.latest && s.latest - before > window_));
      // The other boards, in the order of their distance from the fragment's.
      NANET_UNROLLED
      for (unsigned k = 0; k < join_boards; ++k) {
        s.board[k] = other(board, k);
        s.row[k] = times_(s.board[k]);
        s.at[k] = k ? 0 : i;
        s.count[k] = counts_(s.board[k]);
        s.limit[k] = s.latest + (s.board[k] < board);
      }
    }
    below(search);
    NANET_UNROLLED
    for (unsigned j = 0; j < n; ++j) {
      Search& s = search[j];
      NANET_UNROLLED
      for (unsigned k = 1; k < join_boards; ++k)
        s.begins = s.begins && !(s.at[k] > 0 && s.latest - s.row[k](s.at[k] - 1) <= window_);
    }
    clusters(search, begun);
    return good;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  using Row = decltype(std::declval<const Times&>()(0u));
  // State of a fragment's search. By board: number of fragments before the cluster, or joined already; count;
  // times below which fragments are before it. begins: it begins a cluster, whose latest time this is.
  struct Search {
    Row row[join_boards];
    unsigned board[join_boards];
    std::uint32_t at[join_boards], count[join_boards], limit[join_boards], latest;
    bool begins;
  };

  // k-th board after `board`, which is the 0th.
  NANET_DEVICE static unsigned other(unsigned board, unsigned k) { return (board + k) % join_boards; }
  // at[k]: number of fragments of the k-th board, k > 0, with a time below limit[k]; boards in parallel.
  template <std::size_t n>
  NANET_DEVICE void below(Search (&search)[n]) const {
    if (many_) advance(usual_members, search);
    if (!few_) advance(usual_members / 2, search);
    NANET_UNROLLED
    for (std::uint32_t step = usual_members / 4; step > 0; step /= 2) advance(step, search);
    NANET_UNROLLED
    for (unsigned j = 0; j < n; ++j) {
      Search& s = search[j];
      NANET_UNROLLED
      for (unsigned k = 1; k < join_boards; ++k) {
        if (s.row[k](s.at[k]) < s.limit[k]) ++s.at[k];
        if (s.at[k] > s.count[k]) s.at[k] = s.count[k];
      }
    }
  }
  template <std::size_t n>
  NANET_DEVICE static void advance(std::uint32_t step, Search (&search)[n]) {
    std::uint32_t there[n][join_boards];
    NANET_UNROLLED
    for (unsigned j = 0; j < n; ++j) {
      NANET_UNROLLED
      for (unsigned k = 1; k < join_boards; ++k) there[j][k] = search[j].row[k](search[j].at[k] + step - 1);
    }
    NANET_UNROLLED
    for (unsigned j = 0; j < n; ++j) {
      NANET_UNROLLED
      for (unsigned k = 1; k < join_boards; ++k)
        search[j].at[k] += there[j][k] < search[j].limit[k] ? step : 0;
    }
  }
  // Takes the events of the clusters one after the other, of all fragments side by side.
  template <std::size_t n, class Begun>
  NANET_DEVICE void clusters(Search (&search)[n], const Begun& begun) const {
    for (;;) {
      std::uint32_t head[n][join_boards], first[n], number[n];
      bool any = false;
      NANET_UNROLLED
      for (unsigned j = 0; j < n; ++j) {
        Search& s = search[j];
        first[j] = none;
        number[j] = 0;
        NANET_UNROLLED
        for (unsigned k = 0; k < join_boards; ++k) {
          head[j][k] = s.at[k] < s.count[k] ? s.row[k](s.at[k]) : none;
          first[j] = head[j][k] < first[j] ? head[j][k] : first[j];
          number[j] += s.at[k];
        }
        s.begins = s.begins && first[j] != none && (first[j] <= s.latest || first[j] - s.latest <= window_);
        any = any || s.begins;
      }
      if (!any) return;
      NANET_UNROLLED
      for (unsigned j = 0; j < n; ++j) {
        Search& s = search[j];
        std::uint32_t members = 0;
        NANET_UNROLLED
        for (unsigned k = 0; k < join_boards; ++k) {
          const bool take = head[j][k] != none && head[j][k] - first[j] <= window_;
          members |= (take ? s.at[k] : absent_member) << 8 * s.board[k];
          if (take && head[j][k] > s.latest) s.latest = head[j][k];
          s.at[k] += take;
        }
        if (s.begins) begun(number[j], members);
      }
    }
  }

  const Times& times_;
  const Counts& counts_;
  std::uint32_t window_;
  bool many_ = false, few_ = true;  // the same in all threads
};

}  // namespace nanet::gpu
