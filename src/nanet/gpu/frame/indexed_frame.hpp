// SPDX-License-Identifier: Apache-2.0
// Frame with an index, for algorithms of exact sums: from its fragments, which are joined and whose hits are
// summed (fragment_work.hpp), to the answer. A thread per event adds its fragments' sums, fits and decides.
// All by the threads of B.
// Included by frame.hpp.
#pragma once

#include "nanet/gpu/frame/indexed_fragments.hpp"
#include "nanet/gpu/frame/summed_frame.hpp"

namespace nanet::gpu {

template <Summed A, class B>
class IndexedFrame : public SummedFrame<A, B> {
  using Base = SummedFrame<A, B>;
  using Base::s_, Base::t_, Base::options_, Base::workspace_;

 public:
  // Bytes from Tables::member on.
  NANET_HD static constexpr std::size_t sums_bytes(unsigned boards) {
    return sizeof(EventSums<A>) * (1 + IndexedFragments<B>::most * boards);
  }

  // at: the bytes, in shared memory. tables: in shared memory, of at least IndexedFragments::all.
  NANET_DEVICE IndexedFrame(const Bytes& in, const std::byte* at, const Tables& tables, FrameShared& shared,
                            const A& algorithm, const FrameOptions& options, const Workspace<A>& workspace,
                            std::uint32_t frame, bool incomplete)
      : Base(tables, shared, algorithm, options, workspace, frame, incomplete),
        fragments_(in, at, tables, shared.merge, options.window, workspace.conditions) {}

  // Sums of the hits of fragment i of board b, and its Info, to the tables. False for any but the usual
  // bytes.
  NANET_DEVICE static bool read(const IndexedFragments<B>& fragments, const Tables& tables,
                                const typename PlaneOf<A>::type* plane, unsigned b, std::uint32_t i,
                                const IndexedBoard::Found& found) {
    const std::uint32_t* const pairs = A::pairs(plane);
    typename A::WholeSums sum;
    const std::uint32_t to = Fragments::entry(b, i);
    const bool good = fragments.read(b, i, found, Fragments::infos(tables)[to], [&](const auto& ids) {
      constexpr unsigned together = sizeof ids / sizeof ids[0];
      std::uint32_t pair[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) pair[k] = pairs[ids[k]];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) sum.add(pair[k]);
    });
    EventSums<A> words;
    NANET_UNROLLED
    for (unsigned w = 0; w < A::words; ++w) words.word[w] = A::word(sum, w);
    sums(tables)[to] = words;
    return good;
  }
  // Before a frame: the entry of absent boards. Thread t.
  NANET_DEVICE static void prepare(unsigned t, const Tables& tables) {
    if (t == 0) sums(tables)[0] = {};
  }
  // The events, with their primitives; `none` for a frame that needs the careful way. total: number of
  // fragments. The members of FrameShared and `slot` of the tables have been prepared.
  template <class Beside>
  NANET_DEVICE NANET_INLINED BuiltFrame build(std::uint32_t total, const Beside& beside) {
    BuiltFrame built;
    built.events = B::number_all(
        t_.slot, total, s_.merge.room, event_members(),
        [&](std::uint32_t slot, std::uint32_t e) { reconstruct(e, ~t_.slot[slot]); }, beside);
    B::one([&] { Base::set_header(built.events); });
    built.ordered = Base::ordered(built.events);
    if (s_.careful) built.events = BuiltFrame::none;
    return built;
  }
  // PM IDs of a sampled frame's events.
  NANET_DEVICE void unpack_sampled(std::uint32_t events) const {
    if (workspace_.rings) unpack(events);
  }

 private:
  using Fragments = IndexedFragments<B>;
  // In place of the fragments' lists and of the PM IDs behind them, which unpack() writes later.
  NANET_DEVICE static EventSums<A>* sums(const Tables& t) {
    return reinterpret_cast<EventSums<A>*>(t.member);
  }
  NANET_DEVICE std::uint32_t* event_members() const { return Fragments::event_list(t_); }

  // Event e of these members: sums, time, ring and primitive. One thread.
  NANET_DEVICE void reconstruct(std::uint32_t e, std::uint32_t members) const {
    EventSums<A> total{};
    const auto event = fragments_.event(members, [&](std::uint32_t entry) {
      const EventSums<A> part = sums(t_)[entry];
      NANET_UNROLLED
      for (unsigned w = 0; w < A::words; ++w)
        total.word[w] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total.word[w]) +
                                                  static_cast<std::uint32_t>(part.word[w]));
    });
    if (!event.usual) s_.careful = 1;
    Base::decide(e, total, event.hits, event.time, event.opened, event.boards, event.truncated, [&] {
      event_members()[e] = members;
      return B::add(s_.merge.pm_used, event.hits);
    });
  }

  // PM IDs of the events, for a sampled frame. A thread per fragment.
  NANET_DEVICE void unpack(std::uint32_t events) const {
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < join_boards * events; x += B::threads()) {
        const std::uint32_t e = x / join_boards, own = x % join_boards;
        std::uint32_t to = t_.event[e].first;
        Fragments::each_member(event_members()[e], [&](unsigned c, std::uint32_t i) {
          const std::uint32_t stored = Fragments::infos(t_)[Fragments::entry(c, i)].stored();
          if (c < own) to += stored;
          if (c != own) return;
          const std::byte* const hits = fragments_.hits_of(c, fragments_.offset(c, i));
          for (std::uint32_t h = 0; h < stored; ++h)
            t_.pm[to + h] = static_cast<PmId>(half_word(hits + 2 * h) & 0x7FF);
        });
      }
    });
  }

  const IndexedFragments<B> fragments_;
};

}  // namespace nanet::gpu
