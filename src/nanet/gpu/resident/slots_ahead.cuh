// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, unpacked from the mailbox before the event line comes: all warps
// but the first copy its units to shared memory, and sum the hits of each event as soon as its units are
// there. The first warp waits for the event line; then it fits, decides and answers.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

// What a warp has of the number that was expected, before the event line came.
struct EarlySlots {
  std::uint64_t n = 0;
  std::uint32_t unpacked = 0;  // mask of the warp's events
  bool copied = false;         // the lane's unit, to shared memory
  bool other = false;          // the packet has no slots
};

// The packet's first two words, once its first unit has been copied. One warp.
__device__ inline bool slots_header(const FrameShared& s, std::uint32_t mark, std::uint32_t& word,
                                    std::uint32_t& sizes) {
  if (!__all_sync(~0u, Block::look(s.slot_mark[0]) == mark)) return false;
  __threadfence_block();
  word = Block::look(s.slot_words[0]);
  sizes = Block::look(s.slot_words[1]);
  return true;
}

// A warp's share of the slots. A slot begins in the second word of its first unit, and ends with the first
// word of its seventh, which is the next one's first.
//
// From GPU memory: two pairs of events. Lane 16 g + u loads unit u of the g-th pair, 1 to 13; lane 0 of the
// packet's first pair loads its first unit, and publishes the header.
//
// From host memory (`staged`): two lines of the mailbox, lane 8 g + u unit u of the g-th, and the events that
// end in them. Loads of one line take turns, a PCIe round trip each: so each line has one warp, which copies
// its units to shared memory, a word of the packet at its own index.
//
// The last warp has no events: it follows the queue's head and the next frame's number for all. A number is
// expected while the block's entry is the queue's head, so it is at most the claimed one, whose units are
// therefore not overwritten.
template <Summed A, bool staged>
class SlotsAhead {
 public:
  static constexpr unsigned groups = 2, of_group = 2, of_warp = groups * of_group;
  static constexpr unsigned of_slot = fixed_slot_bytes / contract::unit_data_bytes;  // units
  static constexpr unsigned lanes = staged ? 8 : 16;                                 // of a group
  static constexpr unsigned stride = staged ? lanes : of_group * of_slot;            // of groups, units
  static_assert(wire::mgp::header_bytes == 16 && fixed_slot_bytes == 72 && contract::unit_data_bytes == 12);
  static_assert(slot_units > of_slot * most_slots + 1);

  // All warps but the first.
  __device__ SlotsAhead(const Resident& r, const SlotsCall<A>& call)
      : r_(r),
        call_(call),
        first_(threadIdx.x / 32 - 1),
        step_(blockDim.x / 32 - 2),
        lane_(threadIdx.x & 31u),
        unit_(first_unit(lane_ / lanes) + lane_ % lanes) {}

  // Whether all packets of slots can be unpacked. The same in all threads and for all frames.
  __device__ static bool possible() {
    return groups * stride * (blockDim.x / 32 - 2) >= of_slot * most_slots + 2;
  }

  // Unpacks events of the expected frames until the first warp has the entry, or a packet has no slots.
  __device__ EarlySlots await(const ClaimedEvent& claimed) {
    FrameShared& s = call_.shared();
    limit(r_.mailbox.shape.segment_bytes);
    const std::uint32_t events = wanted_;
    const bool mine = loads_;
    if (mine && (staged || unit_ == 0)) s.slot_mark[unit_] = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < of_warp; ++j)
      if (lane_ == 0 && (events >> j & 1)) s.unpacked[event_of(j)] = 0;
    __syncwarp();
    constexpr unsigned all = ~0u;
    const auto waiting = [&] { return __all_sync(all, Block::look(claimed.waiting) != 0) != 0; };
    const bool follows = first_ == step_;
    EarlySlots early;
    while (waiting()) {
      if (follows) {
        const std::uint64_t next = load_relaxed_device(&r_.state->next);
        const std::uint64_t frontier = load_relaxed_device(&r_.state->frontier);
        if (lane_ == 0)
          *const_cast<volatile std::uint64_t*>(&s.expected) =
              frontier == claimed.k ? next : ~std::uint64_t{0};
        __nanosleep(100);
        continue;
      }
      const std::uint64_t next = __shfl_sync(all, *const_cast<const volatile std::uint64_t*>(&s.expected), 0);
      if (next != early.n) {
        early = {next};
        wanted_ = events;
        loads_ = mine;
      }
      const FrameUnits frame{r_, early.n};
      if (!frame.mark() || !unfinished(early)) {  // the event line or the next number is awaited
        __nanosleep(20);
        continue;
      }
      if (look(frame, early) == Look::other) {
        if (lane_ == 0) Block::set(s.not_ahead, 1);
        early.other = true;
        break;
      }
    }
    return early;
  }

  // Unpacks the events of the claimed frame that are still missing. bytes: of the segment.
  __device__ void settle(const FrameUnits& frame, EarlySlots early, std::uint32_t bytes) {
    if (early.n != frame.n) early = {frame.n};
    limit(bytes);
    wanted_ &= ~early.unpacked;
    for (unsigned looks = 0; unfinished(early) && looks < contract::most_unit_reads; ++looks) {
      if (__any_sync(~0u, Block::look(call_.shared().not_ahead) != 0)) return;
      if (look(frame, early) == Look::other) {
        if (lane_ == 0) Block::set(call_.shared().not_ahead, 1);
        return;
      }
    }
  }

 private:
  enum class Look : std::uint8_t { slots, other };
  static constexpr unsigned header_looks = 64;

  __device__ std::uint32_t first_unit(unsigned group) const { return stride * (first_ + group * step_); }
  // Staged: events whose seventh unit lies in the group's line; there may be one only.
  __device__ std::uint32_t event_of(unsigned j) const {
    const std::uint32_t at = first_unit(j / of_group);
    return (staged ? (at > of_slot ? at - 2 : 0) / of_slot : at / of_slot) + j % of_group;
  }
  __device__ bool has_event(unsigned j) const {
    return !staged || of_slot * (event_of(j) + 1) + 1 < first_unit(j / of_group) + lanes;
  }
  // Staged: other warps' events need the rest of a line.
  __device__ bool unfinished(const EarlySlots& early) const {
    return wanted_ != 0 || (staged && __any_sync(~0u, loads_ && !early.copied));
  }
  // Wants the warp's events, and loads units, that fit in a segment of these bytes.
  __device__ void limit(std::uint32_t bytes) {
    const std::uint32_t fit = bytes < 16 ? 0 : (bytes - 16) / fixed_slot_bytes;
    const std::uint32_t events = fit < most_slots ? fit : most_slots;
    wanted_ = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < of_warp; ++j)
      if (first_ < step_ && has_event(j) && event_of(j) < events) wanted_ |= 1u << j;
    const std::uint32_t u = lane_ % lanes;
    const bool used = staged ? lane_ < groups * lanes : u <= stride + 1 && (u > 0 || unit_ == 0);
    loads_ = first_ < step_ && used && unit_ <= of_slot * events + 1;
  }
  // Drops what the header excludes. Returns false if the packet has no slots.
  __device__ bool drop(std::uint32_t word, std::uint32_t sizes) {
    const std::uint32_t length = sizes & 0xFFFF, said = sizes >> 16 & 0xFF;
    const std::uint32_t fit =
        length < wire::mgp::header_bytes ? 0 : (length - wire::mgp::header_bytes) / fixed_slot_bytes;
    const std::uint32_t events = said < fit ? said : fit;
    loads_ = loads_ && unit_ <= of_slot * events + 1;
    NANET_UNROLLED
    for (unsigned j = 0; j < of_warp; ++j)
      if (event_of(j) >= events) wanted_ &= ~(1u << j);
    return word >> 28 & 1;
  }
  __device__ void copy(const FrameUnits::Unit& unit, std::uint32_t mark) {
    FrameShared& s = call_.shared();
    NANET_UNROLLED
    for (unsigned i = 0; i < 3; ++i) Block::set(s.slot_words[3 * unit_ + i], unit.word[i]);
    __threadfence_block();
    Block::set(s.slot_mark[unit_], mark);
  }

  // Loads units once, and unpacks the wanted events whose units are there. other: the packet has no slots.
  __device__ Look look(const FrameUnits& frame, EarlySlots& early) {
    if constexpr (staged)
      return look_staged(frame, early);
    else
      return look_direct(frame, early);
  }
  __device__ Look look_direct(const FrameUnits& frame, EarlySlots& early) {
    constexpr unsigned all = ~0u;
    const std::uint32_t mark = frame.mark();
    const bool mine = loads_ && (wanted_ >> of_group * (lane_ / lanes) & 3) != 0;
    FrameUnits::Unit unit{};
    if (mine) unit = frame.segment(0, unit_);
    const bool valid = mine && unit.word[3] == mark;
    const unsigned there = __ballot_sync(all, valid);
    if (valid && unit_ == 0 && !early.copied) {
      copy(unit, mark);
      early.copied = true;
    }
    __syncwarp();
    // Another warp's load of the header ends within a round trip.
    std::uint32_t word = 0, sizes = 0;
    NANET_ROLLED
    for (unsigned looks = 0; !slots_header(call_.shared(), mark, word, sizes); ++looks) {
      if (there == 0 || looks == header_looks) return Look::slots;
      __nanosleep(20);
    }
    if (!drop(word, sizes)) return Look::other;
    NANET_ROLLED
    for (unsigned j = 0; j < of_warp; ++j) {
      const unsigned base = lanes * (j / of_group) + 1 + of_slot * (j % of_group);
      constexpr unsigned units = (1u << (of_slot + 1)) - 1;
      if (!(wanted_ >> j & 1) || (there >> base & units) != units) continue;
      const unsigned source = base + 1 + lane_ / 6, hit = lane_ % 6;
      const std::uint32_t low = __shfl_sync(all, unit.word[1], base),
                          high = __shfl_sync(all, unit.word[2], base);
      const std::uint32_t x = __shfl_sync(all, unit.word[0], source),
                          y = __shfl_sync(all, unit.word[1], source),
                          z = __shfl_sync(all, unit.word[2], source);
      const std::uint32_t pair = hit < 2 ? x : hit < 4 ? y : z;
      unpack(mark, event_of(j), low, high, hit & 1 ? pair >> 16 : pair & 0xFFFF);
      wanted_ &= ~(1u << j);
      early.unpacked |= 1u << j;
    }
    return Look::slots;
  }
  __device__ Look look_staged(const FrameUnits& frame, EarlySlots& early) {
    constexpr unsigned all = ~0u;
    FrameShared& s = call_.shared();
    const std::uint32_t mark = frame.mark();
    if (loads_ && !early.copied) {
      const FrameUnits::Unit unit = frame.segment(0, unit_);
      if (unit.word[3] == mark) {
        copy(unit, mark);
        early.copied = true;
      }
    }
    // Bytes that are no event do no harm: the first warp answers the packet's events alone.
    NANET_ROLLED
    for (unsigned j = 0; j < of_warp; ++j) {
      const std::uint32_t e = event_of(j);
      const std::uint32_t* const marks = s.slot_mark + of_slot * e + 1;
      if (!(wanted_ >> j & 1) || !__all_sync(all, lane_ > of_slot || Block::look(marks[lane_]) == mark))
        continue;
      __threadfence_block();
      const std::uint32_t* const slot = s.slot_words + (wire::mgp::header_bytes + fixed_slot_bytes * e) / 4;
      const std::uint32_t low = Block::look(slot[0]), high = Block::look(slot[1]),
                          pair = Block::look(slot[2 + lane_ / 2]);
      unpack(mark, e, low, high, lane_ & 1 ? pair >> 16 : pair & 0xFFFF);
      wanted_ &= ~(1u << j);
      early.unpacked |= 1u << j;
    }
    std::uint32_t word = 0, sizes = 0;
    if (slots_header(s, mark, word, sizes) && !drop(word, sizes)) return Look::other;
    return Look::slots;
  }
  // Arguments of unpack_slot().
  __device__ void unpack(std::uint32_t mark, std::uint32_t e, std::uint32_t low, std::uint32_t high,
                         std::uint32_t hit) {
    FrameShared& s = call_.shared();
    const bool other = __any_sync(~0u, unpack_slot(call_, e, low, high, hit));
    __syncwarp();
    if (lane_ != 0) return;
    if (other) Block::set(s.not_ahead, 1);
    __threadfence_block();
    Block::set(s.unpacked[e], mark);
  }

  const Resident& r_;
  const SlotsCall<A>& call_;
  unsigned first_, step_, lane_;
  std::uint32_t unit_, wanted_ = 0;
  bool loads_ = false;
};

// Whether the kernel's frames may be unpacked ahead. The same in all threads and for all frames.
template <Summed A>
__device__ bool slots_ahead_possible(const Resident& r, const A& algorithm) {
  return r.mailbox.input && r.sizes.frame && r.sizes.boards == 1 && !r.conditions && algorithm.whole &&
         r.injection.kind == Injection::Kind::none && SlotsAhead<A, true>::possible() &&
         SlotsAhead<A, false>::possible();
}

// Answers the claimed frame from the events that the other warps unpack. Returns their number; 0: the packet
// takes another way. First warp; bytes: of the segment.
template <Summed A, class Clock>
__device__ __forceinline__ std::uint32_t answer_ahead(SlotsCall<A> call, const A& algorithm,
                                                      const FrameOptions& options, std::uint32_t bytes,
                                                      std::uint32_t mark, const Clock& clock) {
  constexpr unsigned all = ~0u;
  const unsigned lane = threadIdx.x & 31;
  FrameShared& s = call.shared();
  // Flags first, then what they announce.
  const auto complete = [&] {
    const bool mine = Block::look(s.unpacked[lane]) == mark;
    std::uint32_t word = 0, sizes = 0;
    if (!slots_header(s, mark, word, sizes)) return false;
    call.events = SlotsHeader(word, sizes, bytes).events;
    return __all_sync(all, lane >= call.events || mine) != 0;
  };
  bool there = complete();
  NANET_ROLLED
  for (unsigned looks = 0; !there && looks < contract::most_unit_reads; ++looks) {
    if (__any_sync(all, Block::look(s.not_ahead) != 0)) break;
    __nanosleep(20);
    there = complete();
  }
  if (!there || call.events == 0 || __any_sync(all, Block::look(s.not_ahead) != 0)) return 0;
  if (lane == 0) s.trace.built = clock();
  answer_slots(call, algorithm, options, clock);
  return call.events;
}

// Whether a claimed frame's packet may be unpacked ahead.
__device__ inline bool may_be_ahead(const Resident& r, const ClaimedEvent& claimed) {
  const std::uint32_t bytes = claimed.line.bytes(0);
  return claimed.found == ClaimedEvent::event && !claimed.skipped && claimed.has_buffer(r) &&
         (claimed.line.flags() & contract::EventLine::segments) && contract::mailbox_mark(claimed.n()) != 0 &&
         bytes >= wire::mgp::header_bytes + fixed_slot_bytes && bytes <= r.mailbox.shape.segment_bytes;
}
// Unpacks events of the expected and of the claimed frame. All warps but the first. Returns true if the
// packet has no slots.
template <Summed A, bool staged>
__device__ __forceinline__ bool unpack_ahead(const Resident& r, const SlotsCall<A>& call,
                                             const ClaimedEvent& claimed) {
  const EarlySlots early = SlotsAhead<A, staged>(r, call).await(claimed);
  if (early.other) return true;
  __threadfence_block();
  if (may_be_ahead(r, claimed))
    SlotsAhead<A, staged>(r, call).settle(FrameUnits{r, claimed.n()}, early, claimed.line.bytes(0));
  return false;
}
// Answers such a frame, beside unpack_ahead(). Returns the number of its events; 0: the packet takes
// another way. First warp.
template <Summed A>
__device__ __forceinline__ std::uint32_t answer_claimed(const Resident& r, SlotsCall<A> call,
                                                        const A& algorithm, const ClaimedEvent& claimed,
                                                        rich::Rings* rings) {
  if (!may_be_ahead(r, claimed)) return 0;
  const std::int64_t offset = claimed.offset;
  call.frame = claimed.frame();
  call.incomplete = is_incomplete(claimed.flags());
  call.rings = call.frame % sample_every == 0 ? rings : nullptr;
  call.answer = answer_lines(r, claimed.n(), claimed.buffer());
  return answer_ahead(call, algorithm, r.options, claimed.line.bytes(0), contract::mailbox_mark(claimed.n()),
                      [offset] { return device_time() + offset; });
}

}  // namespace nanet::gpu
