// SPDX-License-Identifier: Apache-2.0
// Kernels of an algorithm, with their sizes.
#pragma once

#include "nanet/gpu/resident/resident.cuh"

namespace nanet::gpu {

template <class A>
FrameKernel frame_kernel() {
  FrameKernel kernel{};
  kernel.name = A::name;
  kernel.resident = reinterpret_cast<const void*>(resident<A, false>);
  kernel.resident_merged = reinterpret_cast<const void*>(resident<A, true>);
  kernel.once = reinterpret_cast<const void*>(once<A>);
  kernel.threads = most_threads;
  kernel.shared_bytes = SharedMemory<A>::bytes;
  kernel.resident_bytes = SharedMemory<A>::bytes;
  kernel.blocks = block_count;
  if constexpr (Wide<A>) {
    kernel.resident_bytes = SharedMemory<RemoteReconstruct<A>>::bytes;
    kernel.serving = reinterpret_cast<const void*>(serving<A>);
    kernel.serving_threads = serving_threads;
    if constexpr (TeamOf<A>::used) {
      kernel.serving_teams = reinterpret_cast<const void*>(serving_teams<A>);
      kernel.team_threads = team_threads;
    }
    kernel.team_warps = [](const void* value) {
      if constexpr (TeamOf<A>::used)
        return TeamOf<A>::size(*static_cast<const A*>(value));
      else
        return 0u;
    };
    kernel.team_hits = [](const void* value) {
      if constexpr (TeamOf<A>::used)
        return TeamOf<A>::hits(*static_cast<const A*>(value));
      else
        return ~std::uint32_t{0};
    };
    kernel.serving_bytes = ServingMemory<A>::bytes;
  }
  return kernel;
}

}  // namespace nanet::gpu
