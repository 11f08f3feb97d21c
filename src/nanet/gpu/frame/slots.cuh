// SPDX-License-Identifier: Apache-2.0
// Packet of one board with events in slots, from its bytes in shared memory to the answer: a warp unpacks an
// event and sums its hits, a lane each; then the lanes of one warp are events: they order, fit and decide.
// Included by frame.hpp.
//
// A single thread runs at five cycles per instruction: what counts is the length of the longest chain.
#pragma once

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
  static constexpr unsigned most = 32;  // events
  std::uint32_t slots = 0, sums = 0, pm = 0, event = 0, order = 0, key = 0, frame_shared = 0, plane = 0;
  const std::int16_t* conditions = nullptr;  // in any memory; null: none
  std::uint32_t events = 0, frame = 0, incomplete = 0;
  rich::Rings* rings = nullptr;  // null: not sampled
  AnswerLines answer;
};

// All threads. Returns false, without effect on FrameShared, if an event needs the careful way.
template <Summed A, class Clock>
__device__ __forceinline__ bool process_slots(const SlotsCall<A>& call, const A& algorithm,
                                              const FrameOptions& options, const Clock& clock) {
  constexpr unsigned all = ~0u, most = SlotsCall<A>::most;
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const std::uint32_t n = call.events;
  EventSums<A>* const sums = at_shared<EventSums<A>>(call.sums);
  const auto* const pairs = A::pairs(at_shared<const typename PlaneOf<A>::type>(call.plane));
  PmId* const pm = at_shared<PmId>(call.pm);
  BuiltEvent* const events = at_shared<BuiltEvent>(call.event);
  // Of each event, by arrival: sum of times. Of each number of an event: its arrival.
  std::int32_t* const times = at_shared<std::int32_t>(call.key);
  std::uint32_t* const order = at_shared<std::uint32_t>(call.order);

  bool careful = false;
  for (std::uint32_t e = warp; e < n; e += blockDim.x >> 5) {
    const std::byte* const slot = at_shared<const std::byte>(call.slots + fixed_slot_bytes * e);
    const std::uint32_t low = full_word(slot), high = full_word(slot + 4);
    const std::uint32_t time = (low & 0xFF) << 8 | (high & 0xFF), stored = high >> 8 & 0xFF;
    careful |= stored > max_fragment_hits;
    const bool is = lane < stored;
    const std::uint32_t word = is ? half_word(slot + 8 + 2 * lane) : 0, id = word & 0x7FF;
    const std::uint32_t before = __shfl_up_sync(all, id, 1);
    careful |= is && (id >= pm_count || (lane > 0 && id <= before));
    std::int32_t late = is ? (static_cast<std::int16_t>(word) >> 11) * 4 : 0;
    if (call.conditions && is) {
      const std::int32_t offset = call.conditions[id];
      careful |= offset == masked_pm;
      late -= offset;
    }
    pm[most * e + lane] = static_cast<PmId>(id);
    const std::int32_t differences = __reduce_add_sync(all, late);
    typename A::WholeSums hit;
    const std::uint32_t pair = pairs[id];
    hit.add(is ? pair : 0);
    EventSums<A> total;
    NANET_UNROLLED
    for (unsigned w = 0; w < A::words; ++w) total.word[w] = __reduce_add_sync(all, A::word(hit, w));
    if (lane == 0) {
      sums[e] = total;
      BuiltEvent event;
      event.first = most * e;
      event.opened = static_cast<std::uint16_t>(time);
      event.hits = static_cast<std::uint16_t>(stored);
      event.members = static_cast<std::uint16_t>(e);
      event.primitive = 0;
      event.boards = 1;
      event.truncated = (high >> 24 & 1) != 0 || (high >> 16 & 0xFF) > stored ? 1 : 0;
      event.time = 0;
      events[e] = event;
      times[e] = differences + static_cast<std::int32_t>(stored * time);
    }
  }
  if (__syncthreads_or(careful)) return false;
  FrameShared& s = *at_shared<FrameShared>(call.frame_shared);
  if (threadIdx.x == 32) s.trace.built = clock();
  if (warp != 0) return true;
  const bool is = lane < n;
  BuiltEvent event{};
  if (is) event = events[lane];
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
      event = events[source];
    }
    __syncwarp();
  }
  const std::uint32_t hits = event.hits;
  std::uint32_t time = event.opened;
  if (hits) time = Merger<Block>::mean_time(times[source], hits);
  rich::Rings rings;
  std::uint32_t id = 0;
  bool below = false, scaled = false;
  unsigned kind = 0;
  if (is) {
    rings = algorithm.ring(sums[source].moments(true), hits);
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
  const std::uint32_t key = id ? time << 16 | lane : ~std::uint32_t{0};
  const std::uint32_t earlier = __shfl_up_sync(all, key, 1);
  std::uint32_t place = lane;
  if (__any_sync(all, is && (id == 0 || (lane > 0 && earlier > key)))) {
    place = 0;
    for (unsigned j = 0; j < n; ++j) place += __shfl_sync(all, key, j) < key;
  }
  const auto primitives = static_cast<std::uint32_t>(__popc(__ballot_sync(all, id != 0)));
  constexpr std::uint32_t header = wire::mtp::header_bytes / 4;
  if (id) s.packet[header + 1 + place] = id << 16 | time;
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
  call.answer.write(s.packet, words, lane, most);

  const auto with_ring = static_cast<std::uint32_t>(__popc(__ballot_sync(all, is && rings.count != 0)));
  const auto under = static_cast<std::uint32_t>(__popc(__ballot_sync(all, below)));
  if (scaled) atomicAdd(&s.downscaled[kind], 1u);
  if (is) {
    event.time = static_cast<std::uint16_t>(time);
    event.primitive = static_cast<std::uint16_t>(id);
    events[lane] = event;
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
  return true;
}

}  // namespace nanet::gpu
