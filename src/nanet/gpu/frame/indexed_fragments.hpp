// SPDX-License-Identifier: Apache-2.0
// Fragments of a frame with an index, by thread: joined into events by their times, while other threads check
// every entry and read the fragment's hits. Included by frame.hpp.
#pragma once

#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

template <class B>
class IndexedFragments {
 public:
  static constexpr std::uint32_t most = contract::index_entries, all = join_boards * most;
  static_assert(contract::index_boards == join_boards && most == most_members &&
                index_room >= 2 * usual_members);

  // in: the bytes, at `at` in shared memory. conditions: per PM, or null.
  NANET_DEVICE IndexedFragments(const Bytes& in, const std::byte* at, const Tables& tables, Merge& merge,
                                std::uint32_t window, const std::int16_t* conditions)
      : in_(in), at_(at), t_(tables), m_(merge), window_(window), conditions_(conditions) {}

  // Sum of the times of a fragment's hits; and hits stored, truncation, first and last PM ID.
  struct Info {
    std::int32_t times;
    std::uint32_t word;
    static constexpr unsigned truncated_at = 6, first_at = 8, last_at = 20;
    NANET_HD std::uint32_t stored() const { return word & 63; }
    NANET_HD std::uint32_t truncated() const { return word >> truncated_at & 1; }
    NANET_HD std::int32_t first() const { return static_cast<std::int32_t>(word >> first_at & 0x7FF); }
    NANET_HD std::int32_t last() const { return static_cast<std::int32_t>(word >> last_at & 0x7FF); }
  };
  // Entry of a fragment in tables of all fragments. The first one, of zeros, stands for those of absent
  // boards.
  static constexpr std::uint32_t entries = 1 + all;
  NANET_DEVICE static std::uint32_t entry(unsigned board, std::uint32_t i) { return 1 + board * most + i; }
  NANET_DEVICE static Info* infos(const Tables& tables) { return reinterpret_cast<Info*>(tables.fragment); }
  // A word per event, behind the Info of all fragments.
  NANET_DEVICE static std::uint32_t* event_list(const Tables& tables) {
    static_assert(entries * sizeof(Info) + all * sizeof(std::uint32_t) <= all * sizeof(Fragment));
    return reinterpret_cast<std::uint32_t*>(infos(tables) + entries);
  }
  // What an event's fragments give.
  struct Event {
    std::uint32_t hits = 0, time = 0, opened = ~std::uint32_t{0}, boards = 0, truncated = 0;
    bool usual = true;  // PM IDs ascend from board to board
  };

  NANET_DEVICE std::uint32_t total() const {
    std::uint32_t sum = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) sum += in_.fragments[c];
    return sum;
  }
  // f(board, fragment) for the thread's share of the fragments; false if it is false for any. Fragments are
  // numbered through all boards: a usual frame has fewer than half of the block's threads.
  template <class F>
  NANET_DEVICE bool each(unsigned t, unsigned threads, const F& f) const {
    std::uint32_t end[join_boards], sum = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) end[c] = sum += in_.fragments[c];
    bool good = true;
    for (std::uint32_t x = t; x < sum; x += threads) {
      unsigned b = 0;
      std::uint32_t first = 0;
      NANET_UNROLLED
      for (unsigned c = 0; c + 1 < join_boards; ++c)
        if (x >= end[c]) {
          b = c + 1;
          first = end[c];
        }
      good = f(b, x - first) && good;
    }
    return good;
  }
  // Writes ~members of the events that these fragments begin to Tables::slot, which has been zero, by the
  // number of earlier fragments. x: numbers of the fragments; there may be fewer. False if one is not in
  // order of time. counts: as in FragmentJoin.
  template <std::size_t n, class Counts>
  NANET_DEVICE bool join(const std::uint32_t (&x)[n], const Counts& counts) const {
    const auto times_of = [&](unsigned c) {  // the upper half of an entry
      return FragmentTimes<2>{reinterpret_cast<const std::byte*>(m_.index[c]) + 2};
    };
    using Join = FragmentJoin<decltype(times_of), Counts>;
    const Join joiner(times_of, counts, window_);
    typename Join::Place of[n];
    NANET_UNROLLED
    for (std::size_t j = 0; j < n; ++j) {
      of[j] = {0, 0, false};
      each(x[j], all, [&](unsigned b, std::uint32_t i) {
        of[j] = {b, i, true};
        return true;
      });
    }
    return joiner(of, [&](std::uint32_t number, std::uint32_t members) { t_.slot[number] = ~members; });
  }
  // take(board, fragment, found) for fragment x. False for any but the usual bytes.
  template <class Take>
  NANET_DEVICE bool check(std::uint32_t x, const Take& take) const {
    return each(x, all, [&](unsigned b, std::uint32_t i) {
      if (b >= in_.boards) return false;
      const IndexedBoard own = board(b);
      if (!own.sound()) return false;
      const IndexedBoard::Found found = own(i);
      return found.sound && take(b, i, found);
    });
  }
  // Index of a board; sound: the packets are the usual ones, with as many fragments as the index.
  NANET_DEVICE IndexedBoard board(unsigned own) const {
    std::uint32_t bytes = 0, count = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c)
      if (c == own) {
        bytes = in_.bytes[c];
        count = in_.fragments[c];
      }
    return {at_ + std::size_t{own} * in_.stride, bytes, count, m_.index[own]};
  }
  // Reads a fragment's hits: four(ids) for the PM IDs of each four hits, in place of absent ones pm_count and
  // above. False if PM IDs do not ascend, or are invalid or masked.
  template <class Four>
  NANET_DEVICE bool read(unsigned b, std::uint32_t i, const IndexedBoard::Found& found, Info& info,
                         const Four& four) const {
    constexpr unsigned together = 4;  // loads in flight, also of half words behind the last hit
    static_assert(pm_count + together <= 0x800);
    const std::byte* const hits = hits_of(b, found.offset);
    const std::uint32_t stored = found.stored, first = half_word(hits) & 0x7FF,
                        last = half_word(hits - 2 + 2 * stored) & 0x7FF;
    std::int32_t late = 0, before = -1;  // late: 2^11 times the sum of the hits' differences
    bool bad = false;
    for (std::uint32_t h = 0; h < stored; h += together) {
      std::int32_t word[together], id[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) word[k] = signed_half_word(hits + 2 * (h + k));
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        word[k] = h + k < stored ? word[k] : static_cast<std::int32_t>(pm_count + k);
        id[k] = word[k] & 0x7FF;
      }
      four(id);
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        bad |= id[k] <= before;
        before = id[k];
        late += word[k] - id[k];
      }
    }
    bad |= stored != 0 && last >= pm_count;
    std::int32_t times = static_cast<std::int32_t>(stored * time(b, i)) + (late >> 9);
    if (conditions_)
      for (std::uint32_t h = 0; !bad && h < stored; ++h) {
        const std::int32_t t0 = conditions_[half_word(hits + 2 * h) & 0x7FF];
        bad = t0 == masked_pm;
        times -= t0;
      }
    info = {times,
            stored | found.truncated << Info::truncated_at | first << Info::first_at | last << Info::last_at};
    return !bad;
  }
  // f(board, fragment) for each member of an event.
  template <class F>
  NANET_DEVICE static void each_member(std::uint32_t members, const F& f) {
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) {
      const std::uint32_t member = members >> 8 * c & 0xFF;
      if (member != absent_member) f(c, member);
    }
  }
  // Before a frame: the entry of absent boards, and entries of the index behind all fragments, which hold
  // their times too.
  NANET_DEVICE static void prepare(unsigned t, const Tables& tables, Merge& merge) {
    static_assert(absent_member < index_room);
    if (t == 0) infos(tables)[0] = {0, 0};
    for (std::uint32_t i = most; t < join_boards && i < index_room; ++i)
      merge.index[t][i] = contract::IndexEntry::none;
  }
  // An event by the infos of its members; member(entry) for each board. Without branches, so that the loads
  // of all boards are in flight together.
  template <class F>
  NANET_DEVICE Event event(std::uint32_t members, const F& member) const {
    Event e;
    std::int32_t times = 0, last = -1;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) {
      const std::uint32_t own = members >> 8 * c & 0xFF;
      const bool present = own != absent_member;
      const std::uint32_t at = present ? entry(c, own) : 0;
      const Info info = infos(t_)[at];
      member(at);
      const std::uint32_t opened = time(c, own);
      e.opened = opened < e.opened ? opened : e.opened;
      e.boards |= std::uint32_t{present} << c;
      e.truncated |= info.truncated();
      const std::uint32_t stored = info.stored();
      e.usual = e.usual && (stored == 0 || info.first() > last);
      last = stored ? info.last() : last;
      e.hits += stored;
      times += info.times;
    }
    e.time = e.hits ? Merger<B>::mean_time(times, e.hits) : e.opened;
    return e;
  }
  NANET_DEVICE const std::byte* hits_of(unsigned b, std::uint32_t offset) const {
    return at_ + std::size_t{b} * in_.stride + offset + 8;
  }
  NANET_DEVICE std::uint32_t offset(unsigned b, std::uint32_t i) const {
    return contract::IndexEntry::offset(m_.index[b][i]);
  }

 private:
  NANET_DEVICE std::uint32_t time(unsigned b, std::uint32_t i) const {
    return contract::IndexEntry::time(m_.index[b][i]);
  }
  const Bytes& in_;
  const std::byte* at_;
  const Tables& t_;
  Merge& m_;
  std::uint32_t window_;
  const std::int16_t* conditions_;
};

}  // namespace nanet::gpu
