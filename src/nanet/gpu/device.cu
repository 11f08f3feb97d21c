// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/device.hpp"

#include <cuda_runtime.h>

namespace nanet::gpu {

Devices devices() {
  Devices all;
  all.built = true;
  if (cudaDriverGetVersion(&all.driver) != cudaSuccess) all.driver = 0;
  if (all.driver == 0) {
    all.trouble = "no NVIDIA driver is installed";
    return all;
  }
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  for (int number = 0; status == cudaSuccess && number < count; ++number) {
    cudaDeviceProp p;
    status = cudaGetDeviceProperties(&p, number);
    if (status == cudaSuccess)
      all.found.push_back(
          {number, p.name, p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem, p.memoryBusWidth});
  }
  if (all.found.empty())
    all.trouble = status == cudaSuccess ? "the driver finds no GPU" : cudaGetErrorString(status);
  return all;
}

}  // namespace nanet::gpu
