// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/device_region_allocator.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include "nanet/gpu/gpu_queue.hpp"

namespace nanet::gpu {
namespace {

constexpr std::size_t granule = 65536;  // granularity of a dma-buf export

}  // namespace

std::byte* DeviceRegionAllocator::allocate(std::size_t bytes) {
  require(cudaSetDevice(device_), "GPU " + std::to_string(device_));
  bytes_ = (bytes + granule - 1) / granule * granule;
  void* at = nullptr;
  require(cudaMalloc(&at, bytes_), "device memory for the CLOP");
  require(cudaMemset(at, 0, bytes_), "clearing the CLOP");
  at_ = static_cast<std::byte*>(at);
  return at_;
}

void DeviceRegionAllocator::free(std::byte* at, std::size_t) noexcept {
  cudaFree(at);
  if (at == at_) at_ = nullptr;
}

int DeviceRegionAllocator::dma_buf() const noexcept {
  if (!at_) return -1;
  // Looked up by name: libcuda is not linked, so the same build runs without a driver.
  void* found = nullptr;
  cudaDriverEntryPointQueryResult known{};
  if (cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &found, 12000, cudaEnableDefault,
                                       &known) != cudaSuccess ||
      known != cudaDriverEntryPointSuccess)
    return -1;
  using Export = CUresult (*)(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType, unsigned long long);
  int fd = -1;
  const CUresult status =
      reinterpret_cast<Export>(found)(&fd, static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(at_)),
                                      bytes_, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  return status == CUDA_SUCCESS ? fd : -1;
}

}  // namespace nanet::gpu
