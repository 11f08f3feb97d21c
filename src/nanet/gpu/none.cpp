// SPDX-License-Identifier: Apache-2.0
// GPU library without CUDA: reports no device and the reason.
#include <stdexcept>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/executor.hpp"

namespace nanet::gpu {

Devices devices() {
  Devices none;
  none.trouble = "this build has no CUDA component";
  return none;
}

std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor&, const rich::Geometry&, int) {
  throw std::invalid_argument("device: this build has no CUDA component: use --device cpu");
}

// Same declaration as in builds with CUDA.
// NOLINTBEGIN(performance-unnecessary-value-param)
std::unique_ptr<trigger::Executor> make_gpu_executor(const GpuOptions&, const trigger::ExecutorOptions&,
                                                     std::vector<contract::View>, const rich::Reconstructor&,
                                                     trigger::TraceTable&) {
  throw std::runtime_error("this build has no CUDA component: use --device cpu");
}
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace nanet::gpu
