// SPDX-License-Identifier: Apache-2.0
// Occupancy: resident blocks of a kernel per multiprocessor, queried once per device. The same call sets the
// kernel's shared memory limit on the device.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>

namespace nanet::gpu {

// For the calling thread's device. bytes: dynamic shared memory.
template <auto kernel>
cudaError_t blocks_per_multiprocessor(unsigned threads, int bytes, int& blocks) {
  constexpr int remembered = 64;  // devices
  static std::atomic<int> known[remembered];
  int device = 0;
  if (const auto status = cudaGetDevice(&device)) return status;
  if (device < remembered && (blocks = known[device].load(std::memory_order_relaxed)) > 0) return cudaSuccess;
  if (const auto status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))
    return status;
  if (const auto status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &blocks, kernel, static_cast<int>(threads), static_cast<std::size_t>(bytes)))
    return status;
  blocks = std::max(blocks, 1);
  if (device < remembered) known[device].store(blocks, std::memory_order_relaxed);
  return cudaSuccess;
}

}  // namespace nanet::gpu
