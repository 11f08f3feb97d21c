// SPDX-License-Identifier: Apache-2.0
// Task queue: the block that builds a frame writes one task per event; warps of other blocks reconstruct
// them. A frame then takes as long as its longest event, not the sum on one multiprocessor.
#pragma once

#include <cstring>

#include "nanet/contract/device_access.cuh"
#include "nanet/gpu/resident/resident.hpp"

namespace nanet::gpu {

using contract::BlockCopy;
using contract::device_time;
using contract::load_acquire_device;
using contract::load_acquire_system;
using contract::load_relaxed_device;
using contract::load_relaxed_system;
using contract::Sixteen;
using contract::store_relaxed_device;
using contract::store_relaxed_system;
using contract::store_release_device;
using contract::store_release_system;

// Replaces algorithm A in the block that builds the frame.
template <class A>
struct RemoteReconstruct {
  static constexpr std::uint32_t at_once = tasks_at_once;
  const Resident& r;
  std::uint32_t owner_block;
  std::uint32_t& answered;  // completed tasks of this block, modulo

  // Reconstructs events from .. from + n - 1 of the tables; pm[0 .. hits - 1] is in use. All threads.
  __device__ void reconstruct(const Tables& tables, std::uint32_t hits, std::uint32_t from, std::uint32_t n,
                              bool incomplete) const {
    __shared__ std::uint64_t begin;
    if (threadIdx.x == 0)
      begin = atomicAdd(reinterpret_cast<unsigned long long*>(&r.state->tasks_written),
                        static_cast<unsigned long long>(n));
    const std::uint32_t room = owner_block * r.task_hits_capacity;
    if (from == 0) {
      static_assert(2 * sizeof(PmId) == sizeof(std::uint32_t));
      auto* const to = reinterpret_cast<std::uint32_t*>(r.task_hits + room);
      const auto* const pm = reinterpret_cast<const std::uint32_t*>(tables.pm);
      for (std::uint32_t i = threadIdx.x; 2 * i < hits; i += blockDim.x) to[i] = pm[i];
    }
    __syncthreads();
    const std::uint64_t mask = (std::uint64_t{1} << r.task_bits) - 1;
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
      const BuiltEvent& event = tables.event[from + i];
      const std::uint64_t number = begin + i;
      Task task;
      task.first = room + event.first;
      task.hits = event.hits;
      task.owner_block = static_cast<std::uint16_t>(owner_block);
      task.event = (from + i) | (incomplete || event.truncated ? Task::cut : 0);
      task.lap = static_cast<std::uint32_t>(number >> r.task_bits) + 1;
      Sixteen words;
      std::memcpy(&words, &task, sizeof words);
      store_release_device(reinterpret_cast<Sixteen*>(r.tasks + (number & mask)), words);
    }
    if (threadIdx.x == 0) {
      answered += n;
      while (load_acquire_device(r.tasks_done + owner_block * line_words) != answered) {
      }
    }
    __syncthreads();
  }
  __device__ TaskResult answer(std::uint32_t i) const {
    return r.task_results[owner_block * tasks_at_once + i];
  }
};

// Task loop of a block's warps. Ends after all blocks that write tasks.
template <class A>
__device__ void serve(const Resident& r, const A& algorithm, const rich::Point* plane,
                      typename A::Scratch& scratch, rich::Rings& rings) {
  QueueState& state = *r.state;
  const unsigned lane = threadIdx.x & 31u;
  constexpr unsigned all = 0xFFFFFFFFu;
  for (;;) {
    std::uint64_t number = 0;
    if (lane == 0) number = atomicAdd(reinterpret_cast<unsigned long long*>(&state.tasks_claimed), 1ull);
    number = __shfl_sync(all, number, 0);
    const auto lap = static_cast<std::uint32_t>(number >> r.task_bits) + 1;
    const auto* const at =
        reinterpret_cast<const Sixteen*>(r.tasks + (number & ((std::uint64_t{1} << r.task_bits) - 1)));
    Sixteen words;
    for (unsigned asked = 1;; ++asked) {
      words = load_relaxed_device(at);
      const bool there = static_cast<std::uint32_t>(words.high >> 32) == lap;
      if (__shfl_sync(all, there, 0)) break;
      // Owner blocks end after all their tasks are complete, so this ticket has no task.
      if (asked % 16 == 0 && __shfl_sync(all, load_acquire_device(&state.owners_ended), 0) == r.owner_blocks)
        return;
    }
    __threadfence();  // acquire: hits are read after the task
    words.low = __shfl_sync(all, words.low, 0);
    words.high = __shfl_sync(all, words.high, 0);
    Task task;
    std::memcpy(&task, &words, sizeof task);
    const std::uint32_t event = task.event & ~Task::cut, hits = task.hits;
    algorithm.template operator()<rich::DeviceLanes>(rich::EventView{r.task_hits + task.first, hits}, plane,
                                                     scratch, rings);
    __syncwarp();
    static_assert(sizeof(rich::Rings) % 4 == 0 && sizeof(rich::Rings) <= 128);
    if (lane < sizeof(rich::Rings) / 4)
      reinterpret_cast<std::uint32_t*>(r.rings + std::size_t{task.owner_block} * r.sizes.fragments +
                                       event)[lane] = reinterpret_cast<const std::uint32_t*>(&rings)[lane];
    if (lane == 0) {
      const std::uint16_t primitive =
          trigger::decide(rings, hits, (task.event & Task::cut) != 0, r.options.decision);
      r.task_results[task.owner_block * tasks_at_once + event % tasks_at_once] = {rings.count, primitive};
    }
    __syncwarp();  // the next event's rings overwrite these
    if (lane == 0) {
      __threadfence();  // release: all lanes' stores precede the count
      atomicAdd(r.tasks_done + task.owner_block * line_words, 1u);
    }
  }
}

}  // namespace nanet::gpu
