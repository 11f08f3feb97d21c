// SPDX-License-Identifier: Apache-2.0
// Batch kernel with a warp per event: the 32-lane algorithms (rich/lanes.hpp) on the device. Each is
// instantiated in a separate file, for parallel compilation.
#pragma once

// Host and device functions call functions of DeviceLanes, which exist on the device only; the host never
// calls them.
#pragma nv_diag_suppress 20011, 20014

#include <algorithm>

#include "nanet/gpu/kernels/batch_kernel.hpp"
#include "nanet/gpu/kernels/occupancy.cuh"
#include "nanet/rich/lanes.hpp"

namespace nanet::gpu {

// Warps per block; one if each warp gets a separate multiprocessor.
inline constexpr unsigned wide_warps = 4;

// Blocks per multiprocessor for which the compiler limits the registers.
template <class A>
inline constexpr unsigned wide_blocks = 1;

template <class A>
struct WideShared {
  alignas(128) unsigned char scratch[wide_warps][(sizeof(typename A::Scratch) + 127) / 128 * 128];
  alignas(16) unsigned char rings[wide_warps][(sizeof(rich::Rings) + 15) / 16 * 16];
};

// Copies an event's rings from shared memory to the outputs of the batch. One warp.
__device__ inline void hand_over(const DeviceBatch& batch, std::uint32_t event, std::uint32_t hits,
                                 const rich::Rings& rings, const trigger::DecisionOptions& decision) {
  static_assert(sizeof(rich::Rings) % 4 == 0 && sizeof(rich::Rings) <= 128);
  const unsigned lane = threadIdx.x % 32;
  if (batch.rings && lane < sizeof(rich::Rings) / 4)
    reinterpret_cast<std::uint32_t*>(batch.rings + event)[lane] =
        reinterpret_cast<const std::uint32_t*>(&rings)[lane];
  if (batch.primitives && lane == 0)
    batch.primitives[event] =
        hits < decision.min_hits ? std::uint16_t{0} : trigger::decide(rings, hits, false, decision);
}

template <class A>
__global__ void __launch_bounds__(32 * wide_warps, wide_blocks<A>)
    wide_kernel(const A algorithm, const DeviceBatch batch, const trigger::DecisionOptions decision) {
  extern __shared__ __align__(128) unsigned char memory[];
  WideShared<A>& shared = *reinterpret_cast<WideShared<A>*>(memory);
  const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
  auto& scratch = *reinterpret_cast<typename A::Scratch*>(shared.scratch[warp]);
  auto& rings = *reinterpret_cast<rich::Rings*>(shared.rings[warp]);
  for (std::uint32_t i = blockIdx.x * warps + warp; i < batch.events; i += gridDim.x * warps) {
    const std::uint32_t from = batch.first[i], hits = batch.first[i + 1] - from;
    algorithm.template operator()<rich::DeviceLanes>(rich::EventView{batch.pm + from, hits}, batch.plane,
                                                     scratch, rings);
    __syncwarp();
    hand_over(batch, i, hits, rings, decision);
    __syncwarp();  // the next event's hits and rings overwrite these
  }
}

template <class A>
cudaError_t launch_wide(const void* value, const DeviceBatch& batch, const trigger::DecisionOptions& decision,
                        int multiprocessors, cudaStream_t stream) {
  if (batch.events == 0) return cudaSuccess;
  constexpr int bytes = static_cast<int>(sizeof(WideShared<A>));
  int resident = 0;
  if (const auto status = blocks_per_multiprocessor<wide_kernel<A>>(32 * wide_warps, bytes, resident))
    return status;
  const unsigned warps = batch.events <= static_cast<unsigned>(multiprocessors) ? 1 : wide_warps;
  const unsigned wanted = (batch.events + warps - 1) / warps;
  // Several waves: a block with long events does not finish alone.
  const unsigned blocks = std::min(wanted, static_cast<unsigned>(multiprocessors * resident) * 16u);
  wide_kernel<A><<<blocks, 32 * warps, bytes, stream>>>(*static_cast<const A*>(value), batch, decision);
  return cudaGetLastError();
}

}  // namespace nanet::gpu
