// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, unpacked from the mailbox before the event line comes: each warp
// but the first loads the units of its events, with their marks, and sums their hits as soon as they are
// there. The first warp waits for the event line; then it fits, decides and answers.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

// Events that a warp has unpacked before the event line came, of the number that was expected.
struct EarlySlots {
  std::uint64_t n = 0;
  std::uint32_t unpacked = 0;  // mask of the warp's events
  bool other = false;          // the packet has no slots
};

// Shared words that a warp writes while others wait for them; what they announce precedes a fence.
__device__ inline void set_shared(std::uint32_t& word, std::uint32_t value) {
  *const_cast<volatile std::uint32_t*>(&word) = value;
}
__device__ inline std::uint32_t look_shared(const std::uint32_t& word) {
  return *const_cast<const volatile std::uint32_t*>(&word);
}

// A warp's view of the slots. Lanes load eight units for each of four events: lane 8 j + u < 8 j + 7 unit u
// of the j-th event's slot, lane 8 j + 7 the packet's first unit. An event's slot begins in the second word
// of its first unit, and ends with the first word of its last. The last warp has no events: it follows the
// queue's head and the next frame's number for all.
template <Summed A>
class SlotsAhead {
 public:
  static constexpr unsigned of_warp = 4, lanes = 8;
  static_assert(wire::mgp::header_bytes == 16 && fixed_slot_bytes == 72 && contract::unit_data_bytes == 12);

  // Whether the kernel's frames may be unpacked ahead: the mailbox lies in GPU memory, since many warps load
  // its units again and again. The same in all threads and for all frames.
  __device__ static bool possible(const Resident& r, const A& algorithm) {
    return r.mailbox.input && r.early_pause == 0 && r.sizes.frame && r.sizes.boards == 1 && !r.conditions &&
           algorithm.whole && r.injection.kind == Injection::Kind::none &&
           of_warp * (blockDim.x / 32 - 2) >= most_slots;
  }

  // All warps but the first.
  __device__ SlotsAhead(const Resident& r, const SlotsCall<A>& call)
      : r_(r),
        call_(call),
        first_(threadIdx.x / 32 - 1),
        step_(blockDim.x / 32 - 2),
        lane_(threadIdx.x & 31u) {
    const std::uint32_t event = event_of(lane_ / lanes), u = lane_ % lanes;
    unit_ = u + 1 < lanes ? 1 + 6 * event + u : 0;
    const std::uint32_t bytes = r.mailbox.shape.segment_bytes;
    const std::uint32_t fit = bytes < 16 ? 0 : (bytes - 16) / fixed_slot_bytes;
    limit(fit < most_slots ? fit : most_slots);
  }

  // Unpacks events of the expected frames until the first warp has the entry, or a packet has no slots.
  __device__ EarlySlots await(const ClaimedEvent& claimed) {
    FrameShared& s = call_.shared();
    const std::uint32_t mine = wanted_;
    NANET_UNROLLED
    for (unsigned j = 0; j < of_warp; ++j)
      if (lane_ == 0 && (mine >> j & 1)) s.unpacked[event_of(j)] = 0;
    if (lane_ == 0 && first_ == 0) s.unpacked_header = 0;
    __syncwarp();
    constexpr unsigned all = ~0u;
    const auto waiting = [&] { return __all_sync(all, look_shared(claimed.waiting) != 0) != 0; };
    const bool follows = first_ == step_;
    EarlySlots early;
    while (waiting()) {
      if (follows) {
        const std::uint64_t next = load_relaxed_device(&r_.state->next);
        const std::uint64_t frontier = load_relaxed_device(&r_.state->frontier);
        if (lane_ == 0)
          *const_cast<volatile std::uint64_t*>(&s.expected) =
              frontier == claimed.k ? next : ~std::uint64_t{0};
        __syncwarp();
      }
      const std::uint64_t next = __shfl_sync(all, *const_cast<const volatile std::uint64_t*>(&s.expected), 0);
      if (next != early.n) {
        early.n = next;
        early.unpacked = 0;
        wanted_ = mine;
      }
      const FrameUnits lines{r_, early.n};
      if (!wanted_ || !lines.mark()) {  // the event line or the next number is awaited
        __nanosleep(follows ? 100 : 20);
        continue;
      }
      if (look(lines, early) == Look::other) {
        if (lane_ == 0) set_shared(s.not_ahead, 1);
        early.other = true;
        break;
      }
    }
    return early;
  }

  // Unpacks the events of the claimed frame that are still missing. bytes: of the segment.
  __device__ void settle(const FrameUnits& lines, EarlySlots early, std::uint32_t bytes) {
    if (early.n != lines.n) early = {lines.n};
    limit((bytes - 16) / fixed_slot_bytes);
    wanted_ &= ~early.unpacked;
    for (unsigned looks = 0; wanted_ && looks < contract::most_unit_reads; ++looks) {
      if (__any_sync(~0u, look_shared(call_.shared().not_ahead) != 0)) return;
      if (look(lines, early) == Look::other) {
        if (lane_ == 0) set_shared(call_.shared().not_ahead, 1);
        return;
      }
    }
  }

 private:
  enum class Look : std::uint8_t { slots, other };

  __device__ std::uint32_t event_of(unsigned j) const { return first_ + j * step_; }
  // Wants the warp's events below `events`.
  __device__ void limit(std::uint32_t events) {
    wanted_ = 0;
    NANET_UNROLLED
    for (unsigned j = 0; j < of_warp; ++j)
      if (first_ < step_ && event_of(j) < events) wanted_ |= 1u << j;
  }

  // Loads the units of the wanted events once, and unpacks those events that are complete. other: the packet
  // has no slots.
  __device__ Look look(const FrameUnits& lines, EarlySlots& early) {
    constexpr unsigned all = ~0u;
    const bool mine = wanted_ >> lane_ / lanes & 1;
    FrameUnits::Unit unit{};
    if (mine) unit = lines.segment(0, unit_);
    const unsigned there = __ballot_sync(all, mine && unit.word[3] == lines.mark());
    const unsigned heads = there & 0x80808080u;
    if (heads == 0) return Look::slots;
    const unsigned head = static_cast<unsigned>(__ffs(static_cast<int>(heads))) - 1;
    const std::uint32_t word = __shfl_sync(all, unit.word[0], head),
                        sizes = __shfl_sync(all, unit.word[1], head);
    if (!(word >> 28 & 1)) return Look::other;
    const std::uint32_t length = sizes & 0xFFFF, said = sizes >> 16 & 0xFF;
    NANET_ROLLED
    for (unsigned j = 0; j < of_warp; ++j) {
      if (!(wanted_ >> j & 1)) continue;
      const std::uint32_t e = event_of(j);
      if (e >= said || wire::mgp::header_bytes + fixed_slot_bytes * (e + 1) > length) {
        wanted_ &= ~(1u << j);
        continue;
      }
      if ((there >> lanes * j & 0xFF) != 0xFF) continue;
      if (lane_ == 0 && e == 0) {
        call_.shared().slots_head[0] = word;
        call_.shared().slots_head[1] = sizes;
      }
      unpack(lines.mark(), unit, j);
      wanted_ &= ~(1u << j);
      early.unpacked |= 1u << j;
    }
    return Look::slots;
  }
  __device__ void unpack(std::uint32_t mark, const FrameUnits::Unit& unit, unsigned j) {
    constexpr unsigned all = ~0u;
    const std::uint32_t e = event_of(j);
    const unsigned base = lanes * j, source = base + 1 + lane_ / 6, hit = lane_ % 6;
    const std::uint32_t low = __shfl_sync(all, unit.word[1], base),
                        high = __shfl_sync(all, unit.word[2], base);
    const std::uint32_t x = __shfl_sync(all, unit.word[0], source),
                        y = __shfl_sync(all, unit.word[1], source),
                        z = __shfl_sync(all, unit.word[2], source);
    const std::uint32_t pair = hit < 2 ? x : hit < 4 ? y : z;
    const bool careful = unpack_slot(call_, e, low, high, hit & 1 ? pair >> 16 : pair & 0xFFFF);
    FrameShared& s = call_.shared();
    const bool other = __any_sync(all, careful);
    __syncwarp();
    if (lane_ != 0) return;
    if (other) set_shared(s.not_ahead, 1);
    __threadfence_block();
    set_shared(s.unpacked[e], mark);
    if (e == 0) set_shared(s.unpacked_header, mark);
  }

  const Resident& r_;
  const SlotsCall<A>& call_;
  unsigned first_, step_, lane_;
  std::uint32_t unit_, wanted_ = 0;
};

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
    const bool header = look_shared(s.unpacked_header) == mark, mine = look_shared(s.unpacked[lane]) == mark;
    __threadfence_block();
    if (!__all_sync(all, header)) return false;
    call.events = SlotsHeader(s.slots_head[0], s.slots_head[1], bytes).events;
    return __all_sync(all, lane >= call.events || mine) != 0;
  };
  bool there = complete();
  NANET_ROLLED
  for (unsigned looks = 0; !there && looks < contract::most_unit_reads; ++looks) {
    if (__any_sync(all, look_shared(s.not_ahead) != 0)) break;
    __nanosleep(20);
    there = complete();
  }
  if (!there || call.events == 0 || __any_sync(all, look_shared(s.not_ahead) != 0)) return 0;
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
// Unpacks the missing events of such a frame. All warps but the first, after `waiting` has ended.
template <Summed A>
__device__ __forceinline__ void settle_claimed(const Resident& r, const SlotsCall<A>& call,
                                               const ClaimedEvent& claimed, const EarlySlots& early) {
  __threadfence_block();
  if (may_be_ahead(r, claimed))
    SlotsAhead<A>(r, call).settle(FrameUnits{r, claimed.n()}, early, claimed.line.bytes(0));
}
// Answers such a frame, beside settle_claimed(). Returns the number of its events; 0: the packet takes
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
