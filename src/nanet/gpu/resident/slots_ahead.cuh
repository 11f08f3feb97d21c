// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, decided before the event line comes: all warps but the first load
// its units, and sum, fit and decide two events at a time as soon as their units are there. The first warp
// waits for the event line; then it orders and answers.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

// What a warp has of the number that was expected, before the event line came.
struct EarlySlots {
  std::uint64_t n = ~std::uint64_t{0};
  std::uint32_t pairs = 0;  // of its events, decided or not in the packet
  bool copied = false;      // the lane's unit, to shared memory
  bool headed = false;      // the packet's header has been read
  bool other = false;       // the packet has no slots
};

// A warp's share of the slots: pairs of events, half a warp for each event. A slot begins in the second word
// of its first unit, and ends with the first word of its seventh, which is the next one's first. A lane needs
// the unit of its two hits, and all the event's first one.
//
// From GPU memory, each lane loads these, and the packet's first unit.
//
// From host memory (`staged`), loads of one line take turns, a PCIe round trip each. So eight units, two lines
// of the mailbox, have one warp, which copies them to shared memory: lane 8 g + u unit u of the g-th eight.
// The pair that ends there is the same warp's.
//
// The last warp has no events: it follows the queue's head and the next frame's number for all. A number is
// expected while the block's entry is the queue's head, so it is at most the claimed one, whose units are
// therefore not overwritten.
template <Summed A, bool staged>
class SlotsAhead {
 public:
  static constexpr unsigned most_pairs = 2, eight = 8;
  static constexpr unsigned of_slot = fixed_slot_bytes / contract::unit_data_bytes;  // units
  static_assert(wire::mgp::header_bytes == 16 && fixed_slot_bytes == 72 && contract::unit_data_bytes == 12);
  static_assert(slot_units > of_slot * most_slots + 1);

  // All warps but the first.
  __device__ SlotsAhead(const Resident& r, const SlotsCall<A>& call, const A& algorithm)
      : r_(r),
        call_(call),
        algorithm_(algorithm),
        first_(threadIdx.x / 32 - 1),
        step_(blockDim.x / 32 - 2),
        lane_(threadIdx.x & 31u) {}

  // Whether all packets of slots can be decided. The same in all threads and for all frames.
  __device__ static bool possible() {
    return eight * most_pairs * (blockDim.x / 32 - 2) >= of_slot * most_slots + 2;
  }

  // Decides events of the expected frames until the first warp has the entry, or a packet has no slots.
  __device__ __forceinline__ EarlySlots await(const ClaimedEvent& claimed) {
    FrameShared& s = call_.shared();
    EarlySlots early;
    if (first_ == step_) {
      follow(claimed);
      return early;
    }
    limit(r_.mailbox.shape.segment_bytes);
    const std::uint32_t most = events_;
    forget();
    BoardUnits board{nullptr, 0};
    for (;;) {
      const bool looks = board.mark != 0 && unfinished(early);
      Units units;
      if (looks) units = load(board, early);
      // While the units are on their way.
      const bool waiting = waits(claimed);
      const std::uint64_t next =
          __shfl_sync(all, *const_cast<const volatile std::uint64_t*>(&s.expected), 0);
      if (looks && !take(units, board.mark, early)) {
        early.other = true;
        return early;
      }
      if (!waiting) return early;
      if (next != early.n) {
        early = {next};
        events_ = most;
        board = FrameUnits{r_, next}.board(0);
      } else if (!looks) {  // the event line or the next number is awaited
        __nanosleep(20);
      }
    }
  }

  // Decides the events of the claimed frame that are still missing. bytes: of the segment.
  __device__ __forceinline__ void settle(const FrameUnits& frame, EarlySlots early, std::uint32_t bytes) {
    if (first_ == step_) return;
    if (early.n != frame.n) early = {frame.n};
    early.headed = false;
    limit(bytes);
    const BoardUnits board = frame.board(0);
    for (unsigned looks = 0; unfinished(early) && looks < contract::most_unit_reads; ++looks) {
      if (__any_sync(all, Block::look(call_.shared().not_ahead) != 0)) return;
      const Units units = load(board, early);
      if (!take(units, board.mark, early)) return;
    }
  }

 private:
  static constexpr unsigned all = ~0u;

  // Units of a lane: the packet's first one, its event's first one, that of its hits.
  struct Units {
    SharedUnit head, opening, hits;
  };

  __device__ static bool waits(const ClaimedEvent& claimed) {
    return __all_sync(all, Block::look(claimed.waiting) != 0) != 0;
  }
  __device__ void follow(const ClaimedEvent& claimed) const {
    while (waits(claimed)) {
      const std::uint64_t next = load_relaxed_device(&r_.state->next);
      const std::uint64_t frontier = load_relaxed_device(&r_.state->frontier);
      if (lane_ == 0)
        *const_cast<volatile std::uint64_t*>(&call_.shared().expected) =
            frontier == claimed.k ? next : ~std::uint64_t{0};
      __nanosleep(100);
    }
  }

  __device__ std::uint32_t first_unit(unsigned j) const { return eight * (first_ + j * step_); }
  __device__ std::uint32_t own_unit() const { return first_unit(lane_ / eight) + lane_ % eight; }
  // First event of the j-th pair, whose second may not exist; most_slots: there is none. Staged: the pair
  // whose last unit is of the j-th eight.
  __device__ std::uint32_t pair(unsigned j) const {
    if (j >= most_pairs) return most_slots;
    if constexpr (!staged) return 2 * (first_ + j * step_);
    constexpr unsigned units = 2 * of_slot, last = units + 1;
    const std::uint32_t from = first_unit(j), p = from > last ? (from - last + units - 1) / units : 0;
    return units * p + last < from + eight ? 2 * p : most_slots;
  }
  __device__ bool copies(const EarlySlots& early) const {
    return lane_ < eight * most_pairs && !early.copied && own_unit() <= of_slot * events_ + 1;
  }
  __device__ std::uint32_t pair_of(EarlySlots& early) const {
    while (early.pairs < most_pairs && pair(early.pairs) >= events_) ++early.pairs;
    return pair(early.pairs);
  }
  // Other warps need the units that this one copies, and the first one the header.
  __device__ bool unfinished(EarlySlots& early) const {
    return pair_of(early) < events_ || !early.headed || (staged && __any_sync(all, copies(early)));
  }
  // Wants events that fit in a segment of these bytes.
  __device__ void limit(std::uint32_t bytes) {
    constexpr std::uint32_t header = wire::mgp::header_bytes;
    const std::uint32_t fit = bytes < header ? 0 : (bytes - header) / fixed_slot_bytes;
    events_ = fit < most_slots ? fit : most_slots;
  }
  __device__ bool publishes() const { return !staged && first_ == step_ - 1; }
  // Removes the marks of an earlier use, which may have been of the same number.
  __device__ void forget() const {
    FrameShared& s = call_.shared();
    NANET_UNROLLED
    for (unsigned j = 0; j < most_pairs; ++j) {
      const std::uint32_t e = pair(j) + lane_ / 16;
      if (lane_ % 16 != 0 || e >= most_slots) continue;
      Block::set(s.slot_result[e][3], 0);
      Block::set(s.stored[e], 0);
    }
    if (staged && lane_ < eight * most_pairs && own_unit() < slot_units)
      Block::set(s.slot_unit[own_unit()][3], 0);
    if (publishes() && lane_ == 0) Block::set(s.slot_unit[0][3], 0);
    __syncwarp();
  }

  __device__ static SharedUnit loaded(const BoardUnits& board, std::uint32_t u) {
    const Unit unit = board.unit(static_cast<std::uint32_t>(contract::unit_bytes) * u);
    return {{unit.word[0], unit.word[1], unit.word[2]}, unit.word[3]};
  }
  // Loads the units of the warp's pair once.
  __device__ __forceinline__ Units load(const BoardUnits& board, EarlySlots& early) const {
    FrameShared& s = call_.shared();
    const std::uint32_t e = pair_of(early) + lane_ / 16;
    const std::uint32_t opening = of_slot * e + 1, hits = opening + 1 + lane_ % 16 / 3;
    Units units;
    if constexpr (staged) {
      if (copies(early)) {
        const SharedUnit unit = loaded(board, own_unit());
        if (unit.mark == board.mark) {
          unit.put(s.slot_unit[own_unit()]);
          early.copied = true;
        }
      }
      __syncwarp();
      units.head = SharedUnit::look(s.slot_unit[0]);
      if (e < events_) {
        units.opening = SharedUnit::look(s.slot_unit[opening]);
        units.hits = SharedUnit::look(s.slot_unit[hits]);
      }
    } else {
      units.head = loaded(board, 0);
      if (e < events_) {
        units.opening = loaded(board, opening);
        units.hits = loaded(board, hits);
      }
    }
    return units;
  }
  // Decides the pair if its units are there. Returns false if the packet has no slots.
  __device__ __forceinline__ bool take(const Units& units, std::uint32_t mark, EarlySlots& early) {
    FrameShared& s = call_.shared();
    const std::uint32_t from = pair_of(early), e = from + lane_ / 16;
    const unsigned there = __ballot_sync(all, units.opening.mark == mark && units.hits.mark == mark);
    const std::uint32_t word = units.head.word[0], sizes = units.head.word[1], said = sizes >> 16 & 0xFF;
    const bool headed = __all_sync(all, units.head.mark == mark) != 0;
    if (headed && publishes() && lane_ == 0) units.head.put(s.slot_unit[0]);
    const bool alone = (there & 0xFFFF) == 0xFFFF && (events_ == from + 1 || (headed && said == from + 1));
    if (there == all || alone) {
      const std::uint32_t of = lane_ % 16 % 3;
      const std::uint32_t two = of == 0 ? units.hits.word[0] : of == 1 ? units.hits.word[1] : units.hits.word[2];
      const bool is = there >> lane_ & 1;
      decide_slot(call_, algorithm_, r_.options.decision, e, is, units.opening.word[1], units.opening.word[2], two,
                  [&](const SlotResult& result) { result.unit(mark).put(s.slot_result[e]); });
      __syncwarp();
      if (is && lane_ % 16 == 0) {
        __threadfence_block();
        Block::set(s.stored[e], mark);
      }
      ++early.pairs;
    }
    if (!headed || early.headed) return true;
    early.headed = true;
    if (!(word >> 28 & 1)) {
      if (lane_ == 0) Block::set(s.not_ahead, 1);
      return false;
    }
    const std::uint32_t events_before = events_;
    limit(sizes & 0xFFFF);
    if (said < events_) events_ = said;
    if (events_before < events_) events_ = events_before;
    return true;
  }

  const Resident& r_;
  const SlotsCall<A>& call_;
  const A& algorithm_;
  unsigned first_, step_, lane_;
  std::uint32_t events_ = 0;
};

// Whether the kernel's frames may be decided ahead. The same in all threads and for all frames.
template <Summed A>
__device__ bool slots_ahead_possible(const Resident& r, const A& algorithm) {
  return r.mailbox.input && r.sizes.frame && r.sizes.boards == 1 && !r.conditions && algorithm.whole &&
         r.injection.kind == Injection::Kind::none && SlotsAhead<A, true>::possible();
}

// Answers the claimed frame from the events that the other warps decide. Returns their number; 0: the packet
// takes another way. First warp; bytes: of the segment.
template <Summed A, class Clock>
__device__ __forceinline__ std::uint32_t answer_ahead(SlotsCall<A> call, const FrameOptions& options,
                                                      std::uint32_t bytes, std::uint32_t mark,
                                                      const Clock& clock) {
  constexpr unsigned all = ~0u;
  const unsigned lane = threadIdx.x & 31;
  FrameShared& s = call.shared();
  SharedUnit unit;
  bool there = false;
  NANET_ROLLED
  for (unsigned looks = 0; looks < contract::most_unit_reads; ++looks) {
    const SharedUnit head = SharedUnit::look(s.slot_unit[0]);
    unit = SharedUnit::look(s.slot_result[lane]);
    const bool other = Block::look(s.not_ahead) != 0;
    call.events = head.mark == mark ? SlotsHeader(head.word[0], head.word[1], bytes).events : 0;
    there = __all_sync(all, head.mark == mark && (lane >= call.events || unit.mark == mark)) != 0;
    if (there || __any_sync(all, other)) break;
  }
  const SlotResult result(unit);
  if (!there || call.events == 0 || __any_sync(all, lane < call.events && result.careful())) return 0;
  answer_slots(
      call, result, options,
      [&] {
        while (!__all_sync(all, lane >= call.events || Block::look(s.stored[lane]) == mark)) continue;
        __threadfence_block();
      },
      clock);
  return call.events;
}

// Whether a claimed frame's packet may be decided ahead.
__device__ inline bool may_be_ahead(const Resident& r, const ClaimedEvent& claimed) {
  const std::uint32_t bytes = claimed.line.bytes(0);
  return claimed.found == ClaimedEvent::event && !claimed.skipped && claimed.has_buffer(r) &&
         (claimed.line.flags() & contract::EventLine::segments) && contract::mailbox_mark(claimed.n()) != 0 &&
         bytes >= wire::mgp::header_bytes + fixed_slot_bytes && bytes <= r.mailbox.shape.segment_bytes;
}
// Decides events of the expected and of the claimed frame. All warps but the first. Returns true if the
// packet has no slots.
template <Summed A, bool staged>
__device__ __forceinline__ bool unpack_ahead(const Resident& r, const SlotsCall<A>& call, const A& algorithm,
                                             const ClaimedEvent& claimed) {
  SlotsAhead<A, staged> slots(r, call, algorithm);
  const EarlySlots early = slots.await(claimed);
  if (early.other) return true;
  __threadfence_block();
  if (may_be_ahead(r, claimed))
    slots.settle(FrameUnits{r, claimed.n()}, early, claimed.line.bytes(0));
  return false;
}
// Answers such a frame, beside unpack_ahead(). Returns the number of its events; 0: the packet takes
// another way. First warp.
template <Summed A>
__device__ __forceinline__ std::uint32_t answer_claimed(const Resident& r, SlotsCall<A> call,
                                                        const ClaimedEvent& claimed, rich::Rings* rings) {
  if (!may_be_ahead(r, claimed)) return 0;
  const std::int64_t offset = claimed.offset;
  call.frame = claimed.frame();
  call.incomplete = is_incomplete(claimed.flags());
  call.rings = call.frame % sample_every == 0 ? rings : nullptr;
  call.answer = answer_lines(r, claimed.n(), claimed.buffer());
  return answer_ahead(call, r.options, claimed.line.bytes(0), contract::mailbox_mark(claimed.n()),
                      [offset] { return device_time() + offset; });
}

}  // namespace nanet::gpu
