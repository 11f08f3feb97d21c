// SPDX-License-Identifier: Apache-2.0
// Frame with an index, for algorithms of exact sums: from its bytes in shared memory to the answer. Half of
// the threads join fragments by their times in the index; the others check every entry and sum each
// fragment's hits. Then a thread per event adds its fragments' sums, fits and decides. Included by frame.hpp.
//
// Latency is the longest chain of dependent instructions: hits need no table of the events, and the sums wait
// for no join.
#pragma once

#include "nanet/gpu/frame/summed_frame.hpp"

namespace nanet::gpu {

template <Summed A, class B>
class IndexedFrame : public SummedFrame<A, B> {
  using Base = SummedFrame<A, B>;
  using Base::s_, Base::t_, Base::options_, Base::workspace_;

 public:
  static constexpr std::uint32_t most = contract::index_entries, fragments = join_boards * most;
  static_assert(contract::index_boards == join_boards && most == most_members);

  // at: the bytes, in shared memory. tables: in shared memory, of at least `fragments`.
  NANET_DEVICE IndexedFrame(const Bytes& in, const std::byte* at, const Tables& tables, FrameShared& shared,
                            const A& algorithm, const FrameOptions& options, const Workspace<A>& workspace,
                            std::uint32_t frame, bool incomplete)
      : Base(tables, shared, algorithm, options, workspace, frame, incomplete), in_(in), at_(at) {}

  // Sets events. All threads; the members of FrameShared and `slot` of the tables have been prepared.
  template <class Clock>
  NANET_DEVICE NANET_INLINED FrameResult run(const Clock& clock, const AnswerLines& answer,
                                             std::uint32_t& events) {
    const bool careful = B::any([&](unsigned t) {
      const unsigned half = B::threads() / 2;
      if (t == 0) s_.merge.pm_used = 0;
      return t < half ? !join(t, half) : !sum(t - half, half);
    });
    if (careful) return FrameResult::other;
    B::one([&] { s_.trace.built = clock(); });
    std::uint32_t total = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) total += in_.fragments[c];
    events = B::number(t_.slot, total, s_.merge.room,
                       [&](std::uint32_t slot, std::uint32_t e) { reconstruct(e, ~t_.slot[slot]); });
    if (s_.careful) return FrameResult::other;
    const FrameResult result = Base::answer(events, answer, clock);
    if (workspace_.rings) unpack(events);
    return result;
  }

 private:
  // Result of sum() for a fragment. word: hits stored, truncation, first and last PM ID.
  struct Info {
    std::int32_t times;
    std::uint32_t word;
    static constexpr unsigned truncated_at = 6, first_at = 8, last_at = 20;
    NANET_HD std::uint32_t stored() const { return word & 63; }
    NANET_HD std::uint32_t truncated() const { return word >> truncated_at & 1; }
    NANET_HD std::int32_t first() const { return static_cast<std::int32_t>(word >> first_at & 0x7FF); }
    NANET_HD std::int32_t last() const { return static_cast<std::int32_t>(word >> last_at & 0x7FF); }
  };
  NANET_DEVICE EventSums<A>* sums() const { return reinterpret_cast<EventSums<A>*>(t_.fragment); }
  NANET_DEVICE Info* infos() const { return reinterpret_cast<Info*>(t_.member); }
  NANET_DEVICE std::uint32_t* event_members() const { return t_.slot + fragments; }

  // f(board, fragment) for the thread's share of the fragments; false if it is false for any. Fragments are
  // numbered through all boards: a usual frame has fewer than half of the block's threads.
  template <class F>
  NANET_DEVICE bool each_fragment(unsigned t, unsigned threads, const F& f) const {
    std::uint32_t end[join_boards], total = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) end[c] = total += in_.fragments[c];
    bool good = true;
    for (std::uint32_t x = t; x < total; x += threads) {
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
  // Index of a board; sound: the packets are the usual ones, with as many fragments as the index.
  NANET_DEVICE IndexedBoard board(unsigned own) const {
    std::uint32_t bytes = 0, count = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c)
      if (c == own) {
        bytes = in_.bytes[c];
        count = in_.fragments[c];
      }
    return {at_ + std::size_t{own} * in_.stride, bytes, count, s_.merge.index[own]};
  }
  NANET_DEVICE bool join(unsigned t, unsigned threads) const {
    const auto time = [&](unsigned c, std::uint32_t i) {
      return contract::IndexEntry::time(s_.merge.index[c][i]);
    };
    const FragmentJoin<decltype(time)> joiner(time, in_.fragments, options_.window);
    return each_fragment(t, threads, [&](unsigned b, std::uint32_t i) {
      return joiner(b, i, [&](std::uint32_t number, std::uint32_t members) { t_.slot[number] = ~members; });
    });
  }
  // Checks the thread's fragments, and sums their hits. Returns false for any but the usual bytes.
  NANET_DEVICE bool sum(unsigned t, unsigned threads) const {
    // Boards without fragments too; by the threads that have the fewest fragments.
    const unsigned last = threads - 1 - t;
    bool good = true;
    if (last < in_.boards) good = board(last).sound();
    return each_fragment(t, threads,
                         [&](unsigned b, std::uint32_t i) {
                           if (b >= in_.boards) return false;
                           const IndexedBoard own = board(b);
                           if (!own.sound()) return false;
                           const IndexedBoard::Found found = own(i);
                           const std::byte* const segment = at_ + std::size_t{b} * in_.stride;
                           return found.sound && add_hits(segment + found.offset + 8, found, b * most + i,
                                                          contract::IndexEntry::time(s_.merge.index[b][i]));
                         }) &&
           good;
  }
  NANET_DEVICE bool add_hits(const std::byte* hits, const IndexedBoard::Found& found, std::uint32_t to,
                             std::uint32_t time) const {
    const std::uint32_t* const pairs = A::pairs(workspace_.plane);
    const std::int16_t* const conditions = workspace_.conditions;
    constexpr unsigned together = 4;  // look-ups in flight
    typename A::WholeSums total;
    std::int32_t times = static_cast<std::int32_t>(found.stored * time), last = -1;
    std::uint32_t first = 0;
    bool good = true;
    for (std::uint32_t h = 0; h < found.stored; h += together) {
      std::uint32_t word[together], pair[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k)
        word[k] = half_word(hits + 2 * (h + k < found.stored ? h + k : h));
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) pair[k] = h + k < found.stored ? pairs[word[k] & 0x7FF] : 0;
      if (h == 0) first = word[0] & 0x7FF;
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        total.add(pair[k]);
        if (h + k >= found.stored) continue;
        const auto id = static_cast<std::int32_t>(word[k] & 0x7FF);
        good &= id > last && id < static_cast<std::int32_t>(pm_count);
        last = id;
        times += (static_cast<std::int16_t>(word[k]) >> 11) * 4;
        if (conditions) {
          const std::int32_t t0 = conditions[id];
          good &= t0 != masked_pm;
          times -= t0;
        }
      }
    }
    EventSums<A> words;
    NANET_UNROLLED
    for (unsigned w = 0; w < A::words; ++w) words.word[w] = A::word(total, w);
    sums()[to] = words;
    infos()[to] = {times, found.stored | found.truncated << Info::truncated_at | first << Info::first_at |
                              (static_cast<std::uint32_t>(last) & 0x7FF) << Info::last_at};
    return good;
  }

  // Event e of these members: sums, time, ring and primitive. One thread.
  NANET_DEVICE void reconstruct(std::uint32_t e, std::uint32_t members) const {
    EventSums<A> total{};
    std::uint32_t hits = 0, opened = Base::no_primitive, mask = 0, truncated = 0;
    std::int32_t times = 0, last = -1;
    bool good = true;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) {
      const std::uint32_t member = members >> 8 * c & 0xFF;
      if (member == absent_member) continue;
      const Info info = infos()[c * most + member];
      const EventSums<A> part = sums()[c * most + member];
      const std::uint32_t time = contract::IndexEntry::time(s_.merge.index[c][member]);
      NANET_UNROLLED
      for (unsigned w = 0; w < A::words; ++w)
        total.word[w] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total.word[w]) +
                                                  static_cast<std::uint32_t>(part.word[w]));
      opened = time < opened ? time : opened;
      mask |= 1u << c;
      truncated |= info.truncated();
      if (info.stored() == 0) continue;
      good &= info.first() > last;
      last = info.last();
      hits += info.stored();
      times += info.times;
    }
    if (!good) s_.careful = 1;
    const std::uint32_t time = hits ? Merger<B>::mean_time(times, hits) : opened;
    Base::decide(e, total, hits, time, opened, mask, truncated, [&] {
      event_members()[e] = members;
      return B::add(s_.merge.pm_used, hits);
    });
  }

  // PM IDs of the events, for a sampled frame. A thread per fragment.
  NANET_DEVICE void unpack(std::uint32_t events) const {
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < join_boards * events; x += B::threads()) {
        const std::uint32_t e = x / join_boards, c = x % join_boards, members = event_members()[e];
        std::uint32_t to = t_.event[e].first;
        for (unsigned before = 0; before < c; ++before) {
          const std::uint32_t member = members >> 8 * before & 0xFF;
          if (member != absent_member) to += infos()[before * most + member].stored();
        }
        const std::uint32_t member = members >> 8 * c & 0xFF;
        if (member == absent_member) continue;
        const std::byte* const hits =
            at_ + std::size_t{c} * in_.stride + contract::IndexEntry::offset(s_.merge.index[c][member]) + 8;
        const std::uint32_t stored = infos()[c * most + member].stored();
        for (std::uint32_t h = 0; h < stored; ++h)
          t_.pm[to + h] = static_cast<PmId>(half_word(hits + 2 * h) & 0x7FF);
      }
    });
  }

  const Bytes& in_;
  const std::byte* at_;
};

}  // namespace nanet::gpu
