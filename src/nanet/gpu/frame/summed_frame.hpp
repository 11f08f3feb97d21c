// SPDX-License-Identifier: Apache-2.0
// Last steps of a frame for algorithms of exact sums: an event's sums to its primitive, and the primitives to
// the answer.
#pragma once

#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

// Result of the fast ways to an answer.
enum class FrameResult : std::uint8_t {
  other,      // not done, without effect on the counts: the frame needs the careful way
  unordered,  // events and counts are ready; primitives are to be ordered
  answered
};
// Events of a frame with an index.
struct BuiltFrame {
  static constexpr std::uint32_t none = ~std::uint32_t{0};  // the frame needs the careful way
  std::uint32_t events = none;
  bool ordered = false;  // exact sums: each event has a primitive, in order of time, and all fit in an answer
};

template <Summed A, class B>
class SummedFrame {
 public:
  NANET_DEVICE SummedFrame(const Tables& tables, FrameShared& shared, const A& algorithm,
                           const FrameOptions& options, const Workspace<A>& workspace, std::uint32_t frame,
                           bool incomplete)
      : t_(tables),
        s_(shared),
        algorithm_(algorithm),
        options_(options),
        workspace_(workspace),
        frame_(frame),
        incomplete_(incomplete) {}

 protected:
  static constexpr std::uint32_t no_primitive = ~std::uint32_t{0};
  static constexpr std::uint32_t header = wire::mtp::header_bytes / 4;
  static constexpr std::uint32_t most_primitives =  // of an answer
      wire::mtp::max_primitives < packet_words - header - 1 ? wire::mtp::max_primitives
                                                            : packet_words - header - 1;
  // BuiltEvent::members until the counts are taken: no primitive, suppressed, kind, rings.
  static constexpr unsigned below_bit = 0, scaled_bit = 1, kind_at = 2, rings_at = 8;

  // Ring and primitive of event e. first(): its first hit in Tables::pm, called for a sampled frame. One
  // thread.
  template <class First>
  NANET_DEVICE void decide(std::uint32_t e, const EventSums<A>& total, std::uint32_t hits, std::uint32_t time,
                           std::uint32_t opened, std::uint32_t boards, std::uint32_t truncated,
                           const First& first) const {
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
    event.boards = static_cast<std::uint8_t>(boards);
    event.truncated = static_cast<std::uint8_t>(truncated);
    if (workspace_.rings) {
      event.first = first();
      workspace_.rings[e] = rings;
    }
    t_.event[e] = event;
    t_.key[e] = id ? time << 16 | e : no_primitive;
    if (e < most_primitives) s_.packet[header + 1 + e] = id << 16 | time;
  }

  // The packet's header and its word of the frame, for these events. One thread.
  NANET_DEVICE void set_header(std::uint32_t events) const {
    s_.packet[0] = options_.source << 24 | (frame_ & 0xFFFFFF);
    s_.packet[1] = events << 16 | 4 * words_for(events);
    if (events) s_.packet[header] = frame_ & 0xFFFFFF;
  }
  // Whether the primitives of the events that decide() has finished are an answer: they are in order. A step.
  NANET_DEVICE bool ordered(std::uint32_t events) const {
    const bool not_so = B::any([&](unsigned t) {
      bool disorder = false;
      for (std::uint32_t e = t; e < events; e += B::threads()) {
        const std::uint32_t key = t_.key[e], before = e ? t_.key[e - 1] : 0;
        disorder |= key == no_primitive || before > key;
      }
      return disorder;
    });
    return !not_so && events <= most_primitives;
  }

 public:
  // Counts these events, and writes the answer if it is `ordered`. All threads.
  template <class Clock>
  NANET_DEVICE NANET_INLINED FrameResult answer(std::uint32_t events, bool ordered, const AnswerLines& lines,
                                                const Clock& clock) const {
    const std::uint32_t words = words_for(events);
    B::each([&](unsigned t) {
      if (ordered) lines.write(s_.packet, words, t, B::threads());
      for (std::uint32_t e = t; e < events; e += B::threads()) count(t_.event[e]);
      if (t != 0) return;
      s_.events += events;
      s_.trace.reconstructed = clock();
      if (!ordered) return;
      s_.words = words;
      s_.primitives = events;
      s_.stamp = frame_;
    });
    return ordered ? FrameResult::answered : FrameResult::unordered;
  }

 private:
  NANET_DEVICE static std::uint32_t words_for(std::uint32_t events) {
    return events ? header + 1 + events : header;
  }
  NANET_DEVICE void count(const BuiltEvent& event) const {
    const std::uint32_t flags = event.members;
    B::add(s_.with_rings[flags >> rings_at], 1);
    if (flags >> below_bit & 1) B::add(s_.below, 1);
    if (flags >> scaled_bit & 1) B::add(s_.downscaled[flags >> kind_at & 3], 1);
  }

 protected:
  const Tables& t_;
  FrameShared& s_;
  const A& algorithm_;
  const FrameOptions& options_;
  const Workspace<A>& workspace_;
  std::uint32_t frame_;
  bool incomplete_;
};

}  // namespace nanet::gpu
