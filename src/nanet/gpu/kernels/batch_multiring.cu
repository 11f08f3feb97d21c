// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/multiring_parts.cuh"
#include "nanet/gpu/kernels/multiring_team.cuh"

namespace nanet::gpu {

namespace {

// From here on the three kernels' starts and ends cost less than they save.
constexpr std::uint32_t large_batch = 8192;

std::size_t work_bytes(std::uint32_t events) {
  return events < large_batch ? 0 : MultiringWork::bytes(events);
}

cudaError_t launch(const void* value, const DeviceBatch& batch, const trigger::DecisionOptions& decision,
                   int multiprocessors, cudaStream_t stream) {
  std::uint32_t teams = 0;
  if (const auto status = multiring_teams(multiprocessors, teams)) return status;
  if (batch.events <= teams)
    return launch_multiring_team(*static_cast<const rich::Multiring*>(value), batch, decision, teams, stream);
  if (batch.events < large_batch || !batch.work)
    return launch_wide<rich::Multiring>(value, batch, decision, multiprocessors, stream);
  return launch_multiring_parts(*static_cast<const rich::Multiring*>(value), batch, decision, multiprocessors,
                                stream);
}

}  // namespace

extern const BatchKernel kernel_multiring;
const BatchKernel kernel_multiring{rich::Multiring::name, launch, work_bytes};

}  // namespace nanet::gpu
