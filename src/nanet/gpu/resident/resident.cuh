// SPDX-License-Identifier: Apache-2.0
// Resident kernel. Block 0 is the supervisor: heartbeat, clock calibration, count of finished entries,
// monitor counts. Each other block claims an entry of the event queue, waits for it, processes the frame,
// posts the answer, returns the buffer, and claims the next.
#pragma once

#pragma nv_diag_suppress 20011, 20014

#include <algorithm>

#include "nanet/contract/consumer.hpp"
#include "nanet/contract/device_access.cuh"
#include "nanet/gpu/resident/ahead.cuh"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/frame_lines.cuh"
#include "nanet/gpu/resident/own_conditions.cuh"
#include "nanet/gpu/resident/sampled.hpp"
#include "nanet/gpu/resident/serving.cuh"
#include "nanet/gpu/resident/slots_ahead.cuh"
#include "nanet/gpu/resident/task_queue.cuh"
#include "nanet/rich/geometry.hpp"
#include "nanet/trigger/account/physics.hpp"

namespace nanet::gpu {

// Layout of a block's shared memory.
template <class A>
struct SharedMemory {
  static constexpr std::size_t plane_bytes =
      Remote<A> ? 0 : plane_entries * sizeof(typename PlaneOf<A>::type);
  static constexpr std::size_t scratch_bytes =
      Wide<A> ? (sizeof(typename ScratchOf<A>::type) + 127) / 128 * 128 : 0;
  static constexpr std::size_t result_bytes = Wide<A> ? (sizeof(rich::Rings) + 15) / 16 * 16 : 0;

  static std::size_t bytes(const BufferSizes& sizes, unsigned threads) {
    return (scratch_bytes + result_bytes) * (threads / 32) + plane_bytes + round_up(sizeof(FrameShared)) +
           round_up(sizeof(OwnConditions)) + sizes.shared_bytes();
  }
  std::byte* scratch;
  std::byte* result;
  typename PlaneOf<A>::type* plane;
  FrameShared* frame;
  OwnConditions* conditions;
  std::byte* small;

  __device__ explicit SharedMemory(std::byte* at) {
    const unsigned warps = blockDim.x / 32;
    scratch = at;
    result = scratch + scratch_bytes * warps;
    plane = reinterpret_cast<typename PlaneOf<A>::type*>(result + result_bytes * warps);
    frame = reinterpret_cast<FrameShared*>(reinterpret_cast<std::byte*>(plane) + plane_bytes);
    conditions =
        reinterpret_cast<OwnConditions*>(reinterpret_cast<std::byte*>(frame) + round_up(sizeof(FrameShared)));
    small = reinterpret_cast<std::byte*>(conditions) + round_up(sizeof(OwnConditions));
  }
};

// Whether exact sums hold the positions of this detector.
template <class A>
__device__ bool is_whole(const A& algorithm) {
  if constexpr (Summed<A>)
    return algorithm.whole;
  else
    return true;
}

// Whether the frame is skipped: its answer would be late. One thread.
__device__ inline bool skips(const Resident& r, const ClaimedEvent& claimed) {
  if (r.shedder.deadline <= 0) return false;
  trigger::FrameProgress progress;
  progress.passed = claimed.passed;
  progress.newest = claimed.newest;
  progress.lag = static_cast<std::int64_t>(claimed.lag);
  std::uint64_t keep_from = claimed.keep_from;
  const bool skipped = r.shedder.skips({claimed.n(), claimed.closed(), claimed.seen}, progress,
                                       claimed.service.expected(), keep_from);
  if (skipped) store_relaxed_device(&r.state->keep_from, keep_from);
  return skipped;
}

// Counts an event of a sampled frame. One thread.
__device__ inline void count_event(Counts& counts, const rich::EventView& event, const rich::Rings& rings) {
  stats::count_event(counts, event, rings, [](std::uint64_t& cell) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&cell), 1ull);
  });
}

// Counts the events of a sampled frame, and stores one event now and then. All threads; the frame's answer
// has been posted.
template <class Work>
__device__ void sample(const Resident& r, const Work& work, std::uint32_t frame, std::uint64_t n,
                       const rich::Rings* rings) {
  const std::uint32_t events = work.events();
  for (std::uint32_t e = threadIdx.x; e < events; e += blockDim.x)
    count_event(*r.counts, work.view(work.event(e)), rings[e]);
  if (events == 0) return;
  __shared__ std::uint64_t offered;
  if (threadIdx.x == 0) offered = atomicAdd(reinterpret_cast<unsigned long long*>(&r.state->kept), 1ull);
  __syncthreads();
  const std::uint64_t kept = offered;
  if (kept >= samples && kept % samples != 0) return;  // limits the rate of stored events
  const std::uint64_t number = kept < samples ? kept : kept / samples;
  Sample& s = r.samples[number % samples];
  const std::uint32_t e = static_cast<std::uint32_t>(kept % events);
  const BuiltEvent& built = work.event(e);
  const rich::EventView view = work.view(built);
  const auto version = static_cast<std::uint32_t>(number / samples);
  if (threadIdx.x == 0) {
    store_relaxed_system(&s.version, 2 * version + 1);
    __threadfence_system();
    s.event.n = n;
    s.event.time = static_cast<std::int64_t>(frame) * lsb_per_frame + built.time;
    s.event.frame = frame;
    s.event.primitive = built.primitive;
    s.event.hits = built.hits;
    s.opened = built.opened;
    s.event.rings = rings[e];
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < view.hits; i += blockDim.x) s.event.pm[i] = view.pm[i];
  bool merged = false;
  if constexpr (Work::takes_rows) {
    merged = work.shared().rows.at != nullptr;
    if (merged) copy_row<Block>(work.shared().rows, e, s);
  }
  if (!merged) copy_payloads<Block>(work.shared(), s);
  if (threadIdx.x == 0) store_release_system(&s.version, 2 * version + 2);
}

// Copies words from shared to pinned memory, one word per thread.
__device__ inline void put_words(void* to, const void* from, std::uint32_t words) {
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    static_cast<std::uint32_t*>(to)[i] = static_cast<const std::uint32_t*>(from)[i];
}

__device__ inline void misbehave(const Resident& r) {
  if (r.injection.kind == Injection::Kind::fault) __trap();
  while (load_acquire_device(&r.state->ending) == 0) __nanosleep(1000);
}

// Memory and counts of a block.
template <class A, bool merges>
struct BlockMemory {
  const Resident& r;
  const SharedMemory<A>& memory;
  rich::Rings* rings;

  __device__ BlockMemory(const Resident& resident, const SharedMemory<A>& shared)
      : r(resident), memory(shared), rings(r.rings + std::size_t{blockIdx.x - 1} * r.sizes.fragments) {}
  __device__ BufferWork<A, Block, merges> work() const {
    return {r.shape,         r.sizes, *memory.frame, memory.small, r.large + r.large_bytes * (blockIdx.x - 1),
            shared_fragments};
  }
  // rings: whether results are kept per event.
  __device__ Workspace<A> workspace(bool keep, const std::int16_t* conditions) const {
    Workspace<A> w;
    w.plane = memory.plane;
    w.rings = keep ? rings : nullptr;
    w.conditions = conditions;
    return w;
  }
};

// A claimed frame by BufferWork::run(). after_usual: FrameAhead has left it. All threads.
template <bool merges, class A>
__device__ __forceinline__ void process(const Resident& r, const A& algorithm, const SharedMemory<A>& shared,
                                        const ClaimedEvent& claimed, const EarlyUnits& early,
                                        const std::int16_t* conditions, bool after_usual) {
  const BlockMemory<A, merges> memory(r, shared);
  BufferWork<A, Block, merges> buffer_work = memory.work();
  const std::uint32_t frame = claimed.frame(), buffer = claimed.buffer();
  const std::uint64_t n = claimed.n();
  const Workspace<A> workspace = memory.workspace(keeps_rings(r, frame), conditions);
  FrameWork<A, Block, merges> work(algorithm, r.options, *shared.frame, workspace);
  const SegmentLines lines(r, claimed, contract::entry_lap(r.shape, claimed.k), early);
  bool answered = false;
  if constexpr (Summed<A> && !merges) {
    answered = shared.frame->ahead != 0;
    if (answered) buffer_work.adopt(work, lines, shared.frame->ahead, frame, workspace.rings != nullptr);
  }
  if (after_usual) {
    __syncthreads();
    work.begin();
    __syncthreads();
  }
  const std::int64_t offset = claimed.offset;
  buffer_work.run(
      work, r.clop + r.shape.buffer_bytes() * buffer, claimed.flags(), frame, claimed.bytes(), BlockCopy{},
      [offset] { return device_time() + offset; },
      [&](const auto& payload, std::uint32_t of) {
        if (of % sample_every == 0) sample(r, payload, of, n, memory.rings);
      },
      lines, answer_lines(r, n, buffer), answered);
}
// The same, not inlined: its many registers would make those of usual frames spill.
template <class A>
__device__ __noinline__ void process_other(const Resident& r, const A& algorithm,
                                           const SharedMemory<A>& shared, const ClaimedEvent& claimed,
                                           const EarlyUnits& early, const std::int16_t* conditions,
                                           bool after_usual) {
  process<false>(r, algorithm, shared, claimed, early, conditions, after_usual);
}
// sample() for a frame that has been processed. All threads.
template <bool merges, class A>
__device__ __noinline__ void sample_frame(const Resident& r, const A& algorithm,
                                          const SharedMemory<A>& shared, std::uint32_t frame,
                                          std::uint64_t n) {
  const BlockMemory<A, merges> memory(r, shared);
  const BufferWork<A, Block, merges> buffer_work = memory.work();
  const Workspace<A> workspace = memory.workspace(true, nullptr);
  FrameWork<A, Block, merges> work(algorithm, r.options, *shared.frame, workspace);
  buffer_work.resume(work, frame);
  sample(r, work, frame, n, memory.rings);
}

// A is not Wide: wide algorithms are Remote here. merges: the card writes merged buffers; their units come at
// once, when the card closes the frame, so none is copied before the event line. Inlined, as is all that
// usual frames need: a call would move the objects of a frame from registers to memory.
template <bool merges, class A>
__device__ __forceinline__ void consume(const Resident& r, const A& algorithm, const SharedMemory<A>& shared,
                                        ClaimedEvent& claimed) {
  FrameShared& frame_shared = *shared.frame;
  const BlockMemory<A, merges> memory(r, shared);
  BufferWork<A, Block, merges> buffer_work = memory.work();
  const bool first_warp = threadIdx.x < 32;
  bool ahead = false;  // events in slots are decided before the event line comes
  if constexpr (Summed<A> && !merges) ahead = __all_sync(~0u, slots_ahead_possible(r, algorithm));
  // Conditions are read once the event line is there.
  const bool indexes = is_whole(algorithm) && r.injection.kind == Injection::Kind::none;
  const bool works_ahead = indexes && !r.conditions;
  std::uint32_t likely = ~std::uint32_t{0};  // units of the next frame, by the last one's size
  Sixteen half{}, again{};                   // in the first warp
  if (threadIdx.x == 0) claimed.service = {};
  for (bool claim = true;;) {
    if constexpr (!merges) {
      if (r.mailbox.input) buffer_work.prepare(threadIdx.x);
    }
    FrameWork<A, Block, merges>::begin(frame_shared);
    if (claim) {
      if (threadIdx.x == 0) {
        claimed.k = contract::DeviceAccess::fetch_add(r.state->claimed, 1);
        claimed.worked = 0;
        claimed.frontier = claimed.next = 0;
        claimed.waiting = 1;
      }
      __syncthreads();
    }
    EarlyUnits early;
    if (!first_warp) {
      [[maybe_unused]] bool others = claim;
      if constexpr (Summed<A> && !merges)
        if (claim && ahead) {
          const SlotsCall<A> call = buffer_work.slots_call(shared.plane);
          others = r.mailbox_in_gpu_memory ? decide_ahead<A, false>(r, call, algorithm, claimed)
                                           : decide_ahead<A, true>(r, call, algorithm, claimed);
        }
      if constexpr (!merges)
        if (r.mailbox.input) {
          const Workspace<A> workspace = memory.workspace(true, nullptr);
          FrameAhead<A> frame_ahead(r, algorithm, buffer_work, frame_shared, claimed, workspace,
                                    *shared.conditions, works_ahead && !ahead);
          frame_ahead.run(others, likely);
          early = frame_ahead.early();
        }
    } else {
      TakenEntry taken{};
      if (claim) taken = take(r, claimed);
      const auto hand_over = [&] {
        half = claim ? taken.part : again;
        fill(r, claimed, half);
        if (threadIdx.x == 0 && !claim) claimed.found = ClaimedEvent::event;
        // Before run(): nvcc 13.0 leaves thread 0 diverged at a barrier if that returns early.
        if (threadIdx.x == 0) claimed.skipped = claimed.found == ClaimedEvent::event && skips(r, claimed);
        __syncwarp();
        bool usual = false;
        if constexpr (!merges)
          usual = indexes && claimed.found == ClaimedEvent::event && !claimed.skipped &&
                  claimed.has_buffer(r) && has_index(r, claimed, buffer_work.longest());
        if (threadIdx.x == 0) {
          claimed.usual = usual;
          Block::fence();
          *const_cast<volatile std::uint32_t*>(&claimed.waiting) = 0;
        }
        __syncwarp();
      };
      SlotsFrame slots;
      bool expected = false;
      if constexpr (Summed<A> && !merges)
        if (claim && ahead) {
          slots = slots_frame(r, taken);
          expected = slots.bytes != 0 && slots_expected(r, frame_shared, slots);
        }
      if (!expected) hand_over();
      if constexpr (Summed<A> && !merges)
        if (slots.bytes != 0 && (expected || !claimed.skipped)) {
          const std::uint32_t events =
              answer_ahead(r, buffer_work.slots_call(shared.plane), slots, memory.rings);
          if (threadIdx.x == 0) frame_shared.ahead = events;
          __syncwarp();
        }
      if (expected) hand_over();
      if (threadIdx.x == 0 && claim && claimed.found == ClaimedEvent::event) announce(r, claimed);
    }
    __syncthreads();
    if (claimed.found == ClaimedEvent::over) return;
    const bool received = claimed.has_buffer(r) && !claimed.skipped;
    if (first_warp && !r.mailbox.input) again = look_again(r, claimed.k);
    const std::uint32_t frame = claimed.frame();
    const std::uint64_t n = claimed.n();
    if (received) {
      if (r.injection.kind != Injection::Kind::none && n >= r.injection.at) misbehave(r);
      bool worked = false;
      if constexpr (!merges) worked = claimed.worked;
      const std::int16_t* const conditions =
          worked ? nullptr : conditions_of<Block>(r, n, *shared.conditions);
      if constexpr (merges) {
        process<true>(r, algorithm, shared, claimed, early, conditions, false);
      } else if (worked) {
        const Workspace<A> workspace = memory.workspace(keeps_rings(r, frame), nullptr);
        FrameWork<A, Block> work(algorithm, r.options, frame_shared, workspace);
        const std::int64_t offset = claimed.offset, seen = claimed.seen;
        buffer_work.finish_built(
            work, frame_shared.held.events, frame_shared.held.answered != 0, claimed.flags(), frame,
            [offset] { return device_time() + offset; }, answer_lines(r, n, claimed.buffer()));
        if constexpr (Summed<A>)
          if (threadIdx.x == 0) {
            // FrameAhead's times, some of them before the event line.
            trigger::Trace& trace = frame_shared.trace;
            trace.built = max(trace.built + offset, seen);
            trace.reconstructed = max(trace.reconstructed + offset, seen);
          }
      } else {
        const bool after_usual = !frame_shared.ahead && claimed.usual;
        process_other(r, algorithm, shared, claimed, early, conditions, after_usual);
      }
    }
    const std::uint64_t k = claimed.k;
    const std::uint32_t buffer = claimed.buffer(), lap = contract::entry_lap(r.shape, k);
    // The entry is unchanged since the first read. The units of an event line are valid each.
    if (first_warp) {
      bool same = true, there = true;
      if (!r.mailbox.input) {
        same = __shfl_sync(0xFFFFFFFFu, again == half, 0);
        there = validity(r, again, lap) == contract::Poll::event;
      }
      if (threadIdx.x == 0) {
        claimed.confirmed = !there ? ClaimedEvent::over : same ? ClaimedEvent::event : ClaimedEvent::again;
        frame_shared.trace.n = n;
        frame_shared.trace.frame = frame;
        frame_shared.trace.seen = claimed.seen;
        frame_shared.trace.posted = device_time() + claimed.offset;
      }
    }
    __syncthreads();
    claim = claimed.confirmed == ClaimedEvent::event;
    if (!claim) {
      if (claimed.confirmed == ClaimedEvent::over) {  // lapped
        if (threadIdx.x == 0) {
          store_release_system(&r.control->device.overrun, 1u);
          atomicExch(&r.state->ending, 1u);
        }
        return;
      }
      __syncthreads();
      continue;
    }
    if (!received && threadIdx.x == 0 && claimed.has_buffer(r))
      contract::return_buffer<contract::DeviceAccess>(r, n, buffer);
    if (received) {
      static_assert(sizeof(trigger::Trace) % 4 == 0);
      const std::uint32_t words = frame_shared.words;
      put_words(r.send_buffers + std::size_t{contract::send_buffer_bytes} * buffer, frame_shared.packet,
                words);
      put_words(r.traces + (n & r.trace_mask), &frame_shared.trace, sizeof(trigger::Trace) / 4);
      __syncthreads();
      if (threadIdx.x == 0) {
        using Access = contract::DeviceAccess;
        const std::uint64_t address = r.send_address + std::uint64_t{contract::send_buffer_bytes} * buffer;
        contract::post_descriptor<Access>(r, n, address, 4 * words, 0, buffer);
        contract::return_buffer<Access>(r, n, buffer);
        claimed.service.add(frame_shared.trace.posted - claimed.seen);
      }
      if (r.sizes.frame && frame % sample_every == 0) sample_frame<merges>(r, algorithm, shared, frame, n);
      if (threadIdx.x <= rich::max_rings && frame_shared.with_rings[threadIdx.x])
        atomicAdd(reinterpret_cast<unsigned long long*>(&r.counts->rings_per_event[threadIdx.x]),
                  static_cast<unsigned long long>(frame_shared.with_rings[threadIdx.x]));
    }
    if constexpr (!merges) likely = buffer_work.likely(buffer_work.of(threadIdx.x), likely);
    __syncthreads();  // the next event overwrites this shared memory
    if (threadIdx.x == 0) contract::DeviceAccess::mark(r.done[contract::entry_index(r.shape, k)], lap);
  }
}

// Block 0. Ends after all other blocks.
__device__ inline void supervise(const Resident& r) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  QueueState& state = *r.state;
  Control& control = *r.control;
  const std::uint32_t others = gridDim.x - 1;
  if (warp == 0 && lane == 0) {
    std::uint64_t beats = load_relaxed_system(&control.device.beat);
    std::uint32_t answered = load_relaxed_system(&control.device.pong);
    std::uint32_t host_beat = 0;
    std::int64_t heard = device_time();
    bool told = false;
    store_release_system(&control.device.running, 1u);
    for (;;) {
      const uint4 h = __ldcv(reinterpret_cast<const uint4*>(&control.host));
      const std::int64_t now = device_time();
      if (h.z != answered) {
        answered = h.z;
        store_relaxed_system(&control.device.pong_time, static_cast<std::uint64_t>(now));
        store_release_system(&control.device.pong, answered);
      }
      store_relaxed_device(&state.offset, load_relaxed_system(&control.host.offset));
      if (r.shedder.deadline > 0) {
        store_relaxed_device(&state.passed, load_relaxed_system(&r.progress->passed));
        store_relaxed_device(&state.newest, load_relaxed_system(&r.progress->newest));
        store_relaxed_device(&state.lag,
                             load_relaxed_system(reinterpret_cast<const std::uint64_t*>(&r.progress->lag)));
      }
      store_relaxed_system(&control.device.beat, ++beats);
      if (h.y != host_beat) {
        host_beat = h.y;
        heard = now;
      } else if (now - heard > r.silence && !told) {
        store_release_system(&control.device.silent, 1u);
        store_release_device(&state.ending, 1u);
        told = true;
      }
      if (!told && h.x && load_acquire_system(&control.host.stop)) {
        store_release_device(&state.ending, 1u);
        told = true;
      }
      if (load_acquire_device(&state.exited) == others) return;
    }
  } else if (warp == 1) {
    // Entries are finished in any order; the run of finished entries is published to the card.
    std::uint64_t finished = r.begin;
    for (;;) {
      const bool last = load_acquire_device(&state.exited) == others;
      const bool is = contract::entry_finished<contract::DeviceAccess>(r, r.done, finished + lane);
      const unsigned not_yet = __ballot_sync(0xFFFFFFFFu, !is);
      const unsigned run = not_yet ? __ffs(static_cast<int>(not_yet)) - 1 : 32;
      if (run) {
        finished += run;
        __syncwarp();
        if (lane == 0) store_release_system(r.finished, finished);
      } else if (__shfl_sync(0xFFFFFFFFu, last, 0)) {
        return;
      }
    }
  } else if (warp == 2) {
    constexpr std::uint32_t words = sizeof(Counts) / 8;
    for (bool last = false;;) {
      for (std::uint32_t i = lane; i < words; i += 32)
        store_relaxed_system(reinterpret_cast<std::uint64_t*>(r.mirror) + i,
                             load_relaxed_device(reinterpret_cast<const std::uint64_t*>(r.counts) + i));
      if (__shfl_sync(0xFFFFFFFFu, last, 0)) return;
      for (int i = 0; i < 50 && !last; ++i) {
        __nanosleep(400'000);
        last = load_acquire_device(&state.exited) == others;
      }
      __syncwarp();
      last = __any_sync(0xFFFFFFFFu, last);
    }
  }
}

inline constexpr unsigned most_threads = 512;  // per block
// Frames arrive every 3 us at 20 MHz. A frame of more fragments than the index holds takes some 60 us, as
// does a frame that waits for the task queue.
inline constexpr unsigned block_count = 32;

template <class A>
__device__ void fill_plane(const Resident& r, const A& algorithm, typename PlaneOf<A>::type* plane) {
  for (std::uint32_t i = threadIdx.x; i < plane_entries; i += blockDim.x)
    PlaneOf<A>::set(algorithm, plane, i, r.plane[i]);
}

template <bool merges, class Work>
__device__ __forceinline__ void take_frames(const Resident& r, const Work& work,
                                            const SharedMemory<Work>& memory, ClaimedEvent& claimed) {
  if constexpr (!Remote<Work>) fill_plane(r, work, memory.plane);
  if (threadIdx.x == 0) memory.conditions->version = memory.conditions->number = 0;
  __syncthreads();
  consume<merges>(r, work, memory, claimed);
  __syncthreads();
}

template <class A, bool merges>
__global__ void __launch_bounds__(most_threads, 1)
    resident(const __grid_constant__ Resident r, const __grid_constant__ A algorithm) {
  extern __shared__ __align__(128) std::byte room[];
  __shared__ ClaimedEvent claimed;
  if (blockIdx.x == 0) return supervise(r);
  if constexpr (!Wide<A>) {
    take_frames<merges>(r, algorithm, SharedMemory<A>(room), claimed);
  } else {
    std::uint32_t answered = 0;
    const RemoteReconstruct<A> remote{r, blockIdx.x - 1, answered};
    if (threadIdx.x == 0) r.tasks_done[remote.owner_block * line_words] = 0;
    take_frames<merges>(r, remote, SharedMemory<RemoteReconstruct<A>>(room), claimed);
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&r.state->owners_ended, 1u);
    }
  }
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&r.state->exited, 1u);
  }
}

// Processes one buffer, copied to device memory before; the answer is copied back afterwards.
template <class A>
__global__ void __launch_bounds__(most_threads, 1)
    once(const __grid_constant__ Resident r, const __grid_constant__ A algorithm, const Buffer in) {
  extern __shared__ __align__(128) std::byte room[];
  const SharedMemory<A> memory(room);
  const std::int64_t seen = device_time();
  fill_plane(r, algorithm, memory.plane);
  FrameShared& shared = *memory.frame;
  Workspace<A> workspace;
  workspace.plane = memory.plane;
  workspace.rings = r.rings + std::size_t{in.slot} * r.sizes.fragments;
  workspace.conditions = in.conditions;
  if constexpr (Wide<A>) {
    workspace.scratch = reinterpret_cast<typename A::Scratch*>(memory.scratch);
    workspace.result = reinterpret_cast<rich::Rings*>(memory.result);
  }
  __syncthreads();
  BufferWork<A, Block> buffer_work(r.shape, r.sizes, shared, memory.small, r.large + r.large_bytes * in.slot,
                                   shared_fragments);
  FrameWork<A, Block> work(algorithm, r.options, shared, workspace);
  buffer_work.run(
      work, in.bytes, static_cast<std::uint16_t>(in.flags), in.frame, ~0u, BlockCopy{},
      [] { return device_time(); },
      [&](const auto& payload, std::uint32_t of) {
        if (of % sample_every == 0) sample(r, payload, of, in.n, workspace.rings);
      });
  Block::each([&](unsigned t) {
    if (t != 0) return;
    shared.trace.n = in.n;
    shared.trace.frame = in.frame;
    shared.trace.seen = seen;
  });
  put_words(in.answer->packet, shared.packet, shared.words);
  put_words(&in.answer->trace, &shared.trace, sizeof(trigger::Trace) / 4);
  if (r.sizes.frame && in.frame % sample_every == 0) sample(r, work, in.frame, in.n, workspace.rings);
  if (threadIdx.x <= rich::max_rings)
    atomicAdd(reinterpret_cast<unsigned long long*>(&r.counts->rings_per_event[threadIdx.x]),
              static_cast<unsigned long long>(shared.with_rings[threadIdx.x]));
}

}  // namespace nanet::gpu
