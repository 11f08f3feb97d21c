// SPDX-License-Identifier: Apache-2.0
// CUDA error check; for .cu files.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace nanet::gpu {

// Throws std::runtime_error with the failed operation and the reason of the driver.
inline void require(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess)
    throw std::runtime_error("cuda: " + std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace nanet::gpu
