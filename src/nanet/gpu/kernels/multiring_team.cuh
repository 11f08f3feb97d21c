// SPDX-License-Identifier: Apache-2.0
// MULTIRING over a small batch: a block per event, whose warps try several strategies in parallel. Optimised
// for the time of one event, not for the rate.
#pragma once

#include "nanet/gpu/kernels/occupancy.cuh"
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/multiring.hpp"

namespace nanet::gpu {

inline constexpr unsigned team_warps = 9;  // three strategies, three rounds of seeds each

// Warps of a block. memory: shared memory.
struct BlockTeam {
  static constexpr bool alone = false;
  static constexpr int pieces = rich::Multiring::max_breadth * rich::Multiring::rounds;
  struct Memory {
    float circle[pieces][4][32];  // x, y, r in mm, and gain, per
  };
  Memory* memory;

  __device__ static int index() { return static_cast<int>(threadIdx.x / 32); }
  __device__ static int size() { return static_cast<int>(blockDim.x / 32); }
  __device__ static void sync() { __syncthreads(); }
  __device__ void keep(int piece, float x, float y, float r, float gain) const {
    float* const at = memory->circle[piece][0] + threadIdx.x % 32;
    at[0] = x;
    at[32] = y;
    at[64] = r;
    at[96] = gain;
  }
  __device__ void kept(int piece, float& x, float& y, float& r, float& gain) const {
    const float* const at = memory->circle[piece][0] + threadIdx.x % 32;
    x = at[0];
    y = at[32];
    r = at[64];
    gain = at[96];
  }
};

struct TeamShared {
  alignas(128) unsigned char scratch[team_warps][(sizeof(rich::Multiring::Scratch) + 127) / 128 * 128];
  BlockTeam::Memory memory;
  rich::Multiring::Board board;
  alignas(16) unsigned char rings[(sizeof(rich::Rings) + 15) / 16 * 16];
};

static __global__ void __launch_bounds__(32 * team_warps, 3)
    multiring_team(const rich::Multiring algorithm, const DeviceBatch batch,
                   const trigger::DecisionOptions decision) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<TeamShared*>(memory);
  const unsigned warp = threadIdx.x / 32;
  auto& scratch = *reinterpret_cast<rich::Multiring::Scratch*>(shared.scratch[warp]);
  auto& rings = *reinterpret_cast<rich::Rings*>(shared.rings);
  for (std::uint32_t event = blockIdx.x; event < batch.events; event += gridDim.x) {
    const std::uint32_t from = batch.first[event], hits = batch.first[event + 1] - from;
    rich::MultiringEvent<rich::DeviceLanes, BlockTeam>(algorithm.parameters, {batch.pm + from, hits},
                                                       batch.plane, scratch, shared.board,
                                                       BlockTeam{&shared.memory})
        .run(rings);
    __syncwarp();
    if (warp == 0) hand_over(batch, event, hits, rings, decision);
    __syncthreads();  // the next event's board overwrites this one's
  }
}

// Number of events that run on the device in parallel, a block each.
inline cudaError_t multiring_teams(int multiprocessors, std::uint32_t& teams) {
  constexpr int bytes = static_cast<int>(sizeof(TeamShared));
  int resident = 0;
  if (const auto status = blocks_per_multiprocessor<multiring_team>(32 * team_warps, bytes, resident))
    return status;
  teams = static_cast<std::uint32_t>(resident * multiprocessors);
  return cudaSuccess;
}

inline cudaError_t launch_multiring_team(const rich::Multiring& algorithm, const DeviceBatch& batch,
                                         const trigger::DecisionOptions& decision, std::uint32_t teams,
                                         cudaStream_t stream) {
  if (batch.events == 0) return cudaSuccess;
  multiring_team<<<std::min(batch.events, teams), 32 * team_warps, sizeof(TeamShared), stream>>>(
      algorithm, batch, decision);
  return cudaGetLastError();
}

}  // namespace nanet::gpu
