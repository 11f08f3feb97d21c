// SPDX-License-Identifier: Apache-2.0
// Batch kernel of MATH: a thread per event, with PM positions precomputed as whole numbers.
#pragma once

#include "nanet/gpu/kernels/algorithm_batch_kernel.cuh"
#include "nanet/gpu/kernels/math_device.cuh"

namespace nanet::gpu {

inline constexpr unsigned math_threads = 128;

static __global__ void __launch_bounds__(math_threads)
    math_kernel(const rich::Math math, const DeviceBatch batch, const trigger::DecisionOptions decision) {
  const std::uint32_t i = blockIdx.x * math_threads + threadIdx.x;
  if (i >= batch.events) return;
  const std::uint32_t from = batch.first[i], seen = batch.first[i + 1] - from;
  const std::uint32_t hits = seen < max_event_hits ? seen : max_event_hits;
  const PmId* const pm = batch.pm + from;
  rich::Math::Moments<rich::OneLane> moments;
  if (math.whole) {
    const std::uint32_t* const pairs = rich::Math::pairs(batch.math_plane);
    rich::Math::PairSums<std::int64_t> sums;
    for (std::uint32_t h = 0; h < hits; ++h) sums.add(pairs[pm[h] % plane_entries]);
    moments = rich::Math::moments(sums);
  } else {
    rich::Math::Sums sums;
    for (std::uint32_t h = 0; h < hits; ++h) sums.add(batch.math_plane[pm[h] % plane_entries]);
    moments = math.moments(sums);
  }
  rich::Ring ring;
  const bool found = math_ring(math, moments, hits, 1.0f / static_cast<float>(hits), ring);
  if (batch.primitives)
    batch.primitives[i] = static_cast<std::uint16_t>(math_primitive(found, ring, seen, false, decision));
  if (batch.rings) {
    batch.rings[i].count = found;
    batch.rings[i].ambiguous = false;
    batch.rings[i].primitive = 0;
    if (found) batch.rings[i].ring[0] = ring;
  }
}

template <>
struct AlgorithmBatchKernel<rich::Math> {
  static cudaError_t launch(const void* value, const DeviceBatch& batch,
                            const trigger::DecisionOptions& decision, int, cudaStream_t stream) {
    if (batch.events == 0) return cudaSuccess;
    math_kernel<<<(batch.events + math_threads - 1) / math_threads, math_threads, 0, stream>>>(
        *static_cast<const rich::Math*>(value), batch, decision);
    return cudaGetLastError();
  }
  static BatchKernel make() {
    BatchKernel kernel;
    kernel.name = rich::Math::name;
    kernel.launch = launch;
    return kernel;
  }
};

}  // namespace nanet::gpu
