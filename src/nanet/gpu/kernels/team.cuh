// SPDX-License-Identifier: Apache-2.0
// Teams: several warps of a block that work on one event.
#pragma once

namespace nanet::gpu {

// Teams of an algorithm; the primary template has none. An algorithm with teams specialises it in the header
// that rich/algorithms.list names:
//   struct Memory;                                     in shared memory, per team
//   size(algorithm)                                    warps of a team
//   hits(algorithm)                                    from so many on, begin() is always true
//   begin(algorithm, event, plane, scratch, rings)     one warp; true: a search is needed
//   alone(algorithm, event, plane, scratch, rings)     the rest of such an event, by one warp
//   run(algorithm, event, plane, scratch, rings, team) the same by a team; scratch: of its warps
template <class A>
struct TeamOf {
  static constexpr bool used = false;
  struct Memory {};
};

// Warps `first` .. first + size - 1 of a block.
template <class M>
struct WarpTeam {
  static constexpr bool alone = false;
  M* memory;
  unsigned first, warps, barrier;

  // Of the first lane: then the compiler takes it for uniform.
  __device__ int index() const {
    return static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0) - first);
  }
  __device__ int size() const { return static_cast<int>(warps); }
  __device__ void sync() const {
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(32 * warps) : "memory");
  }
};

}  // namespace nanet::gpu
