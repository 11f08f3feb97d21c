// SPDX-License-Identifier: Apache-2.0
// Batch kernel of MULTIRING: a block per event for small batches, a warp per event for medium ones, three
// kernels for large ones.
#pragma once

#include "nanet/gpu/kernels/algorithm_batch_kernel.cuh"
#include "nanet/gpu/kernels/multiring_parts.cuh"
#include "nanet/gpu/kernels/multiring_team_kernel.cuh"

namespace nanet::gpu {

template <>
struct AlgorithmBatchKernel<rich::Multiring> {
  // Above this size three kernels save more than their launches cost.
  static constexpr std::uint32_t large_batch = 8192;

  static std::size_t work_bytes(std::uint32_t events) {
    return events < large_batch ? 0 : MultiringWork::bytes(events);
  }
  static cudaError_t launch(const void* value, const DeviceBatch& batch,
                            const trigger::DecisionOptions& decision, int multiprocessors,
                            cudaStream_t stream) {
    const auto& algorithm = *static_cast<const rich::Multiring*>(value);
    std::uint32_t teams = 0;
    if (const auto status = multiring_teams(multiprocessors, teams)) return status;
    if (batch.events <= teams) return launch_multiring_team(algorithm, batch, decision, teams, stream);
    if (batch.events < large_batch || !batch.work)
      return launch_wide<rich::Multiring>(value, batch, decision, multiprocessors, stream);
    return launch_multiring_parts(algorithm, batch, decision, multiprocessors, stream);
  }
  static BatchKernel make() { return {rich::Multiring::name, launch, work_bytes}; }
};

}  // namespace nanet::gpu
