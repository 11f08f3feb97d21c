// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, from its bytes to the answer: a warp unpacks an event and sums
// its hits, a lane each; then the lanes of one warp are events: they order, fit and decide. Included by
// frame.hpp.
//
// A single thread runs at five cycles per instruction: what counts is the length of the longest chain.
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

// Arguments; addresses are of shared memory, of the members of Tables that they are named after.
template <class A>
struct SlotsCall {
  static constexpr unsigned most = most_slots;  // events
  std::uint32_t sums = 0, pm = 0, event = 0, order = 0, key = 0, frame_shared = 0, plane = 0;
  const std::int16_t* conditions = nullptr;  // in any memory; null: none
  std::uint32_t events = 0, frame = 0, incomplete = 0;
  rich::Rings* rings = nullptr;  // null: not sampled
  AnswerLines answer;

  __device__ EventSums<A>& sums_of(unsigned e) const { return at_shared<EventSums<A>>(sums)[e]; }
  __device__ BuiltEvent& event_of(unsigned e) const { return at_shared<BuiltEvent>(event)[e]; }
  // 1 / hits of an event.
  __device__ float& share_of(unsigned e) const { return at_shared<float>(key)[e]; }
  __device__ FrameShared& shared() const { return *at_shared<FrameShared>(frame_shared); }
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

// Unpacks event e: low, high: the slot's first words; hit: the lane's hit word. One warp; the results are
// visible after a barrier. Returns true in some lane if the event needs the careful way.
template <Summed A>
__device__ __forceinline__ bool unpack_slot(const SlotsCall<A>& call, unsigned e, std::uint32_t low,
                                            std::uint32_t high, std::uint32_t hit) {
  constexpr unsigned all = ~0u, most = SlotsCall<A>::most;
  const unsigned lane = threadIdx.x & 31;
  const auto* const pairs = A::pairs(at_shared<const typename PlaneOf<A>::type>(call.plane));
  const std::uint32_t time = (low & 0xFF) << 8 | (high & 0xFF), stored = high >> 8 & 0xFF;
  const bool is = lane < stored;
  const std::uint32_t word = is ? hit : 0, id = word & 0x7FF;
  const std::uint32_t pair = pairs[id], before = __shfl_up_sync(all, id, 1);
  bool careful = stored > max_fragment_hits || (is && (id >= pm_count || (lane > 0 && id <= before)));
  std::int32_t late = is ? (static_cast<std::int16_t>(word) >> 11) * 4 : 0;
  if (call.conditions && is) {
    const std::int32_t offset = call.conditions[id];
    careful |= offset == masked_pm;
    late -= offset;
  }
  at_shared<PmId>(call.pm)[most * e + lane] = static_cast<PmId>(id);
  const std::int32_t differences = __reduce_add_sync(all, late);
  typename A::WholeSums sum;
  sum.add(is ? pair : 0);
  EventSums<A> total;
  NANET_UNROLLED
  for (unsigned w = 0; w < A::words; ++w) total.word[w] = __reduce_add_sync(all, A::word(sum, w));
  const std::uint32_t mean =
      stored ? Merger<Block>::mean_time(differences + static_cast<std::int32_t>(stored * time), stored)
             : time;
  const float share = A::share(stored);
  if (lane == 0) {
    call.sums_of(e) = total;
    BuiltEvent event;
    event.first = most * e;
    event.time = static_cast<std::uint16_t>(mean);
    event.opened = static_cast<std::uint16_t>(time);
    event.hits = static_cast<std::uint16_t>(stored);
    event.members = static_cast<std::uint16_t>(e);
    event.primitive = 0;
    event.boards = 1;
    event.truncated = (high >> 24 & 1) != 0 || (high >> 16 & 0xFF) > stored ? 1 : 0;
    call.event_of(e) = event;
    call.share_of(e) = share;
  }
  return careful;
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

// Orders, fits and decides the events that have been unpacked, and writes the answer. One warp.
template <Summed A, class Clock>
__device__ __forceinline__ void answer_slots(const SlotsCall<A>& call, const A& algorithm,
                                             const FrameOptions& options, const Clock& clock) {
  constexpr unsigned all = ~0u, most = SlotsCall<A>::most;
  static_assert(most == 32);
  const unsigned lane = threadIdx.x & 31;
  const std::uint32_t n = call.events;
  FrameShared& s = call.shared();
  std::uint32_t* const order = at_shared<std::uint32_t>(call.order);
  const bool is = lane < n;
  BuiltEvent event{};
  if (is) event = call.event_of(lane);
  // Events are numbered by the time of their first fragment, then by arrival.
  std::uint32_t source = lane;
  const std::uint32_t opened = is ? event.opened : ~std::uint32_t{0};
  const std::uint32_t preceding = __shfl_up_sync(all, opened, 1);
  if (__any_sync(all, is && lane > 0 && preceding > opened)) {
    std::uint32_t rank = 0;
    for (unsigned j = 0; j < n; ++j) {
      const std::uint32_t other = __shfl_sync(all, opened, j);
      rank += other < opened || (other == opened && j < lane);
    }
    if (is) order[rank] = lane;
    __syncwarp();
    if (is) {
      source = order[lane];
      event = call.event_of(source);
    }
    __syncwarp();
  }
  const std::uint32_t hits = event.hits, time = event.time;
  rich::Rings rings;
  std::uint32_t id = 0;
  bool below = false, scaled = false;
  unsigned kind = 0;
  if (is) {
    rings = algorithm.ring(call.sums_of(source).moments(true), hits, call.share_of(source));
    id = trigger::decide_event(hits, rings.ambiguous, call.incomplete || event.truncated, options.decision);
    if (rings.count) id |= trigger::decide_leading(rings.ring[0], 1, options.decision);
    below = hits < options.decision.min_hits;
    if (below) id = 0;
    if (!below && options.downscaling) {
      kind = trigger::kind_of(static_cast<std::uint16_t>(id));
      scaled = !trigger::downscale_keeps(static_cast<Lsb>(call.frame) * lsb_per_frame + time,
                                         options.factor[kind]);
      if (scaled) id = 0;
    }
  }
  const std::uint32_t word = id << 16 | time, key = id ? time << 16 | lane : ~std::uint32_t{0};
  const std::uint32_t earlier = __shfl_up_sync(all, key, 1);
  const bool disorder = __any_sync(all, is && (id == 0 || (lane > 0 && earlier > key)));
  const std::uint32_t head = options.source << 24 | (call.frame & 0xFFFFFF);
  // The usual case: every event gives a primitive, in order of time.
  if (!disorder) write_ordered(call.answer, head, n, call.frame, word);
  std::uint32_t place = lane;
  if (disorder) {
    place = 0;
    for (unsigned j = 0; j < n; ++j) place += __shfl_sync(all, key, j) < key;
  }
  const auto primitives = static_cast<std::uint32_t>(__popc(__ballot_sync(all, id != 0)));
  constexpr std::uint32_t header = wire::mtp::header_bytes / 4;
  if (id) s.packet[header + 1 + place] = word;
  const std::uint32_t words = primitives ? header + 1 + primitives : header;
  if (lane == 0) {
    s.words = words;
    s.primitives = primitives;
    s.stamp = call.frame;
    if (primitives) s.packet[header] = call.frame & 0xFFFFFF;
    s.packet[0] = head;
    s.packet[1] = primitives << 16 | 4 * words;
  }
  __syncwarp();
  if (disorder) call.answer.write(s.packet, words, lane, most);

  const auto with_ring = static_cast<std::uint32_t>(__popc(__ballot_sync(all, is && rings.count != 0)));
  const auto under = static_cast<std::uint32_t>(__popc(__ballot_sync(all, below)));
  if (scaled) atomicAdd(&s.downscaled[kind], 1u);
  if (is) {
    event.primitive = static_cast<std::uint16_t>(id);
    call.event_of(lane) = event;
    if (call.rings) call.rings[lane] = rings;
  }
  if (lane == 0) {
    s.events = n;
    s.below = under;
    s.with_rings[0] = n - with_ring;
    s.with_rings[1] = with_ring;
    s.trace.reconstructed = clock();
  }
  __syncwarp();
}

// The bytes in shared memory, from the first slot at `slots`. All threads. Returns false, without effect on
// FrameShared, if an event needs the careful way.
template <Summed A, class Clock>
__device__ __forceinline__ bool process_slots(const SlotsCall<A>& call, std::uint32_t slots,
                                              const A& algorithm, const FrameOptions& options,
                                              const Clock& clock) {
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  bool careful = false;
  for (std::uint32_t e = warp; e < call.events; e += blockDim.x >> 5) {
    const std::byte* const slot = at_shared<const std::byte>(slots + fixed_slot_bytes * e);
    careful |= unpack_slot(call, e, full_word(slot), full_word(slot + 4), half_word(slot + 8 + 2 * lane));
  }
  if (__syncthreads_or(careful)) return false;
  if (threadIdx.x == 32) call.shared().trace.built = clock();
  if (warp == 0) answer_slots(call, algorithm, options, clock);
  return true;
}

}  // namespace nanet::gpu
