// SPDX-License-Identifier: Apache-2.0
// MULTIRING over a small batch: a block, which is one team, per event.
#pragma once

#include "nanet/gpu/kernels/multiring_team.cuh"
#include "nanet/gpu/kernels/occupancy.cuh"
#include "nanet/gpu/kernels/wide_kernel.cuh"

namespace nanet::gpu {

inline constexpr unsigned team_warps = rich::MultiringTeamMemory::slots;  // for any breadth

struct TeamShared {
  alignas(128) unsigned char scratch[team_warps][sizeof(rich::Multiring::Scratch)];
  alignas(128) unsigned char memory[sizeof(rich::MultiringTeamMemory)];
  alignas(16) unsigned char rings[(sizeof(rich::Rings) + 15) / 16 * 16];
};

static __global__ void __launch_bounds__(32 * team_warps, 3)
    multiring_team(const __grid_constant__ rich::Multiring algorithm, const DeviceBatch batch,
                   const trigger::DecisionOptions decision) {
  using Team = TeamOf<rich::Multiring>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<TeamShared*>(memory);
  auto* const scratch = reinterpret_cast<rich::Multiring::Scratch*>(shared.scratch);
  auto& rings = *reinterpret_cast<rich::Rings*>(shared.rings);
  const Team::Team team{reinterpret_cast<Team::Memory*>(shared.memory), 0, team_warps, 1};
  for (std::uint32_t event = blockIdx.x; event < batch.events; event += gridDim.x) {
    const std::uint32_t from = batch.first[event], hits = batch.first[event + 1] - from;
    Team::run(algorithm, {batch.pm + from, hits}, batch.plane, scratch, rings, team, false);
    __syncwarp();
    if (team.index() == 0) hand_over(batch, event, hits, rings, decision);
    __syncthreads();  // the next event overwrites this one's memory
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
