// SPDX-License-Identifier: Apache-2.0
// GPU memory that CPU threads write to through the GPU's PCIe BAR: allocated by Vulkan and imported by CUDA,
// or allocated by CUDA and mapped by GDRCopy. For .cu files.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nanet/gpu/mailbox_kind.hpp"
#include "nanet/os/gdr_mapping.hpp"
#include "nanet/os/vulkan_memory.hpp"

namespace nanet::gpu {

class BarMemory {
 public:
  // device: CUDA number. kind: gpu and automatic try both ways, Vulkan first. Zeroed. Null where the drivers
  // do not offer it; why: the steps that failed.
  static std::unique_ptr<BarMemory> open(int device, std::size_t bytes, std::string& why,
                                         MailboxMemory kind = MailboxMemory::gpu) {
    std::unique_ptr<BarMemory> made(new BarMemory);
    why.clear();
    if (kind != MailboxMemory::gdrdrv && made->by_vulkan(device, bytes, why)) return made;
    if (kind != MailboxMemory::vulkan) {
      made.reset(new BarMemory);
      std::string reason;
      if (made->by_gdrdrv(device, bytes, reason)) return made;
      why += (why.empty() ? "" : "; ") + reason;
    }
    return nullptr;
  }
  ~BarMemory() {
    mapping_.reset();  // before the memory is freed
    if (void* const at = allocated_ ? allocated_ : device_) cudaFree(at);
    if (imported_) cudaDestroyExternalMemory(imported_);
  }
  BarMemory(const BarMemory&) = delete;
  BarMemory& operator=(const BarMemory&) = delete;

  // Written by CPU threads; a read takes a microsecond.
  std::byte* host() const noexcept { return host_; }
  std::byte* device() const noexcept { return device_; }
  // vulkan or gdrdrv.
  const char* way() const noexcept { return mapping_ ? "gdrdrv" : "vulkan"; }

 private:
  BarMemory() = default;

  bool by_vulkan(int device, std::size_t bytes, std::string& why) {
    cudaDeviceProp properties;
    if (!done(cudaGetDeviceProperties(&properties, device), "the GPU's properties", why)) return false;
    std::span<const std::uint8_t, 16> uuid(reinterpret_cast<const std::uint8_t*>(properties.uuid.bytes), 16);
    vulkan_ = os::VulkanMemory::open(uuid, bytes, why);
    if (!vulkan_) return false;
    cudaExternalMemoryHandleDesc handle{};
    handle.type = cudaExternalMemoryHandleTypeOpaqueFd;
    handle.handle.fd = vulkan_->release_fd();
    handle.size = vulkan_->bytes();
    if (!done(cudaImportExternalMemory(&imported_, &handle), "cudaImportExternalMemory", why)) {
      ::close(handle.handle.fd);
      imported_ = nullptr;
      return false;
    }
    cudaExternalMemoryBufferDesc buffer{};
    buffer.size = vulkan_->bytes();
    void* mapped = nullptr;
    if (!done(cudaExternalMemoryGetMappedBuffer(&mapped, imported_, &buffer),
              "cudaExternalMemoryGetMappedBuffer", why))
      return false;
    device_ = static_cast<std::byte*>(mapped);
    if (!clear(vulkan_->bytes(), why)) return false;
    host_ = vulkan_->host();
    return true;
  }

  bool by_gdrdrv(int device, std::size_t bytes, std::string& why) {
    constexpr std::size_t page = os::GdrMapping::page;
    bytes = (bytes + page - 1) / page * page;
    if (!done(cudaSetDevice(device), "cudaSetDevice", why)) return false;
    void* at = nullptr;
    if (!done(cudaMalloc(&at, bytes + page), "device memory", why)) return false;
    device_ = static_cast<std::byte*>(at);
    const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(at) + page - 1) / page * page;
    if (!clear(bytes + page, why) || !synchronous(first)) {
      if (why.empty()) why = "cuPointerSetAttribute";
      return false;
    }
    mapping_ = os::GdrMapping::open(first, bytes, why);
    if (!mapping_) return false;
    allocated_ = device_;
    device_ = reinterpret_cast<std::byte*>(first);
    host_ = mapping_->host();
    return true;
  }

  static bool done(cudaError_t status, const char* step, std::string& why) {
    if (status == cudaSuccess) return true;
    cudaGetLastError();
    why = step;
    return false;
  }
  bool clear(std::size_t bytes, std::string& why) const {
    return done(cudaMemset(device_, 0, bytes), "clearing the memory", why) &&
           done(cudaDeviceSynchronize(), "clearing the memory", why);
  }
  // CUDA's own copies to the memory are complete when their call returns (GPUDirect RDMA, Synchronization).
  static bool synchronous(std::uintptr_t at) {
    // Looked up by name: libcuda is not linked, so the same build runs without a driver.
    void* found = nullptr;
    cudaDriverEntryPointQueryResult known{};
    if (cudaGetDriverEntryPointByVersion("cuPointerSetAttribute", &found, 12000, cudaEnableDefault, &known) !=
            cudaSuccess ||
        known != cudaDriverEntryPointSuccess)
      return false;
    const unsigned yes = 1;
    return reinterpret_cast<CUresult (*)(const void*, CUpointer_attribute, CUdeviceptr)>(found)(
               &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, static_cast<CUdeviceptr>(at)) == CUDA_SUCCESS;
  }

  std::unique_ptr<os::VulkanMemory> vulkan_;
  cudaExternalMemory_t imported_ = nullptr;
  std::unique_ptr<os::GdrMapping> mapping_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;     // first byte of the memory
  std::byte* allocated_ = nullptr;  // what cudaFree takes, if another
};

}  // namespace nanet::gpu
