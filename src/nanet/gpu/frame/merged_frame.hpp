// SPDX-License-Identifier: Apache-2.0
// Merged frame whose rows and hits are as a card writes them, for algorithms of exact sums: from its rows in
// shared memory to the answer. Eight threads check a row and sum its hits, then a thread per event fits and
// decides: three block barriers, no clusters, no table of hits. Included by frame.hpp.
#pragma once

#include "nanet/gpu/frame/summed_frame.hpp"
#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

template <Summed A, class B>
class MergedFrame : public SummedFrame<A, B> {
  using Base = SummedFrame<A, B>;
  using Base::s_, Base::t_, Base::workspace_;

 public:
  static constexpr std::uint32_t most = contract::merged_rows;

  // tables: in shared memory, of at least `most` fragments; key: zero.
  NANET_DEVICE MergedFrame(const MergedRows& in, const Tables& tables, FrameShared& shared,
                           const A& algorithm, const FrameOptions& options, const Workspace<A>& workspace,
                           std::uint32_t frame, bool incomplete)
      : Base(tables, shared, algorithm, options, workspace, frame, incomplete), in_(in) {}

  // All threads; the members of FrameShared have been prepared.
  template <class Clock>
  NANET_DEVICE NANET_INLINED FrameResult run(const Clock& clock, const AnswerLines& answer) {
    static_assert(contract::merged_boards * max_fragment_hits <= max_event_hits);
    static_assert(max_event_hits / sum_parts <= A::whole_hits);
    const std::uint32_t events = in_.rows;
    B::template sum<A>(
        events, [&](std::uint32_t e, unsigned part, auto& sums) { add_part(e, part, sums); },
        [&](std::uint32_t e, unsigned w, std::int32_t word) { sums()[e].word[w] = word; });
    if (s_.careful) return FrameResult::other;
    B::one([&] { s_.trace.built = clock(); });
    B::each([&](unsigned t) {
      for (std::uint32_t e = B::spread(t, events); e < events; e += B::threads()) reconstruct(e);
    });
    B::one([&] { Base::set_header(events); });
    const FrameResult result = Base::answer(events, Base::ordered(events), answer, clock);
    if (workspace_.rings) unpack();
    return result;
  }

 private:
  NANET_DEVICE EventSums<A>* sums() const { return reinterpret_cast<EventSums<A>*>(t_.fragment); }

  // Adds every eighth hit of a row, and checks it.
  template <class S>
  NANET_DEVICE void add_part(std::uint32_t e, unsigned part, S& sums) const {
    const RowWords row = in_.row(e);
    bool good = in_.sound(e, row);
    const std::uint32_t first = row.first(), hits = good ? row.hits() : 0;
    const std::uint32_t* const pairs = A::pairs(workspace_.plane);
    const std::int16_t* const conditions = workspace_.conditions;
    std::int32_t offsets = 0;
    constexpr unsigned together = 4;  // look-ups in flight
    for (std::uint32_t i = part; i < hits; i += together * sum_parts) {
      std::uint32_t id[together], before[together], pair[together];
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) {
        const std::uint32_t at = i + j * sum_parts < hits ? i + j * sum_parts : i;
        id[j] = in_.hit(first + at) & 0x7FF;
        before[j] = at ? in_.hit(first + at - 1) & 0x7FF : 0;
        if (at == 0) before[j] = ~std::uint32_t{0};
      }
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) pair[j] = i + j * sum_parts < hits ? pairs[id[j]] : 0;
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) {
        sums.add(pair[j]);
        good &= static_cast<std::int32_t>(id[j]) > static_cast<std::int32_t>(before[j]) && id[j] < pm_count;
        if (!conditions || i + j * sum_parts >= hits) continue;
        const std::int32_t t0 = conditions[id[j]];
        good &= t0 != masked_pm;
        offsets += t0;
      }
    }
    if (!good) s_.careful = 1;
    if (offsets) B::add(t_.key[e], static_cast<std::uint32_t>(offsets));
  }

  // Time, ring and primitive of event e. One thread.
  NANET_DEVICE void reconstruct(std::uint32_t e) const {
    const RowWords row = in_.row(e);
    const std::uint32_t hits = row.hits();
    std::int32_t times = row.times();
    if (workspace_.conditions) times -= static_cast<std::int32_t>(t_.key[e]);
    const std::uint32_t opened = row.opened(), time = hits ? Merger<B>::mean_time(times, hits) : opened;
    Base::decide(e, sums()[e], hits, time, opened, row.boards(), row.truncated(),
                 [&] { return row.first(); });
  }

  // PM IDs, for a sampled frame.
  NANET_DEVICE void unpack() const {
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < in_.words; i += B::threads())
        t_.pm[i] = static_cast<PmId>(in_.hit(i) & 0x7FF);
    });
  }

  const MergedRows& in_;
};

}  // namespace nanet::gpu
