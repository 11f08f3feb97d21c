// SPDX-License-Identifier: Apache-2.0
// Frame with an index, for algorithms of exact sums: from its bytes in shared memory to the answer. Half of
// the threads join fragments by their times in the index; the others check every entry and sum each
// fragment's hits. Then a thread per event adds its fragments' sums, fits and decides. Included by frame.hpp.
//
// Latency is the longest chain of dependent instructions: hits need no table of the events, and the sums wait
// for no join.
#pragma once

namespace nanet::gpu {

template <Summed A, class B>
class IndexedFrame {
 public:
  static constexpr std::uint32_t most = contract::index_entries, fragments = join_boards * most;
  static_assert(contract::index_boards == join_boards && most == most_members);
  enum class Result : std::uint8_t {
    other,      // not done, without effect on the counts: the frame needs the careful way
    unordered,  // events and counts are ready; primitives are to be ordered
    answered
  };

  // at: the bytes, in shared memory. tables: in shared memory, of at least `fragments`.
  NANET_DEVICE IndexedFrame(const Bytes& in, const std::byte* at, const Tables& tables, FrameShared& shared,
                            const A& algorithm, const FrameOptions& options, const Workspace<A>& workspace,
                            std::uint32_t frame, bool incomplete)
      : in_(in),
        at_(at),
        t_(tables),
        s_(shared),
        algorithm_(algorithm),
        options_(options),
        workspace_(workspace),
        frame_(frame),
        incomplete_(incomplete) {}

  // Sets events. All threads; the members of FrameShared and `slot` of the tables have been prepared.
  template <class Clock>
  NANET_DEVICE NANET_INLINED Result run(const Clock& clock, const AnswerLines& answer,
                                        std::uint32_t& events) {
    const bool careful = B::any([&](unsigned t) {
      const unsigned half = B::threads() / 2;
      if (t == 0) s_.merge.pm_used = 0;
      return t < half ? !join(t, half) : !sum(t - half, half);
    });
    if (careful) return Result::other;
    B::one([&] { s_.trace.built = clock(); });
    std::uint32_t total = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < join_boards; ++c) total += in_.fragments[c];
    events = B::number(t_.slot, total, s_.merge.room,
                       [&](std::uint32_t slot, std::uint32_t e) { reconstruct(e, ~t_.slot[slot]); });
    if (s_.careful) return Result::other;
    const std::uint32_t words = events ? header + 1 + events : header;
    const bool fits = events <= most_primitives;
    const bool ordered = fits && B::every(events, [&](std::uint32_t e) {
                           const std::uint32_t key = t_.key[e];
                           return key != no_primitive && (e == 0 || t_.key[e - 1] <= key);
                         });
    const std::uint32_t head[header] = {options_.source << 24 | (frame_ & 0xFFFFFF),
                                        events << 16 | 4 * words};
    B::each([&](unsigned t) {
      if (ordered) answer.write(head, frame_ & 0xFFFFFF, s_.packet, words, t, B::threads());
      for (std::uint32_t e = t; e < events; e += B::threads()) count(t_.event[e]);
      if (t != 0) return;
      s_.events += events;
      s_.trace.reconstructed = clock();
      if (!ordered) return;
      s_.packet[0] = head[0];
      s_.packet[1] = head[1];
      if (events) s_.packet[header] = frame_ & 0xFFFFFF;
      s_.words = words;
      s_.primitives = events;
      s_.stamp = frame_;
    });
    if (workspace_.rings) unpack(events);
    return ordered ? Result::answered : Result::unordered;
  }

 private:
  static constexpr std::uint32_t no_primitive = ~std::uint32_t{0};
  static constexpr std::uint32_t header = wire::mtp::header_bytes / 4;
  static constexpr std::uint32_t most_primitives =  // of an answer
      wire::mtp::max_primitives < packet_words - header - 1 ? wire::mtp::max_primitives
                                                            : packet_words - header - 1;
  // BuiltEvent::members until the counts are taken: no primitive, suppressed, kind, rings.
  static constexpr unsigned below_bit = 0, scaled_bit = 1, kind_at = 2, rings_at = 8;

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
    std::uint32_t hits = 0, opened = no_primitive, mask = 0, truncated = 0;
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
    const rich::Rings rings = algorithm_.ring(total.moments(true), hits);
    std::uint32_t id =
        trigger::decide_event(hits, rings.ambiguous, incomplete_ || truncated, options_.decision);
    if (rings.count) id |= trigger::decide_leading(rings.ring[0], 1, options_.decision);
    if (hits < options_.decision.min_hits) id = 0;
    std::uint32_t flags = static_cast<std::uint32_t>(rings.count) << rings_at;
    if (id == 0) {
      flags |= 1u << below_bit;
    } else if (options_.downscaling) {
      const unsigned kind = trigger::kind_of(static_cast<std::uint16_t>(id));
      if (!trigger::downscale_keeps(static_cast<Lsb>(frame_) * lsb_per_frame + time, options_.factor[kind])) {
        flags |= 1u << scaled_bit | kind << kind_at;
        id = 0;
      }
    }
    BuiltEvent event;
    event.first = 0;
    event.time = static_cast<std::uint16_t>(time);
    event.opened = static_cast<std::uint16_t>(opened);
    event.hits = static_cast<std::uint16_t>(hits);
    event.members = static_cast<std::uint16_t>(flags);
    event.primitive = static_cast<std::uint16_t>(id);
    event.boards = static_cast<std::uint8_t>(mask);
    event.truncated = static_cast<std::uint8_t>(truncated);
    if (workspace_.rings) {
      event.first = B::add(s_.merge.pm_used, hits);
      event_members()[e] = members;
      workspace_.rings[e] = rings;
    }
    t_.event[e] = event;
    t_.key[e] = id ? time << 16 | e : no_primitive;
    if (e < most_primitives) s_.packet[header + 1 + e] = id << 16 | time;
  }
  NANET_DEVICE void count(const BuiltEvent& event) const {
    const std::uint32_t flags = event.members;
    B::add(s_.with_rings[flags >> rings_at], 1);
    if (flags >> below_bit & 1) B::add(s_.below, 1);
    if (flags >> scaled_bit & 1) B::add(s_.downscaled[flags >> kind_at & 3], 1);
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
  const Tables& t_;
  FrameShared& s_;
  const A& algorithm_;
  const FrameOptions& options_;
  const Workspace<A>& workspace_;
  std::uint32_t frame_;
  bool incomplete_;
};

}  // namespace nanet::gpu
