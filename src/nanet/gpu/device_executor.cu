// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/device_executor.hpp"

#include <stdexcept>
#include <string>

#include "nanet/gpu/cuda_error.hpp"

namespace nanet::gpu {

int require_gpus(const PipelineOptions& options) {
  int gpus = 0;
  require(cudaGetDeviceCount(&gpus), "looking for GPUs");
  if (options.device < 0 || options.device >= gpus)
    throw std::invalid_argument("device = cuda:" + std::to_string(options.device) + ": there are " +
                                std::to_string(gpus) + " GPUs, from cuda:0 on");
  return gpus;
}

}  // namespace nanet::gpu
