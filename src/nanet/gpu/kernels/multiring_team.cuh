// SPDX-License-Identifier: Apache-2.0
// MULTIRING by teams of warps. Optimised for the time of one event, not for the rate.
#pragma once

#include "nanet/gpu/kernels/team.cuh"
#include "nanet/rich/multiring_team.hpp"

namespace nanet::gpu {

template <>
struct TeamOf<rich::Multiring> {
  static constexpr bool used = true;
  using Memory = rich::MultiringTeamMemory;
  using Scratch = rich::Multiring::Scratch;
  using Team = WarpTeam<Memory>;
  using Alone = rich::MultiringEvent<rich::DeviceLanes>;

  // A warp per candidate of a level.
  __host__ __device__ static unsigned size(const rich::Multiring& algorithm) {
    return algorithm.parameters.breadth * rich::Multiring::ways;
  }
  __host__ static std::uint32_t hits(const rich::Multiring& algorithm) {
    return rich::hits_beyond_one_ring(algorithm.parameters);
  }
  // Inlined into the kernel, whose parameters then are operands of its instructions: by reference, each use
  // would load them.
  __device__ __forceinline__ static bool begin(const rich::Multiring& algorithm, const rich::EventView& event,
                                               const rich::Point* plane, Scratch& scratch,
                                               rich::Rings& rings) {
    Alone in_hand(algorithm.parameters, event, plane, scratch, scratch.board);
    if (in_hand.begin()) return true;
    in_hand.end(rings);
    return false;
  }
  // Out of line: seldom called.
  __device__ __noinline__ static void alone(const rich::Multiring& algorithm, const rich::EventView& event,
                                            const rich::Point* plane, Scratch& scratch, rich::Rings& rings) {
    Alone(algorithm.parameters, event, plane, scratch, scratch.board).run(rings, true);
  }
  __device__ __forceinline__ static void run(const rich::Multiring& algorithm, const rich::EventView& event,
                                             const rich::Point* plane, Scratch* scratch, rich::Rings& rings,
                                             const Team& team, bool unsettled = true) {
    rich::MultiringTeamEvent<rich::LatencyLanes, Team>(algorithm.parameters, event, plane, scratch, team)
        .run(rings, unsettled);
  }
};

}  // namespace nanet::gpu
