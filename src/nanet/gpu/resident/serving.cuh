// SPDX-License-Identifier: Apache-2.0
// Serving kernel: reconstructs the tasks of the frame blocks (task_queue.cuh), beside the resident kernel. A
// task takes one warp. An algorithm with teams splits events: a warp begins an event and hands it to a team
// of several warps unless it is settled. Teams have a separate kernel, as both in one would spill
// registers.
#pragma once

#include "nanet/gpu/kernels/team.cuh"
#include "nanet/gpu/resident/task_queue.cuh"
#include "nanet/rich/geometry.hpp"

namespace nanet::gpu {

// Threads of a block. With teams of six warps (MULTIRING's default) twelve warps hold two teams: a third one
// would slow the others down.
inline constexpr unsigned serving_threads = 512, team_threads = 384;

// Tasks that a team claims at a time: one, or one per warp when many wait.
struct TeamClaim {
  std::uint64_t begin;
  std::uint32_t tasks;
};

// Layout of a block's shared memory.
template <class A>
struct ServingMemory {
  using Scratch = typename A::Scratch;
  static_assert(alignof(Scratch) <= 128 && alignof(typename TeamOf<A>::Memory) <= 128);
  static constexpr std::size_t plane_bytes = plane_entries * sizeof(rich::Point);
  static constexpr std::size_t result_bytes = (sizeof(rich::Rings) + 15) / 16 * 16;
  static constexpr std::size_t team_bytes = (sizeof(typename TeamOf<A>::Memory) + 127) / 128 * 128;

  __host__ __device__ static std::size_t scratch_bytes(unsigned threads) {
    return (threads / 32 * sizeof(Scratch) + 127) / 128 * 128;
  }
  // team: warps of a team; 0: none.
  __host__ __device__ static unsigned teams(unsigned threads, unsigned team) {
    return team ? threads / 32 / team : 0;
  }
  static std::size_t bytes(unsigned threads, unsigned team) {
    return plane_bytes + scratch_bytes(threads) + threads / 32 * result_bytes +
           teams(threads, team) * (team_bytes + sizeof(TeamClaim));
  }

  rich::Point* plane;
  Scratch* scratch;  // by warp
  std::byte* rings;  // by warp, result_bytes apart
  std::byte* team;
  TeamClaim* claim;

  __device__ ServingMemory(std::byte* at, unsigned team_warps) {
    plane = reinterpret_cast<rich::Point*>(at);
    at += plane_bytes;
    scratch = reinterpret_cast<Scratch*>(at);
    at += scratch_bytes(blockDim.x);
    team = at;
    at += team_bytes * teams(blockDim.x, team_warps);
    rings = at;
    at += result_bytes * (blockDim.x / 32);
    claim = reinterpret_cast<TeamClaim*>(at);
  }
  __device__ rich::Rings& rings_of(unsigned warp) const {
    return *reinterpret_cast<rich::Rings*>(rings + result_bytes * warp);
  }
};

// Waits for entry `number` of a task ring. Returns false if there will be none: all frame blocks have ended.
// One warp.
__device__ inline bool await_task(const Resident& r, const Task* ring, std::uint64_t number, Task& task) {
  constexpr unsigned all = 0xFFFFFFFFu;
  const auto lap = static_cast<std::uint32_t>(number >> r.task_bits) + 1;
  const auto* const at =
      reinterpret_cast<const Sixteen*>(ring + (number & ((std::uint64_t{1} << r.task_bits) - 1)));
  Sixteen words;
  for (unsigned looks = 1;; ++looks) {
    words = load_relaxed_device(at);
    const bool there = static_cast<std::uint32_t>(words.high >> 32) == lap;
    if (__shfl_sync(all, there, 0)) break;
    // Frame blocks end after all their tasks are complete, so this ticket has no task.
    if (looks % 16 == 0 && __shfl_sync(all, load_acquire_device(&r.state->owners_ended), 0) == r.owner_blocks)
      return false;
  }
  __threadfence();  // acquire: hits are read after the task
  __syncwarp();
  words.low = __shfl_sync(all, words.low, 0);
  words.high = __shfl_sync(all, words.high, 0);
  std::memcpy(&task, &words, sizeof task);
  return true;
}
__device__ inline rich::EventView hits_of(const Resident& r, const Task& task) {
  return {r.task_hits + task.first, task.hits};
}
// Hands the rings of a task to its frame block. One warp.
__device__ inline void complete(const Resident& r, const Task& task, const rich::Rings& rings) {
  const unsigned lane = threadIdx.x & 31u;
  const std::uint32_t event = task.event & ~Task::cut;
  __syncwarp();
  static_assert(sizeof(rich::Rings) % 4 == 0 && sizeof(rich::Rings) <= 128);
  if (lane < sizeof(rich::Rings) / 4)
    reinterpret_cast<std::uint32_t*>(r.rings + std::size_t{task.owner_block} * r.sizes.fragments +
                                     event)[lane] = reinterpret_cast<const std::uint32_t*>(&rings)[lane];
  if (lane == 0) {
    const std::uint16_t primitive =
        trigger::decide(rings, task.hits, (task.event & Task::cut) != 0, r.options.decision);
    r.task_results[task.owner_block * tasks_at_once + event % tasks_at_once] = {rings.count, primitive};
  }
  __syncwarp();  // the next event's rings overwrite these
  if (lane == 0) {
    __threadfence();  // release: all lanes' stores precede the count
    atomicAdd(r.tasks_done + task.owner_block * line_words, 1u);
  }
}

__device__ inline std::uint64_t add(std::uint64_t& counter, std::uint64_t n) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(&counter), static_cast<unsigned long long>(n));
}

// Loop of a warp that takes tasks from the frame blocks.
template <class A>
__device__ void serve_alone(const Resident& r, const A& algorithm, const ServingMemory<A>& memory) {
  const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x / 32;
  rich::Rings& rings = memory.rings_of(warp);
  for (;;) {
    std::uint64_t number = 0;
    if (lane == 0) number = add(r.state->tasks_claimed, 1);
    number = __shfl_sync(0xFFFFFFFFu, number, 0);
    Task task;
    if (!await_task(r, r.tasks, number, task)) return;
    if constexpr (TeamOf<A>::used) {
      if (TeamOf<A>::begin(algorithm, hits_of(r, task), memory.plane, memory.scratch[warp], rings)) {
        if (r.team_blocks) {
          if (lane == 0) write_task(r, r.team_tasks, add(r.state->team_tasks_written, 1), task);
          __syncwarp();
          continue;
        }
        TeamOf<A>::alone(algorithm, hits_of(r, task), memory.plane, memory.scratch[warp], rings);
      }
    } else {
      algorithm.template operator()<rich::DeviceLanes>(hits_of(r, task), memory.plane, memory.scratch[warp],
                                                       rings);
    }
    complete(r, task, rings);
  }
}

// Loop of a team. If more than `backlog` tasks wait, each warp takes a separate one, for a higher rate.
template <class A>
__device__ void serve_in_team(const Resident& r, const A& algorithm, const ServingMemory<A>& memory,
                              unsigned size, std::uint64_t backlog) {
  using Team = WarpTeam<typename TeamOf<A>::Memory>;
  const unsigned warp = threadIdx.x / 32, number = warp / size;
  if (number >= ServingMemory<A>::teams(blockDim.x, size)) return;  // left over
  const Team team{
      reinterpret_cast<typename TeamOf<A>::Memory*>(memory.team + ServingMemory<A>::team_bytes * number),
      number * size, size, number + 1};
  TeamClaim& claim = memory.claim[number];
  for (;;) {
    if (threadIdx.x == 32 * team.first) {
      const std::uint64_t waiting = load_relaxed_device(&r.state->team_tasks_written) -
                                    load_relaxed_device(&r.state->team_tasks_claimed);
      claim.tasks = static_cast<std::int64_t>(waiting) > static_cast<std::int64_t>(backlog) ? size : 1;
      claim.begin = add(r.state->team_tasks_claimed, claim.tasks);
    }
    team.sync();
    const bool apart = claim.tasks > 1;
    Task task;
    const bool there =
        await_task(r, r.team_tasks, claim.begin + (apart ? static_cast<unsigned>(team.index()) : 0), task);
    if (apart) {
      if (there) {
        TeamOf<A>::alone(algorithm, hits_of(r, task), memory.plane, memory.scratch[warp],
                         memory.rings_of(warp));
        complete(r, task, memory.rings_of(warp));
      }
      team.sync();  // the next claim overwrites this one
      continue;
    }
    if (!there) return;
    TeamOf<A>::run(algorithm, hits_of(r, task), memory.plane, memory.scratch + team.first,
                   memory.rings_of(team.first), team);
    if (team.index() == 0) complete(r, task, memory.rings_of(team.first));
  }
}

template <class Memory>
__device__ void fill_plane(const Resident& r, const Memory& memory) {
  for (std::uint32_t i = threadIdx.x; i < plane_entries; i += blockDim.x) memory.plane[i] = r.plane[i];
  __syncthreads();
}

template <class A>
__global__ void __launch_bounds__(serving_threads, 1)
    serving(const __grid_constant__ Resident r, const __grid_constant__ A algorithm) {
  extern __shared__ __align__(128) std::byte room[];
  const ServingMemory<A> memory(room, 0);
  fill_plane(r, memory);
  serve_alone(r, algorithm, memory);
}
template <class A>
__global__ void __launch_bounds__(team_threads, 1)
    serving_teams(const __grid_constant__ Resident r, const __grid_constant__ A algorithm) {
  extern __shared__ __align__(128) std::byte room[];
  const unsigned size = TeamOf<A>::size(algorithm);
  const ServingMemory<A> memory(room, size);
  fill_plane(r, memory);
  serve_in_team(r, algorithm, memory, size,
                std::uint64_t{2} * gridDim.x * ServingMemory<A>::teams(blockDim.x, size));
}

}  // namespace nanet::gpu
