// SPDX-License-Identifier: Apache-2.0
// Frame processing in a thread block: build, reconstruct, decide; from the bytes of a buffer to the MTP
// packet and the counts of its trace. Bit-identical to trigger/executors/frame_processor.hpp on a CPU.
#pragma once

#include "nanet/gpu/frame/indexed_frame.hpp"
#include "nanet/gpu/frame/indexed_merge.hpp"
#include "nanet/gpu/frame/merged_frame.hpp"
#include "nanet/gpu/frame/workspace.hpp"
#ifdef __CUDACC__
#include "nanet/gpu/frame/quick_merge.cuh"
#include "nanet/gpu/frame/slots.cuh"
#endif

namespace nanet::gpu {

// merges: the card writes merged buffers, which take a separate way; few frames are segments.
template <class A, class B, bool merges = false>
class FrameWork {
 public:
  static constexpr bool takes_rows = merges;

  NANET_DEVICE FrameWork(const A& algorithm, const FrameOptions& options, FrameShared& shared,
                         const Workspace<A>& workspace)
      : algorithm_(algorithm), options_(options), s_(shared), workspace_(workspace) {}

  // Visible to the other threads after the next step.
  NANET_DEVICE void begin() { begin(s_); }
  NANET_DEVICE static void begin(FrameShared& s) {
    B::one([&] {
      s.words = wire::mtp::header_bytes / 4;
      s.primitives = s.stamp = 0;
      s.events = s.below = s.overflow = s.rings = s.duplicates = s.masked = s.valid = 0;
      s.taken = s.disorder = s.units_missing = s.careful = s.merge.pm_used = 0;
      s.not_ahead = s.ahead = 0;
      s.held = {};
      if constexpr (merges) s.rows.at = nullptr;
      s.expected = ~std::uint64_t{0};
      for (std::uint32_t& n : s.downscaled) n = 0;
      for (std::uint32_t& n : s.with_rings) n = 0;
    });
  }

  // Builds and reconstructs the events of `in`, and adds their primitives to the packet. small: shared copy
  // of the bytes. clock: returns the time. built, reconstructed: end of each stage, valid in thread 0.
  template <class Clock>
  NANET_DEVICE void work(const Bytes& in, std::byte* small, const Tables& shared_tables, std::uint32_t room,
                         const Tables& large_tables, std::uint32_t frame, bool incomplete, const Clock& clock,
                         Nanoseconds& built, Nanoseconds& reconstructed) {
    frame_ = frame;
    if (workspace_.rings) B::one([&] { note(in); });
    // Tables in shared memory in the first branch, as the compiler can prove: that saves instructions.
    if (const Merged merged = merge(in, small, shared_tables, room, large_tables); merged.small) {
      events_ = merged.events;
      tables_ = shared_tables;
      finish_events(shared_tables, incomplete, clock, built);
    } else {
      events_ = merged.events;
      tables_ = large_tables;
      finish_events(large_tables, incomplete, clock, built);
    }
    finish_frame(frame, incomplete, clock, reconstructed);
  }

  // A merged frame; tables: in shared memory, `key` zero. The results are those of work() for its segments.
  // Returns whether the packet is complete and written to `answer`.
  template <class Clock>
  NANET_DEVICE NANET_INLINED bool work_rows(const MergedRows& in, const Tables& tables, std::uint32_t frame,
                                            bool incomplete, const Clock& clock, const AnswerLines& answer)
    requires merges
  {
    tables_ = tables;
    frame_ = frame;
    if (workspace_.rings) B::one([&] { s_.rows = in; });
    if constexpr (Summed<A>) {
      if (algorithm_.whole) {
        MergedFrame<A, B> merged(in, tables, s_, algorithm_, options_, workspace_, frame, incomplete);
        const FrameResult result = merged.run(clock, answer);
        events_ = in.rows;
        if (result == FrameResult::answered) return true;
        if (result == FrameResult::unordered) {
          rank(frame);
          B::one([&] { close(frame); });
          return false;
        }
      }
    }
    events_ = build_rows<B>(in, s_.merge, tables, workspace_.conditions);
    finish_built(frame, incomplete, clock);
    return false;
  }

  // Whether frames with an index take build_indexed().
  NANET_DEVICE bool takes_index() const {
    if constexpr (Summed<A>)
      return algorithm_.whole;
    else
      return true;
  }
  // Events of a frame with an index (Bytes::indexed), in small tables of at least IndexedFragments::all,
  // whose fragments have been read and joined (fragment_work.hpp). By the threads of C. total: number of
  // fragments. frame, incomplete: used for exact sums only.
  template <class C, class Beside>
  NANET_DEVICE NANET_INLINED BuiltFrame build_indexed(const Bytes& in, std::byte* small, const Tables& tables,
                                                      std::uint32_t total, std::uint32_t frame,
                                                      bool incomplete, const Beside& beside) const {
    if constexpr (Summed<A>)
      return indexed<C>(in, small, tables, frame, incomplete).build(total, beside);
    else
      return IndexedMerge<C>(in, small + (in.at - small), tables, s_.merge, options_.window,
                             workspace_.conditions)
          .build(total, beside);
  }
  // Counts its events, and writes the packet to `answer` if they are in order. Returns whether they are.
  template <class C, class Clock>
  NANET_DEVICE NANET_INLINED bool answer_indexed(const Bytes& in, std::byte* small, const Tables& tables,
                                                 const BuiltFrame& built, std::uint32_t frame,
                                                 bool incomplete, const Clock& clock,
                                                 const AnswerLines& answer) const
    requires Summed<A>
  {
    const IndexedFrame<A, C> events = indexed<C>(in, small, tables, frame, incomplete);
    const FrameResult result = events.answer(built.events, built.ordered, answer, clock);
    events.unpack_sampled(built.events);
    return result == FrameResult::answered;
  }
  // Takes over its events, and reconstructs them unless they have exact sums. answered: the packet is
  // complete and has been written. All threads. The results are those of work().
  template <class Clock>
  NANET_DEVICE NANET_INLINED void finish_indexed(const Bytes& in, const Tables& tables, std::uint32_t events,
                                                 std::uint32_t frame, bool incomplete, const Clock& clock,
                                                 bool answered) {
    if (workspace_.rings) B::one([&] { note(in); });
    tables_ = tables;
    events_ = events;
    frame_ = frame;
    if constexpr (!Summed<A>) {
      finish_built(frame, incomplete, clock);
    } else if (!answered) {
      rank(frame);
      B::one([&] { close(frame); });
    }
  }

#ifdef __CUDACC__

  // The usual packet of a single board: one packet of at most 32 events in slots, each event's PM IDs
  // ascending. The results are those of work(). Returns false, without effect, for any other packet.
  template <class Clock>
  __device__ bool work_slots(const Bytes& in, const std::byte* small, const Tables& tables,
                             std::uint32_t frame, bool incomplete, const Clock& clock,
                             const AnswerLines& answer)
    requires Summed<A>
  {
    const std::byte* const at = small + (in.at - small);
    const std::uint32_t bytes = in.bytes[0];
    if (!algorithm_.whole || in.boards != 1 || !in.shared || bytes < 16 || blockDim.x < 64) return false;
    const std::uint32_t n = SlotsHeader(full_word(at), full_word(at + 4), bytes).events;
    if (n == 0) return false;
    if (workspace_.rings) B::one([&] { note(in); });
    SlotsCall<A> call = slots_call(s_, tables, workspace_.plane, workspace_.conditions);
    call.events = n;
    call.frame = frame;
    call.incomplete = incomplete;
    call.rings = workspace_.rings;
    call.answer = answer;
    if (!process_slots<A>(call, shared_address(at + 16), algorithm_, options_, clock)) return false;
    adopt(tables, n, frame);
    return true;
  }
  // Takes over the events that answer_slots() has finished; in: their bytes. Visible after the next step.
  __device__ void adopt(const Bytes& in, const Tables& tables, std::uint32_t events, std::uint32_t frame) {
    if (workspace_.rings) B::one([&] { note(in); });
    adopt(tables, events, frame);
  }
  // Memory of a call for events in slots.
  __device__ static SlotsCall<A> slots_call(const FrameShared& shared, const Tables& tables,
                                            const typename PlaneOf<A>::type* plane,
                                            const std::int16_t* conditions)
    requires Summed<A>
  {
    SlotsCall<A> call;
    call.found = shared_address(tables.fragment + 1);  // behind the first Info of IndexedFragments
    call.pm = shared_address(tables.pm);
    call.event = shared_address(tables.event);
    call.order = shared_address(tables.slot);
    call.frame_shared = shared_address(&shared);
    call.plane = shared_address(plane);
    call.conditions = conditions;
    return call;
  }

#endif

  // Writes the packet's header; the packet then has s_.words words. One thread.
  NANET_DEVICE void finish(std::uint32_t frame) {
    write_header(frame);
    for (unsigned r = 1; r <= rich::max_rings; ++r) s_.rings += r * s_.with_rings[r];
  }

  // Records events so near a frame edge that the adjacent frame may hold the rest of them. One thread.
  NANET_DEVICE void note_edges(trigger::Trace& trace) const {
    trace.lows = trace.highs = 0;
    const std::uint32_t window = options_.window;
    for (std::uint32_t e = 0; e < events_ && trace.lows < trigger::Trace::edges; ++e) {
      const BuiltEvent& event = tables_.event[e];
      if (event.opened > window) break;
      trace.low[trace.lows++] = {event.opened, event.boards};
    }
    for (std::uint32_t e = events_; e-- > 0 && trace.highs < trigger::Trace::edges;) {
      const BuiltEvent& event = tables_.event[e];
      if (event.opened + window < static_cast<std::uint32_t>(lsb_per_frame)) break;
      trace.high[trace.highs++] = {event.opened, event.boards};
    }
  }

  NANET_DEVICE std::uint32_t events() const { return events_; }
  NANET_DEVICE const Tables& tables() const { return tables_; }
  // Takes over finished events.
  NANET_DEVICE void adopt(const Tables& tables, std::uint32_t events, std::uint32_t frame) {
    tables_ = tables;
    events_ = events;
    frame_ = frame;
  }
  NANET_DEVICE const FrameShared& shared() const { return s_; }
  NANET_DEVICE std::uint32_t window() const { return options_.window; }
  NANET_DEVICE const BuiltEvent& event(std::uint32_t e) const { return tables_.event[e]; }
  NANET_DEVICE rich::EventView view(const BuiltEvent& event) const {
    return {tables_.pm + event.first, event.hits};
  }

 private:
  NANET_DEVICE void write_header(std::uint32_t frame) { gpu::write_header(s_, options_, frame); }
  template <class C>
  NANET_DEVICE IndexedFrame<A, C> indexed(const Bytes& in, std::byte* small, const Tables& tables,
                                          std::uint32_t frame, bool incomplete) const
    requires Summed<A>
  {
    return {in, small + (in.at - small), tables, s_, algorithm_, options_, workspace_, frame, incomplete};
  }

  // Records the location of the bytes, if in shared memory.
  NANET_DEVICE void note(const Bytes& in) {
    s_.bytes = in.at;
    s_.stride = in.stride;
    NANET_UNROLLED
    for (unsigned b = 0; b < max_boards; ++b) s_.length[b] = in.shared && b < in.boards ? in.bytes[b] : 0;
  }

  NANET_DEVICE Merged merge(const Bytes& in, [[maybe_unused]] const std::byte* small,
                            const Tables& shared_tables, std::uint32_t room, const Tables& large_tables) {
#ifdef __CUDACC__
    if constexpr (B::has_warps && !merges) {  // a merging card leaves unusual frames as segments
      if (in.shared && room >= QuickMerge::room) {
        const QuickMerge merger(in, small + (in.at - small), shared_tables, s_.merge, options_.window,
                                workspace_.conditions);
        const std::uint32_t events = merger.build();
        if (events != QuickMerge::none) return {events, true};
      }
    }
#endif
    return merge_any<B>(in, s_.merge, shared_tables, room, large_tables, options_.window,
                        workspace_.conditions);
  }

  // Reconstructs the merged events if an event takes one thread.
  template <class Clock>
  NANET_DEVICE void finish_events(const Tables& tables, bool incomplete, const Clock& clock,
                                  Nanoseconds& built) {
    B::one([&] { built = clock(); });
    if constexpr (Summed<A>) {
      fit(tables, incomplete);
    } else if constexpr (!Wide<A> && !Remote<A>) {
      B::each([&](unsigned t) {
        for (std::uint32_t e = B::spread(t); e < events_; e += B::threads()) {
          BuiltEvent& event = tables.event[e];
          decide(tables, e, event, algorithm_(of(tables, event), workspace_.plane), incomplete);
        }
      });
    }
  }

  // Both steps for the built events, with their times in the trace.
  template <class Clock>
  NANET_DEVICE NANET_INLINED void finish_built(std::uint32_t frame, bool incomplete, const Clock& clock) {
    Nanoseconds built = 0, reconstructed = 0;
    finish_events(tables_, incomplete, clock, built);
    finish_frame(frame, incomplete, clock, reconstructed);
    B::one([&] {
      s_.trace.built = built;
      s_.trace.reconstructed = reconstructed;
    });
  }

  // Reconstructs the built events if they take warps or other blocks; then counts, order and primitives.
  template <class Clock>
  NANET_DEVICE NANET_INLINED void finish_frame(std::uint32_t frame, bool incomplete, const Clock& clock,
                                               Nanoseconds& reconstructed) {
    if constexpr (Wide<A>) {
      const bool by_size = order_by_hits();
      B::warps([&](unsigned warp) {
        typename A::Scratch& scratch = workspace_.scratch[warp];
        rich::Rings& rings = workspace_.result[warp];
        // Free warps take the next event: some events take ten times as long as others.
        for (std::uint32_t i; (i = B::take(s_.taken)) < events_;) {
          const std::uint32_t e = by_size ? tables_.slot[i] : i;
          BuiltEvent& event = tables_.event[e];
          algorithm_.template operator()<typename B::Lanes>(view(event), workspace_.plane, scratch, rings);
          B::Lanes::sync();
          if (B::leads()) decide(tables_, e, event, rings, incomplete);
          B::Lanes::sync();  // the next event's rings overwrite these
        }
      });
    } else if constexpr (Remote<A>) {
      for (std::uint32_t from = 0; from < events_; from += A::at_once) {
        const std::uint32_t n = events_ - from < A::at_once ? events_ - from : A::at_once;
        algorithm_.reconstruct(tables_, s_.merge.pm_used, from, n, incomplete);
        B::each([&](unsigned t) {
          for (std::uint32_t i = t; i < n; i += B::threads()) {
            const TaskResult answer = algorithm_.answer(i);
            settle(tables_, from + i, tables_.event[from + i], answer.primitive, answer.rings);
          }
        });
      }
    }
    B::one([&] { reconstructed = clock(); });
    rank(frame);
    B::one([&] {
      s_.events += events_;
      s_.duplicates += s_.merge.duplicates;
      s_.masked += s_.merge.masked;
      s_.taken = 0;
      close(frame);
    });
  }

  // Eight threads per event sum its hits, or one thread if its positions are no whole numbers; then one
  // thread fits. The sums overwrite the fragments.
  NANET_DEVICE void fit(const Tables& tables, bool incomplete)
    requires Summed<A>
  {
    auto* const sums = reinterpret_cast<EventSums<A>*>(tables.fragment);
    const auto room = static_cast<std::uint32_t>(tables.fragments * sizeof(Fragment) / sizeof(EventSums<A>));
    for (std::uint32_t from = 0; from < events_; from += room) {
      const std::uint32_t n = events_ - from < room ? events_ - from : room;
      if (algorithm_.whole)
        B::template sum<A>(
            n,
            [&](std::uint32_t i, unsigned part, auto& s) {
              add_part(tables, tables.event[from + i], part, s);
            },
            [&](std::uint32_t i, unsigned w, std::int32_t word) { sums[i].word[w] = word; });
      else
        B::each([&](unsigned t) {
          for (std::uint32_t i = B::spread(t); i < n; i += B::threads())
            sums[i].keep(algorithm_.moments(of(tables, tables.event[from + i]), workspace_.plane));
        });
      B::each([&](unsigned t) {
        for (std::uint32_t i = B::spread(t, n); i < n; i += B::threads()) {
          BuiltEvent& event = tables.event[from + i];
          decide(tables, from + i, event, algorithm_.ring(sums[i].moments(algorithm_.whole), event.hits),
                 incomplete);
        }
      });
    }
  }
  // Adds every eighth hit of an event.
  template <class S>
  NANET_DEVICE void add_part(const Tables& tables, const BuiltEvent& event, unsigned part, S& sums) const {
    static_assert(max_event_hits / sum_parts <= A::whole_hits);
    const PmId* const pm = tables.pm + event.first;
    const std::uint32_t hits = A::fitted(event.hits);
    const std::uint32_t* const pairs = A::pairs(workspace_.plane);
    constexpr unsigned together = 4;  // table look-ups in flight
    for (std::uint32_t i = part; i < hits; i += together * sum_parts) {
      std::uint32_t pair[together];
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) {
        const std::uint32_t at = i + j * sum_parts;
        pair[j] = at < hits ? pairs[pm[at]] : 0;
      }
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) sums.add(pair[j]);
    }
  }
  NANET_DEVICE static rich::EventView of(const Tables& tables, const BuiltEvent& event) {
    return {tables.pm + event.first, event.hits};
  }

  NANET_DEVICE void decide(const Tables& tables, std::uint32_t e, BuiltEvent& event, const rich::Rings& rings,
                           bool incomplete) {
    const std::uint32_t hits = event.hits;
    const bool cut = incomplete || event.truncated;
    std::uint32_t id;
    if constexpr (!Summed<A>) {
      id = trigger::decide(rings, hits, cut, options_.decision);
    } else {  // one ring at most: a loop over rings would force them into local memory
      id = trigger::decide_event(hits, rings.ambiguous, cut, options_.decision);
      if (rings.count) id |= trigger::decide_leading(rings.ring[0], 1, options_.decision);
    }
    settle(tables, e, event, id, rings.count);
    if (workspace_.rings) workspace_.rings[e] = rings;
  }
  // Records the number of rings and the primitive of event e.
  NANET_DEVICE void settle(const Tables& tables, std::uint32_t e, BuiltEvent& event, std::uint32_t id,
                           std::uint32_t rings) {
    B::add(s_.with_rings[rings], 1);
    if (event.hits < options_.decision.min_hits) id = 0;
    if (id == 0) {
      B::add(s_.below, 1);
    } else if (options_.downscaling) {
      const unsigned kind = trigger::kind_of(static_cast<std::uint16_t>(id));
      if (!trigger::downscale_keeps(static_cast<Lsb>(frame_) * lsb_per_frame + event.time,
                                    options_.factor[kind])) {
        B::add(s_.downscaled[kind], 1);
        id = 0;
      }
    }
    event.primitive = static_cast<std::uint16_t>(id);
    tables.key[e] = id == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(event.time) << 16 | e;
  }

  static constexpr std::uint32_t ranked = 512;  // limit for ranking by pairwise comparison

  // Orders events by hits, most first, in tables_.slot (free by now), so that the longest events start first.
  // Returns false if there are too many to rank.
  NANET_DEVICE bool order_by_hits() {
    if (events_ > ranked || events_ <= B::threads() / 32) return false;
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < events_; i += B::threads()) {
        const std::uint32_t hits = tables_.event[i].hits;
        std::uint32_t rank = 0;
        for (std::uint32_t j = 0; j < events_; ++j) {
          const std::uint32_t other = tables_.event[j].hits;
          rank += other > hits || (other == hits && j < i);
        }
        tables_.slot[rank] = i;
      }
    });
    return true;
  }

  // Position of the next primitives: after a timestamp word if the frame changes.
  struct Place {
    std::uint32_t words, room;
    bool stamp;
  };
  NANET_DEVICE Place place(std::uint32_t frame) const {
    Place p;
    p.stamp = s_.primitives == 0 || s_.stamp != frame;
    p.words = s_.words + p.stamp;
    p.room = wire::mtp::max_primitives - s_.primitives;
    if (p.words >= packet_words)
      p.room = 0;
    else if (packet_words - p.words < p.room)
      p.room = packet_words - p.words;
    return p;
  }

  // Orders primitives by time, ties by order of opening.
  NANET_DEVICE void rank(std::uint32_t frame) {
    constexpr std::uint32_t nothing = ~std::uint32_t{0};
    // The order of opening is nearly always the order of times.
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < events_; i += B::threads()) {
        const std::uint32_t key = tables_.key[i];
        if (key == nothing || (i > 0 && tables_.key[i - 1] > key)) B::add(s_.disorder, 1);
      }
    });
    const bool ordered = s_.disorder == 0, sorted = events_ > ranked;
    if (!ordered && sorted) Merger<B>::sort(tables_.key, events_);
    const Place p = place(frame);
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < events_; i += B::threads()) {
        const std::uint32_t key = tables_.key[i];
        if (key == nothing) continue;
        const std::uint32_t at = ordered || sorted ? i : rank_of(i, key);
        if (!ordered) B::add(s_.valid, 1);
        BuiltEvent& event = tables_.event[key & 0xFFFF];
        if (at < p.room)
          s_.packet[p.words + at] = static_cast<std::uint32_t>(event.primitive) << 16 | event.time;
        else
          event.primitive = 0;
      }
    });
  }
  NANET_DEVICE std::uint32_t rank_of(std::uint32_t i, std::uint32_t key) const {
    constexpr std::uint32_t together = 8;
    const std::uint32_t* const keys = tables_.key;
    std::uint32_t at = 0;
    for (std::uint32_t j = 0; j < events_; j += together) {
      NANET_UNROLLED
      for (std::uint32_t l = 0; l < together; ++l) at += keys[j + l < events_ ? j + l : i] < key;
    }
    return at;
  }
  // Appends primitives; those without space are counted. One thread, after rank().
  NANET_DEVICE void close(std::uint32_t frame) {
    const Place p = place(frame);
    const std::uint32_t valid = s_.disorder ? s_.valid : events_, put = valid < p.room ? valid : p.room;
    s_.overflow += valid - put;
    s_.valid = s_.disorder = 0;
    if (put == 0) return;
    if (p.stamp) s_.packet[p.words - 1] = frame & 0xFFFFFF;
    s_.stamp = frame;
    s_.words = p.words + put;
    s_.primitives += put;
  }

  const A& algorithm_;
  const FrameOptions& options_;
  FrameShared& s_;
  Workspace<A> workspace_;
  Tables tables_;
  std::uint32_t events_ = 0, frame_ = 0;
};

}  // namespace nanet::gpu
