// SPDX-License-Identifier: Apache-2.0
// Batch kernel with a thread per event: algorithms without working memory, plain functions of an event
// (rich/algorithm.hpp).
#pragma once

#include "nanet/gpu/kernels/batch_kernel.hpp"

namespace nanet::gpu {

inline constexpr unsigned thread_kernel_threads = 128;

template <class A>
__global__ void __launch_bounds__(thread_kernel_threads)
    thread_kernel(const A algorithm, const DeviceBatch batch, const trigger::DecisionOptions decision) {
  const std::uint32_t i = blockIdx.x * thread_kernel_threads + threadIdx.x;
  if (i >= batch.events) return;
  const std::uint32_t from = batch.first[i], hits = batch.first[i + 1] - from;
  const rich::Rings rings = algorithm(rich::EventView{batch.pm + from, hits}, batch.plane);
  if (batch.rings) batch.rings[i] = rings;
  if (batch.primitives)
    batch.primitives[i] =
        hits < decision.min_hits ? std::uint16_t{0} : trigger::decide(rings, hits, false, decision);
}

template <class A>
cudaError_t launch_thread(const void* value, const DeviceBatch& batch,
                          const trigger::DecisionOptions& decision, int, cudaStream_t stream) {
  if (batch.events == 0) return cudaSuccess;
  thread_kernel<A><<<(batch.events + thread_kernel_threads - 1) / thread_kernel_threads,
                     thread_kernel_threads, 0, stream>>>(*static_cast<const A*>(value), batch, decision);
  return cudaGetLastError();
}

}  // namespace nanet::gpu
