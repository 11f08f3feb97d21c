// SPDX-License-Identifier: Apache-2.0
// MATH on any batch: a thread for each event.
#include <algorithm>

#include "nanet/gpu/kernels/batch_kernel.hpp"
#include "nanet/gpu/kernels/math_device.cuh"

namespace nanet::gpu {
namespace {

constexpr unsigned threads = 128;

__global__ void __launch_bounds__(threads)
    math_kernel(const rich::Math math, const DeviceBatch batch, const trigger::DecisionOptions decision) {
  const std::uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= batch.events) return;
  const std::uint32_t from = batch.first[i], seen = batch.first[i + 1] - from;
  const std::uint32_t hits = seen < max_event_hits ? seen : max_event_hits;
  const PmId* const pm = batch.pm + from;
  ThreadMoments moments;
  for (std::uint32_t h = 0; h < hits; ++h) {
    const rich::Point p = batch.math_plane[pm[h] % plane_entries];
    moments.add(p.x, p.y);
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

cudaError_t launch(const void* value, const DeviceBatch& batch, const trigger::DecisionOptions& decision, int,
                   cudaStream_t stream) {
  if (batch.events == 0) return cudaSuccess;
  math_kernel<<<(batch.events + threads - 1) / threads, threads, 0, stream>>>(
      *static_cast<const rich::Math*>(value), batch, decision);
  return cudaGetLastError();
}

}  // namespace

extern const BatchKernel kernel_math;
const BatchKernel kernel_math{rich::Math::name, launch};

}  // namespace nanet::gpu
