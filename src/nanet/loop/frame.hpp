// SPDX-License-Identifier: Apache-2.0
// One buffer through build, reconstruct and decide in a thread block: from its bytes to the words of the MTP
// packet and the counts of its trace. What trigger/process.hpp does on a CPU, with the same result, bit for
// bit.
#pragma once

#include "nanet/loop/merge.hpp"
#include "nanet/trigger/decide.hpp"
#include "nanet/trigger/trace.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::loop {

inline constexpr unsigned packet_words = contract::send_buffer_bytes / 4;

// What the work on a frame depends on, besides its bytes.
struct FrameOptions {
  trigger::DecisionOptions decision;
  std::uint32_t window = 41;
  std::uint32_t source = rich_source;
};

// What a block shares while it works on a buffer.
struct FrameShared {
  Merge merge;
  alignas(16) std::uint32_t packet[packet_words];
  std::uint32_t words;       // of `packet` in use
  std::uint32_t primitives;  // in it
  std::uint32_t stamp;       // frame of its newest timestamp word
  std::uint32_t events, below, overflow, rings, duplicates, valid;
  std::uint32_t with_rings[rich::max_rings + 1];
  trigger::Trace trace;
};

// Whether an algorithm works with a warp for each event or with a thread.
template <class A>
concept Wide = requires { typename A::Scratch; };
template <class A>
struct ScratchOf {
  struct type {};
};
template <Wide A>
struct ScratchOf<A> {
  using type = typename A::Scratch;
};

// Where an algorithm looks things up and puts things down. rings: of each event in turn; may be null. scratch
// and result: one for each warp, for algorithms that are wide.
template <class A>
struct Desk {
  const rich::Point* plane = nullptr;
  rich::Rings* rings = nullptr;
  typename ScratchOf<A>::type* scratch = nullptr;
  rich::Rings* result = nullptr;
};

template <class A, class B>
class FrameWork {
 public:
  NANET_DEVICE FrameWork(const A& algorithm, const FrameOptions& options, FrameShared& shared,
                         const Desk<A>& desk)
      : algorithm_(algorithm), options_(options), s_(shared), desk_(desk) {}

  NANET_DEVICE void begin() {
    B::each([&](unsigned t) {
      if (t != 0) return;
      s_.words = wire::mtp::header_bytes / 4;
      s_.primitives = s_.stamp = 0;
      s_.events = s_.below = s_.overflow = s_.rings = s_.duplicates = 0;
      for (std::uint32_t& n : s_.with_rings) n = 0;
    });
  }

  // Builds and reconstructs the events of `in`, and adds their primitives to the packet. clock: gives the
  // time; built and reconstructed: when that was done, in thread 0.
  template <class Clock>
  NANET_DEVICE void work(const Bytes& in, const Tables& shared_tables, std::uint32_t room,
                         const Tables& large_tables, std::uint32_t frame, bool incomplete, const Clock& clock,
                         Nanoseconds& built, Nanoseconds& reconstructed) {
    Merger<B> merger(in, s_.merge, options_.window);
    tables_ = merger.list() <= room ? shared_tables : large_tables;
    merger.build(tables_);
    events_ = s_.merge.events;
    if constexpr (Wide<A>) {
      B::each([&](unsigned t) {
        if (t == 0) built = clock();
        for (std::uint32_t e = t; e < events_; e += B::threads()) merger.finish(tables_.row[e]);
      });
      B::warps([&](unsigned warp) {
        typename A::Scratch& scratch = desk_.scratch[warp];
        rich::Rings& rings = desk_.result[warp];
        for (std::uint32_t e = warp; e < events_; e += B::threads() / 32) {
          Row& row = tables_.row[e];
          algorithm_.template operator()<typename B::Lanes>(view(row), desk_.plane, scratch, rings);
          B::Lanes::sync();
          if (B::leads()) decide(e, row, rings, incomplete);
          B::Lanes::sync();  // the next event's rings overwrite these
        }
      });
    } else {
      B::each([&](unsigned t) {
        if (t == 0) built = clock();
        for (std::uint32_t e = t; e < events_; e += B::threads()) {
          Row& row = tables_.row[e];
          merger.finish(row);
          decide(e, row, algorithm_(view(row), desk_.plane), incomplete);
        }
      });
    }
    B::each([&](unsigned t) {
      if (t != 0) return;
      reconstructed = clock();
      s_.events += events_;
      s_.duplicates += s_.merge.duplicates;
      s_.valid = 0;
    });
    put(frame);
  }

  // The packet's header; the packet then has s_.words words.
  NANET_DEVICE void finish(std::uint32_t frame) {
    B::each([&](unsigned t) {
      if (t != 0) return;
      s_.packet[0] = options_.source << 24 | (frame & 0xFFFFFF);
      s_.packet[1] = s_.primitives << 16 | 4 * s_.words;
      for (unsigned r = 1; r <= rich::max_rings; ++r) s_.rings += r * s_.with_rings[r];
    });
  }

  // Events so near to the edges of the frame that a neighbour may hold the rest of them. One thread.
  NANET_DEVICE void note_edges(trigger::Trace& trace) const {
    trace.lows = trace.highs = 0;
    const std::uint32_t window = options_.window;
    for (std::uint32_t e = 0; e < events_ && trace.lows < trigger::Trace::edges; ++e) {
      const Row& row = tables_.row[e];
      if (row.opened > window) break;
      trace.low[trace.lows++] = {row.opened, row.boards};
    }
    for (std::uint32_t e = events_; e-- > 0 && trace.highs < trigger::Trace::edges;) {
      const Row& row = tables_.row[e];
      if (row.opened + window < static_cast<std::uint32_t>(lsb_per_frame)) break;
      trace.high[trace.highs++] = {row.opened, row.boards};
    }
  }

  NANET_DEVICE std::uint32_t events() const { return events_; }
  NANET_DEVICE const Row& row(std::uint32_t e) const { return tables_.row[e]; }
  NANET_DEVICE rich::EventView view(const Row& row) const { return {tables_.pm + row.first, row.hits}; }

 private:
  NANET_DEVICE void decide(std::uint32_t e, Row& row, const rich::Rings& rings, bool incomplete) {
    const std::uint32_t hits = row.hits;
    row.primitive = hits < options_.decision.min_hits
                        ? std::uint16_t{0}
                        : trigger::decide(rings, hits, incomplete || row.truncated, options_.decision);
    B::add(s_.with_rings[rings.count], 1);
    if (row.primitive == 0) B::add(s_.below, 1);
    if (desk_.rings) desk_.rings[e] = rings;
    tables_.key[e] = row.primitive == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(row.time) << 16 | e;
  }

  // Primitives in order of time, ties in order of opening, behind a timestamp word where the frame changes;
  // what does not fit is counted.
  NANET_DEVICE void put(std::uint32_t frame) {
    constexpr std::uint32_t nothing = ~std::uint32_t{0};
    constexpr std::uint32_t few = 512;  // as many keys are compared all with all
    const bool sorted = events_ > few;
    if (sorted) Merger<B>::sort(tables_.key, events_);
    const bool stamp = s_.primitives == 0 || s_.stamp != frame;
    const std::uint32_t words = s_.words + stamp, used = s_.primitives;
    std::uint32_t room = wire::mtp::max_primitives - used;
    if (words >= packet_words)
      room = 0;
    else if (packet_words - words < room)
      room = packet_words - words;
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < events_; i += B::threads()) {
        const std::uint32_t key = tables_.key[i];
        if (key == nothing) continue;
        std::uint32_t rank = i;
        if (!sorted) {
          rank = 0;
          for (std::uint32_t j = 0; j < events_; ++j) rank += tables_.key[j] < key;
        }
        B::add(s_.valid, 1);
        Row& row = tables_.row[key & 0xFFFF];
        if (rank < room)
          s_.packet[words + rank] = static_cast<std::uint32_t>(row.primitive) << 16 | row.time;
        else
          row.primitive = 0;
      }
    });
    B::each([&](unsigned t) {
      if (t != 0) return;
      const std::uint32_t fit = s_.valid < room ? s_.valid : room;
      s_.overflow += s_.valid - fit;
      if (fit == 0) return;
      if (stamp) s_.packet[words - 1] = frame & 0xFFFFFF;
      s_.stamp = frame;
      s_.words = words + fit;
      s_.primitives = used + fit;
    });
  }

  const A& algorithm_;
  const FrameOptions& options_;
  FrameShared& s_;
  Desk<A> desk_;
  Tables tables_;
  std::uint32_t events_ = 0;
};

}  // namespace nanet::loop
