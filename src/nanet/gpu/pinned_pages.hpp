// SPDX-License-Identifier: Apache-2.0
// Host memory that a GPU reads and writes: control blocks, mailboxes, answers. For .cu files.
#pragma once

#include <cuda_runtime.h>
#include <sys/mman.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "nanet/gpu/cuda_error.hpp"

namespace nanet::gpu {

// Page-aligned host memory mapped for a GPU; outlives a failed GPU.
class PinnedPages {
 public:
  // Zeroed. Throws std::runtime_error.
  explicit PinnedPages(std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
    void* at =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
      throw std::runtime_error("cuda: no host memory for " + std::to_string(bytes_) + " B");
    host_ = static_cast<std::byte*>(at);
    void* seen = nullptr;
    try {
      require(cudaHostRegister(host_, bytes_, cudaHostRegisterMapped | cudaHostRegisterPortable),
              "registering host memory");
      require(cudaHostGetDevicePointer(&seen, host_, 0), "the device address of host memory");
    } catch (...) {
      munmap(host_, bytes_);
      throw;
    }
    device_ = static_cast<std::byte*>(seen);
  }
  ~PinnedPages() {
    if (cudaHostUnregister(host_) == cudaSuccess)
      munmap(host_, bytes_);  // a lost GPU may still write to a freed mapping
  }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  std::byte* host() const noexcept { return host_; }
  std::byte* device() const noexcept { return device_; }

 private:
  std::size_t bytes_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

}  // namespace nanet::gpu
