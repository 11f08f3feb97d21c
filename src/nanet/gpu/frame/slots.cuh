// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, from its bytes to the answer: half a warp sums an event's hits,
// two in a lane, fits and decides; then the lanes of one warp are events, which it orders and answers.
// Included by frame.hpp.
//
// A warp passes an instruction in six to ten cycles, whatever its lanes do: what counts is the number of
// instructions from the last byte to the answer.
#pragma once

#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
template <class T>
__device__ inline T* at_shared(std::uint32_t address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

// Keeps a value in a register: the compiler would compute it again, from special registers, where it is used.
__device__ __forceinline__ void keep_register(std::uint32_t& value) {
  asm("" : "+r"(value));
}

// Unit of 16 B in shared memory, valid if it has the expected mark: one access stores or loads it, so that no
// fence is needed between data and mark.
struct SharedUnit {
  std::uint32_t word[3] = {}, mark = 0;

  __device__ static SharedUnit look(const std::uint32_t (&at)[4]) {
    std::uint64_t low, high;
    asm volatile("{\n\t.reg .b128 t;\n\tld.relaxed.cta.shared.b128 t, [%2];\n\tmov.b128 {%0, %1}, t;\n\t}"
                 : "=l"(low), "=l"(high)
                 : "r"(shared_address(at))
                 : "memory");
    return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
             static_cast<std::uint32_t>(high)},
            static_cast<std::uint32_t>(high >> 32)};
  }
  __device__ void put(std::uint32_t (&at)[4]) const {
    asm volatile("{\n\t.reg .b128 t;\n\tmov.b128 t, {%1, %2};\n\tst.relaxed.cta.shared.b128 [%0], t;\n\t}"
                 :
                 : "r"(shared_address(at)), "l"(word[0] | std::uint64_t{word[1]} << 32),
                   "l"(word[2] | std::uint64_t{mark} << 32)
                 : "memory");
  }
};

// Result of an event, without the words of its frame's event line.
struct SlotResult {
  std::uint32_t word = 0;  // of the answer: primitive and time; primitive 0: too few hits
  std::uint32_t rest = 0;  // time of its fragment, number of rings, whether it needs the careful way

  SlotResult() = default;
  __device__ SlotResult(std::uint32_t id, std::uint32_t time, std::uint32_t opened, std::uint32_t rings,
                        bool careful)
      : word(id << 16 | time), rest(opened | rings << 16 | static_cast<std::uint32_t>(careful) << 31) {}
  __device__ explicit SlotResult(const SharedUnit& unit) : word(unit.word[0]), rest(unit.word[1]) {}
  __device__ SharedUnit unit(std::uint32_t mark) const { return {{word, rest, 0}, mark}; }

  __device__ std::uint32_t id() const { return word >> 16; }
  __device__ std::uint32_t time() const { return word & 0xFFFF; }
  __device__ std::uint32_t opened() const { return rest & 0xFFFF; }
  __device__ bool has_ring() const { return rest >> 16 & 0xFF; }
  __device__ bool careful() const { return rest >> 31; }
};

// Arguments; addresses are of shared memory: of Tables, of the table and of FrameShared.
template <class A>
struct SlotsCall {
  static constexpr unsigned most = most_slots;                                         // events
  std::uint32_t found = 0, pm = 0, event = 0, order = 0, frame_shared = 0, plane = 0;  // found: rings
  const std::int16_t* conditions = nullptr;  // in any memory; null: none
  std::uint32_t events = 0, frame = 0, incomplete = 0;
  rich::Rings* rings = nullptr;  // null: not sampled
  AnswerLines answer;

  __device__ rich::Rings& found_in(unsigned e) const { return at_shared<rich::Rings>(found)[e]; }
  __device__ BuiltEvent& event_of(unsigned e) const { return at_shared<BuiltEvent>(event)[e]; }
  // Two PM IDs of an event.
  __device__ std::uint32_t& two_of(unsigned e, unsigned i) const {
    static_assert(sizeof(PmId) == 2);
    return at_shared<std::uint32_t>(pm)[most * e / 2 + i];
  }
  __device__ FrameShared& shared() const { return *at_shared<FrameShared>(frame_shared); }
  // Keeps the addresses that are used before the answer.
  __device__ void keep() {
    const std::uint32_t distance = frame_shared - plane;
    keep_register(frame_shared);
    plane = frame_shared - distance;
  }
};

// Header of a packet that process_slots() takes: bytes of a segment that hold this packet alone.
struct SlotsHeader {
  std::uint32_t events = 0;  // 0: the packet takes another way

  // word, next: the first two words of the segment.
  __device__ SlotsHeader(std::uint32_t word, std::uint32_t next, std::uint32_t bytes) {
    const std::uint32_t length = next & 0xFFFF, said = next >> 16 & 0xFF;
    const bool fixed = word >> 28 & 1, alone = (length + 15) / 16 * 16 + 16 > bytes;
    if (!fixed || !alone || length < 16 || length > bytes) return;
    const std::uint32_t fit = (length - 16) / fixed_slot_bytes, n = said < fit ? said : fit;
    if (n <= most_slots) events = n;
  }
};

// Merger::mean_time() for at most max_fragment_hits hits; share: 1 / hits. The quotient of floats is at most
// one off: the dividend is below 2^23.
__device__ __forceinline__ std::uint32_t mean_of_slot(std::int32_t sum, std::uint32_t hits, float share) {
  const std::int32_t twice = 2 * sum + static_cast<std::int32_t>(hits),
                     divisor = static_cast<std::int32_t>(2 * hits);
  auto mean = static_cast<std::int32_t>(static_cast<float>(twice) * (0.5f * share));
  const std::int32_t rest = twice - mean * divisor;
  if (rest < 0) --mean;
  if (rest >= divisor) ++mean;
  if (mean < 0) mean = 0;
  return static_cast<std::uint32_t>(mean < lsb_per_frame ? mean : lsb_per_frame - 1);
}

// Sums over each half of a warp of the sums in its lanes, in all of them.
template <Summed A>
__device__ __forceinline__ EventSums<A> sum_halves(const typename A::WholeSums& sums, unsigned lane) {
  static_assert(A::words == 8);
  constexpr unsigned all = ~0u;
  std::int32_t four[4], two[2];
  NANET_UNROLLED
  for (unsigned k = 0; k < 4; ++k) {
    const std::int32_t low = A::word(sums, k), high = A::word(sums, k + 4);
    four[k] = (lane & 8 ? high : low) + __shfl_xor_sync(all, lane & 8 ? low : high, 8);
  }
  NANET_UNROLLED
  for (unsigned k = 0; k < 2; ++k)
    two[k] = (lane & 4 ? four[k + 2] : four[k]) + __shfl_xor_sync(all, lane & 4 ? four[k] : four[k + 2], 4);
  std::int32_t one = (lane & 2 ? two[1] : two[0]) + __shfl_xor_sync(all, lane & 2 ? two[0] : two[1], 2);
  one += __shfl_xor_sync(all, one, 1);
  EventSums<A> total;
  NANET_UNROLLED
  for (unsigned w = 0; w < A::words; ++w) total.word[w] = __shfl_sync(all, one, (lane & 16) + 2 * w);
  return total;
}

// Event e of a packet, from half a warp: low, high: the slot's first words; two: the lane's two hit words.
// publish(result) is called as soon as that is known, before the event is stored; `there`: whether it is to
// be. The event is visible after a barrier. A whole warp.
template <Summed A, class Publish>
__device__ __forceinline__ void decide_slot(const SlotsCall<A>& call, const A& algorithm,
                                            const trigger::DecisionOptions& decision, unsigned lane,
                                            unsigned e, bool there, std::uint32_t low, std::uint32_t high,
                                            std::uint32_t two, const Publish& publish) {
  constexpr unsigned all = ~0u;
  const unsigned i = lane & 15;
  const auto* const pairs = A::pairs(at_shared<const typename PlaneOf<A>::type>(call.plane));
  const std::uint32_t time = (low & 0xFF) << 8 | (high & 0xFF), stored = high >> 8 & 0xFF;
  const bool first = 2 * i < stored, second = 2 * i + 1 < stored;
  const std::uint32_t hits = second ? two : first ? two & 0xFFFF : 0;
  const std::uint32_t a = hits & 0x7FF, b = hits >> 16 & 0x7FF;
  typename A::WholeSums sums;
  sums.add(first ? pairs[a] : 0);
  sums.add(second ? pairs[b] : 0);
  const std::uint32_t before = __shfl_up_sync(all, b, 1);
  bool careful =
      (first && (a >= pm_count || (i > 0 && a <= before))) || (second && (b >= pm_count || b <= a));
  std::int32_t late = ((static_cast<std::int16_t>(hits) >> 11) + (static_cast<std::int32_t>(hits) >> 27)) * 4;
  if (call.conditions) {
    if (first) {
      const std::int32_t offset = call.conditions[a];
      careful |= offset == masked_pm;
      late -= offset;
    }
    if (second) {
      const std::int32_t offset = call.conditions[b];
      careful |= offset == masked_pm;
      late -= offset;
    }
  }
  NANET_UNROLLED
  for (unsigned x = 8; x > 0; x /= 2) late += __shfl_xor_sync(all, late, x);
  const unsigned unusual = __ballot_sync(all, careful) >> (lane & 16) & 0xFFFF;
  const EventSums<A> total = sum_halves<A>(sums, lane);
  const std::uint32_t some = stored ? stored : 1;  // without hits the fragment's time
  const float share = A::share(some);
  const std::uint32_t mean = mean_of_slot(late + static_cast<std::int32_t>(some * time), some, share);
  const bool truncated = (high >> 24 & 1) != 0 || (high >> 16 & 0xFF) > stored;
  const rich::Rings rings = algorithm.ring(total.moments(true), stored, share);
  std::uint32_t id = trigger::decide_event(stored, rings.ambiguous, truncated, decision);
  if (rings.count) id |= trigger::decide_leading(rings.ring[0], 1, decision);
  if (stored < decision.min_hits) id = 0;
  if (there && i == 0)
    publish(SlotResult(id, mean, time, rings.count, unusual != 0 || stored > max_fragment_hits));
  if (!there) return;
  call.two_of(e, i) = a | b << 16;
  if (i != 0) return;
  BuiltEvent event;
  event.first = SlotsCall<A>::most * e;
  event.time = static_cast<std::uint16_t>(mean);
  event.opened = static_cast<std::uint16_t>(time);
  event.hits = static_cast<std::uint16_t>(stored);
  event.members = static_cast<std::uint16_t>(e);
  event.primitive = static_cast<std::uint16_t>(id);
  event.boards = 1;
  event.truncated = truncated ? 1 : 0;
  call.event_of(e) = event;
  call.found_in(e) = rings;
}

// Writes the answer from the lanes of a warp: lane i has the i-th primitive. The packet's header and its
// word of the frame fill one unit.
__device__ __forceinline__ void write_ordered(const AnswerLines& answer, std::uint32_t head,
                                              std::uint32_t primitives, std::uint32_t frame,
                                              std::uint32_t word) {
  constexpr unsigned all = ~0u, per_unit = 3, first = 2;  // units before the primitives'
  static_assert(wire::mtp::header_bytes == 8 && contract::unit_data_bytes == 4 * per_unit);
  const unsigned lane = threadIdx.x & 31;
  const std::uint32_t words = 3 + primitives, at = per_unit * (lane - first);
  std::uint32_t unit[per_unit];
  NANET_UNROLLED
  for (unsigned i = 0; i < per_unit; ++i) {
    const std::uint32_t got = __shfl_sync(all, word, (at + i) & 31u);
    unit[i] = at + i < primitives ? got : 0;
  }
  if (lane == 0) unit[0] = 4 * words;
  if (lane == 1) {
    unit[0] = head;
    unit[1] = primitives << 16 | 4 * words;
    unit[2] = frame & 0xFFFFFF;
  }
  if (lane * per_unit < per_unit * first + primitives) answer.store(lane, unit[0], unit[1], unit[2]);
}

// Orders the decided events, a lane each, and writes the answer. Returns false, without
// effect, if one needs the careful way. settle(): called before what decide_slot() has stored is read. One
// warp.
template <Summed A, class Settle, class Clock>
__device__ __forceinline__ bool answer_slots(const SlotsCall<A>& call, SlotResult result,
                                             const FrameOptions& options, const Settle& settle,
                                             const Clock& clock) {
  constexpr unsigned all = ~0u, most = SlotsCall<A>::most;
  static_assert(most == 32);
  const unsigned lane = threadIdx.x & 31;
  const std::uint32_t n = call.events;
  FrameShared& s = call.shared();
  const bool is = lane < n;
  const std::int64_t built = clock();
  if (!is) result = {};
  if (call.incomplete && result.id()) result.word |= std::uint32_t{trigger::primitive_bit::incomplete} << 16;
  // The usual case: every event gives a primitive, and both times are in order.
  SlotResult earlier;
  earlier.word = __shfl_up_sync(all, result.word, 1);
  earlier.rest = __shfl_up_sync(all, result.rest, 1);
  const bool fits =
      (result.id() != 0) & !result.careful() &
      ((lane == 0) | ((earlier.time() <= result.time()) & (earlier.opened() <= result.opened())));
  const bool usual = __all_sync(all, !is || fits) && !options.downscaling;
  if (usual)
    write_ordered(call.answer, options.source << 24 | (call.frame & 0xFFFFFF), n, call.frame, result.word);
  if (!usual && __any_sync(all, result.careful())) return false;

  const auto with_ring = static_cast<std::uint32_t>(__popc(__ballot_sync(all, result.has_ring())));
  const auto below = static_cast<std::uint32_t>(__popc(__ballot_sync(all, is && !result.id())));
  std::uint32_t source = lane, place = lane;
  if (!usual) {
    // Events are numbered by the time of their fragment, then by arrival.
    std::uint32_t* const order = at_shared<std::uint32_t>(call.order);
    const std::uint32_t opened = is ? result.opened() : ~std::uint32_t{0};
    std::uint32_t rank = 0;
    for (unsigned j = 0; j < n; ++j) {
      const std::uint32_t other = __shfl_sync(all, opened, j);
      rank += other < opened || (other == opened && j < lane);
    }
    if (is) order[rank] = lane;
    __syncwarp();
    if (is) source = order[lane];
    result.word = __shfl_sync(all, result.word, source);
    if (result.id() && options.downscaling) {
      const unsigned kind = trigger::kind_of(static_cast<std::uint16_t>(result.id()));
      if (!trigger::downscale_keeps(static_cast<Lsb>(call.frame) * lsb_per_frame + result.time(),
                                    options.factor[kind])) {
        atomicAdd(&s.downscaled[kind], 1u);
        result.word &= 0xFFFF;
      }
    }
    const std::uint32_t key = result.id() ? result.time() << 16 | lane : ~std::uint32_t{0};
    place = 0;
    for (unsigned j = 0; j < n; ++j) place += __shfl_sync(all, key, j) < key;
  }
  const auto primitives = static_cast<std::uint32_t>(__popc(__ballot_sync(all, result.id() != 0)));
  constexpr std::uint32_t header = wire::mtp::header_bytes / 4;
  if (result.id()) s.packet[header + 1 + place] = result.word;
  const std::uint32_t words = primitives ? header + 1 + primitives : header;
  if (lane == 0) {
    s.words = words;
    s.primitives = primitives;
    s.stamp = call.frame;
    if (primitives) s.packet[header] = call.frame & 0xFFFFFF;
    s.packet[0] = options.source << 24 | (call.frame & 0xFFFFFF);
    s.packet[1] = primitives << 16 | 4 * words;
  }
  __syncwarp();
  if (!usual) call.answer.write(s.packet, words, lane, most);
  if (lane == 0) {
    s.events = n;
    s.below = below;
    s.with_rings[0] = n - with_ring;
    s.with_rings[1] = with_ring;
    s.trace.built = built;
    s.trace.reconstructed = clock();
  }
  if (!usual || call.incomplete || call.rings) {
    settle();
    BuiltEvent event{};
    if (is) event = call.event_of(source);
    __syncwarp();
    event.primitive = static_cast<std::uint16_t>(result.id());
    if (is) call.event_of(lane) = event;
    if (is && call.rings) call.rings[lane] = call.found_in(source);
  }
  __syncwarp();
  return true;
}

// The bytes in shared memory, from the first slot at `slots`. All threads. Returns false, without effect on
// the counts of FrameShared, if an event needs the careful way.
template <Summed A, class Clock>
__device__ __forceinline__ bool process_slots(const SlotsCall<A>& call, std::uint32_t slots,
                                              const A& algorithm, const FrameOptions& options,
                                              const Clock& clock) {
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  FrameShared& s = call.shared();
  bool careful = false;
  for (std::uint32_t from = 2 * warp; from < call.events; from += blockDim.x / 16) {
    const std::uint32_t e = from + lane / 16;
    const bool there = e < call.events;
    const auto* const slot = at_shared<const std::uint32_t>(slots + fixed_slot_bytes * (there ? e : from));
    decide_slot(call, algorithm, options.decision, lane, e, there, slot[0], slot[1], slot[2 + lane % 16],
                [&](const SlotResult& result) {
                  careful |= result.careful();
                  result.unit(0).put(s.slot_result[e]);
                });
    __syncwarp();
  }
  if (__syncthreads_or(careful)) return false;
  if (warp == 0) {
    const SlotResult result(SharedUnit::look(s.slot_result[lane]));
    answer_slots(call, result, options, [] {}, clock);
  }
  return true;
}

}  // namespace nanet::gpu
