// SPDX-License-Identifier: Apache-2.0
// Task queue: the block that builds a frame writes one task per event; warps of the serving kernel
// (serving.cuh) reconstruct them. A frame then takes as long as its longest event, not the sum on one
// multiprocessor. Events with so many hits that they need a search go to the teams' ring at once.
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

// Writes entry `number` of a task ring. One thread.
__device__ inline void write_task(const Resident& r, Task* ring, std::uint64_t number, Task task) {
  task.lap = static_cast<std::uint32_t>(number >> r.task_bits) + 1;
  Sixteen words;
  std::memcpy(&words, &task, sizeof words);
  store_release_device(reinterpret_cast<Sixteen*>(ring + (number & ((std::uint64_t{1} << r.task_bits) - 1))),
                       words);
}

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
    const auto searched = [&](std::uint32_t i) { return tables.event[from + i].hits >= r.team_hits; };
    const auto take_entry = [&](std::uint32_t i) -> std::uint64_t {
      std::uint64_t& written = searched(i) ? r.state->team_tasks_written : r.state->tasks_written;
      return atomicAdd(reinterpret_cast<unsigned long long*>(&written), 1ull);
    };
    // The copy of the hits hides the time of the atomic operation. The block has met since it wrote the
    // events.
    std::uint64_t entry = threadIdx.x < n ? take_entry(threadIdx.x) : 0;
    const std::uint32_t room = owner_block * r.task_hits_capacity;
    if (from == 0) {
      static_assert(2 * sizeof(PmId) == sizeof(std::uint32_t));
      auto* const to = reinterpret_cast<std::uint32_t*>(r.task_hits + room);
      const auto* const pm = reinterpret_cast<const std::uint32_t*>(tables.pm);
      for (std::uint32_t i = threadIdx.x; 2 * i < hits; i += blockDim.x) to[i] = pm[i];
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
      const BuiltEvent& event = tables.event[from + i];
      Task task;
      task.first = room + event.first;
      task.hits = event.hits;
      task.owner_block = static_cast<std::uint16_t>(owner_block);
      task.event = (from + i) | (incomplete || event.truncated ? Task::cut : 0);
      if (i >= blockDim.x) entry = take_entry(i);
      write_task(r, searched(i) ? r.team_tasks : r.tasks, entry, task);
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

}  // namespace nanet::gpu
