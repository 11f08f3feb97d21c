// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, decided before the event line comes: all warps but the first load
// its units, and sum, fit and decide two events at a time as soon as their units are there. The first warp
// waits for the event line; then it orders and answers.
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

// Whether a claimed frame's packet may be decided ahead.
__device__ inline bool may_be_ahead(const Resident& r, const ClaimedEvent& claimed) {
  const std::uint32_t bytes = claimed.line.bytes(0);
  return claimed.found == ClaimedEvent::event && !claimed.skipped && claimed.has_buffer(r) &&
         (claimed.line.flags() & contract::EventLine::segments) && contract::mailbox_mark(claimed.n()) != 0 &&
         bytes >= wire::mgp::header_bytes + fixed_slot_bytes && bytes <= r.mailbox.shape.segment_bytes;
}

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
// From host memory (`staged`), loads of one line take turns, a PCIe round trip each. So eight units, two
// lines of the mailbox, have one warp, which copies them to shared memory: lane 8 g + u unit u of the g-th
// eight. The pair that ends there is the same warp's.
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
        lane_(threadIdx.x & 31u) {
    call_.keep();
    keep_register(lane_);
  }

  // Whether all packets of slots can be decided. The same in all threads and for all frames.
  __device__ static bool possible() {
    return eight * most_pairs * (blockDim.x / 32 - 2) >= of_slot * most_slots + 2;
  }

  // Decides events of the expected frames until the first warp hands over its entry, then those of its frame
  // that are still missing; less if a packet has no slots.
  __device__ __forceinline__ EarlySlots run(const ClaimedEvent& claimed) {
    FrameShared& s = call_.shared();
    EarlySlots early;
    if (first_ == step_) {
      follow(claimed);
      return early;
    }
    bool settles = false;  // the frame is the claimed one
    unsigned looks = 0;
    limit(r_.mailbox.shape.segment_bytes);
    start(early);
    forget();
    BoardUnits board{nullptr, 0};
    for (;;) {
      const bool loads = board.mark != 0 && unfinished(early);
      Units units;
      if (loads) units = load(board, early);
      // While the units are on their way.
      const bool waiting = !settles && waits(claimed);
      const std::uint64_t next = __shfl_sync(all, *const_cast<const volatile std::uint64_t*>(&s.expected), 0);
      if (loads) take(units, board.mark, early);
      if (early.other) {
        if (lane_ == 0) Block::set(s.not_ahead, 1);
        early.other = !settles;
        return early;
      }
      if (settles) {
        if (!unfinished(early) || ++looks == contract::most_unit_reads) return early;
        if (__any_sync(all, Block::look(s.not_ahead) != 0)) return early;
      } else if (!waiting) {
        settles = true;
        Block::fence();
        if (!may_be_ahead(r_, claimed)) return early;
        const FrameUnits frame{r_, claimed.n()};
        if (early.n == frame.n && !unfinished(early)) return early;
        if (early.n != frame.n) early = {frame.n};
        board = frame.board(0);
        early.headed = false;
        limit(claimed.line.bytes(0));
        start(early);
      } else if (next != early.n) {
        early = {next};
        board = FrameUnits{r_, next}.board(0);
        limit(r_.mailbox.shape.segment_bytes);
        start(early);
      } else if (!loads) {  // awaits the next number, or the event line; each look delays the others
        __nanosleep(board.mark ? 200 : 20);
      }
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
  // Goes on to the next pair of the packet.
  __device__ void start(EarlySlots& early) {
    while (early.pairs < most_pairs && pair(early.pairs) >= events_) ++early.pairs;
    from_ = pair(early.pairs);
  }
  // Wants events that fit in a segment of these bytes.
  __device__ void limit(std::uint32_t bytes) {
    constexpr std::uint32_t header = wire::mgp::header_bytes;
    const std::uint32_t fit = bytes < header ? 0 : (bytes - header) / fixed_slot_bytes;
    events_ = fit < most_slots ? fit : most_slots;
  }
  __device__ bool copies(const EarlySlots& early) const {
    return lane_ < eight * most_pairs && !early.copied && own_unit() <= of_slot * events_ + 1;
  }
  // Other warps need the units that this one copies, and the first one the header.
  __device__ bool unfinished(const EarlySlots& early) const {
    return from_ < events_ || !early.headed || (staged && __any_sync(all, copies(early)));
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
  __device__ __forceinline__ Units load(const BoardUnits& board, EarlySlots& early) {
    FrameShared& s = call_.shared();
    Units units;
    if constexpr (staged) {
      // While the packet arrives, the header comes first: it says which units do not.
      if (!early.headed) {
        units.head = SharedUnit::look(s.slot_unit[0]);
        if (__all_sync(all, units.head.mark == board.mark)) read_header(units.head, early);
      }
      const bool begun = __any_sync(all, early.copied) && first_ != 0;
      if (copies(early) && (early.headed || !begun)) {
        const SharedUnit unit = loaded(board, own_unit());
        if (unit.mark == board.mark) {
          unit.put(s.slot_unit[own_unit()]);
          early.copied = true;
        }
      }
      __syncwarp();
      units.head = SharedUnit::look(s.slot_unit[0]);
    } else {
      units.head = loaded(board, 0);
    }
    const std::uint32_t e = from_ + lane_ / 16;
    if (e >= events_) return units;
    const std::uint32_t opening = of_slot * e + 1, hits = opening + 1 + lane_ % 16 / 3;
    if constexpr (staged) {
      units.opening = SharedUnit::look(s.slot_unit[opening]);
      units.hits = SharedUnit::look(s.slot_unit[hits]);
    } else {
      units.opening = loaded(board, opening);
      units.hits = loaded(board, hits);
    }
    return units;
  }
  // Decides the pair if its units are there.
  __device__ __forceinline__ void take(const Units& units, std::uint32_t mark, EarlySlots& early) {
    FrameShared& s = call_.shared();
    const unsigned there = __ballot_sync(all, units.opening.mark == mark && units.hits.mark == mark);
    const bool headed = __all_sync(all, units.head.mark == mark) != 0;
    if (publishes() && headed && lane_ == 0) units.head.put(s.slot_unit[0]);
    bool takes = there == all;
    if (!takes && (there & 0xFFFF) == 0xFFFF)  // a last event without a second
      takes = from_ + 1 == events_ || (headed && from_ + 1 == (units.head.word[1] >> 16 & 0xFF));
    if (takes) {
      const std::uint32_t of = lane_ % 16 % 3, e = from_ + lane_ / 16;
      const std::uint32_t two = of == 0   ? units.hits.word[0]
                                : of == 1 ? units.hits.word[1]
                                          : units.hits.word[2];
      const bool is = there >> lane_ & 1;
      decide_slot(call_, algorithm_, r_.options.decision, lane_, e, is, units.opening.word[1],
                  units.opening.word[2], two,
                  [&](const SlotResult& result) { result.unit(mark).put(s.slot_result[e]); });
      __syncwarp();
      if (is && lane_ % 16 == 0) {
        Block::fence();
        Block::set(s.stored[e], mark);
      }
      ++early.pairs;
      start(early);
    }
    if (headed && !early.headed) read_header(units.head, early);
  }
  // Drops what the header excludes.
  __device__ void read_header(const SharedUnit& head, EarlySlots& early) {
    const std::uint32_t sizes = head.word[1], said = sizes >> 16 & 0xFF, before = events_;
    limit(sizes & 0xFFFF);
    if (said < events_) events_ = said;
    if (before < events_) events_ = before;
    early.headed = true;
    early.other = !(head.word[0] >> 28 & 1);
    start(early);
  }

  const Resident& r_;
  SlotsCall<A> call_;
  const A& algorithm_;
  std::uint32_t first_, step_, lane_;
  std::uint32_t events_ = 0, from_ = most_slots;  // from_: first event of the pair; at least events_: none
};

// Whether the kernel's frames may be decided ahead. The same in all threads and for all frames.
template <Summed A>
__device__ bool slots_ahead_possible(const Resident& r, const A& algorithm) {
  return r.mailbox.input && r.sizes.frame && r.sizes.boards == 1 && !r.conditions && algorithm.whole &&
         r.injection.kind == Injection::Kind::none && SlotsAhead<A, true>::possible();
}
// Decides events of the expected and of the claimed frame. All warps but the first. Returns true if the
// packet has no slots.
template <Summed A, bool staged>
__device__ __forceinline__ bool decide_ahead(const Resident& r, const SlotsCall<A>& call, const A& algorithm,
                                             const ClaimedEvent& claimed) {
  return SlotsAhead<A, staged>(r, call, algorithm).run(claimed).other;
}

// Frame whose packet may be decided ahead, by its event line.
struct SlotsFrame {
  std::uint32_t bytes = 0;  // of the segment; 0: it may not
  std::uint32_t mark = 0, frame = 0, buffer = 0, flags = 0;
  std::int64_t offset = 0;
};
// First warp.
__device__ inline SlotsFrame slots_frame(const Resident& r, const TakenEntry& taken) {
  using contract::EventLine;
  const std::uint32_t first = taken.word(0), bytes = taken.word(offsetof(EventLine, bytes) / 4) & 0xFFFF,
                      flags = taken.word(offsetof(EventLine, flags) / 4);
  SlotsFrame f;
  f.buffer = taken.word(1);
  f.frame = taken.word(3);
  f.mark = contract::mailbox_mark(taken.word(6));
  f.flags = first >> 16;
  f.offset = taken.offset;
  const bool may =
      taken.found && (first & 0xFF) == static_cast<std::uint32_t>(contract::EventType::receive_done) &&
      f.buffer < r.shape.buffers && (flags & EventLine::segments) && f.mark != 0 &&
      bytes >= wire::mgp::header_bytes + fixed_slot_bytes && bytes <= r.mailbox.shape.segment_bytes;
  f.bytes = may ? bytes : 0;
  return f;
}
// Whether the other warps decide it before they have the event line, and it is not skipped: then it is
// answered first.
__device__ inline bool slots_expected(const Resident& r, const FrameShared& s, const SlotsFrame& f) {
  const std::uint64_t n = *const_cast<const volatile std::uint64_t*>(&s.expected);
  return r.shedder.deadline <= 0 && __all_sync(~0u, contract::mailbox_mark(n) == f.mark);
}
// Answers it from the events that the other warps decide. Returns their number; 0: the packet takes another
// way. First warp.
template <Summed A>
__device__ __forceinline__ std::uint32_t answer_ahead(const Resident& r, SlotsCall<A> call,
                                                      const SlotsFrame& f, rich::Rings* rings) {
  constexpr unsigned all = ~0u;
  const unsigned lane = threadIdx.x & 31;
  FrameShared& s = call.shared();
  call.frame = f.frame;
  call.incomplete = is_incomplete(static_cast<std::uint16_t>(f.flags));
  call.rings = call.frame % sample_every == 0 ? rings : nullptr;
  if (r.mailbox.answers)
    call.answer = {
        reinterpret_cast<Sixteen*>(r.mailbox.answers + contract::answer_line_bytes * std::size_t{f.buffer}),
        f.mark};
  unsigned looks = contract::most_unit_reads;
  // Some warp may have met a packet without slots, of another number.
  const auto goes_on = [&] { return --looks && !__any_sync(all, Block::look(s.not_ahead) != 0); };
  SharedUnit head, unit;
  bool there = false;
  do {
    head = SharedUnit::look(s.slot_unit[0]);
    there = __all_sync(all, head.mark == f.mark) != 0;
  } while (!there && goes_on());
  if (!there) return 0;
  call.events = SlotsHeader(head.word[0], head.word[1], f.bytes).events;
  if (call.events == 0) return 0;
  const bool is = lane < call.events;
  do {
    unit = SharedUnit::look(s.slot_result[lane]);
    there = __all_sync(all, !is || unit.mark == f.mark) != 0;
  } while (!there && goes_on());
  if (!there) return 0;
  const bool answered = answer_slots(
      call, SlotResult(unit), r.options,
      [&] {
        while (!__all_sync(all, !is || Block::look(s.stored[lane]) == f.mark)) continue;
        Block::fence();
      },
      [&] { return device_time() + f.offset; });
  return answered ? call.events : 0;
}

}  // namespace nanet::gpu
