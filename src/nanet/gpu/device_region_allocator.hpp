// SPDX-License-Identifier: Apache-2.0
// Contract memory on a GPU, for a card that writes it over PCIe (GPUDirect RDMA). Memory and descriptor are
// tested on a GPU; no such card was available.
#pragma once

#include "nanet/os/region_allocator.hpp"

namespace nanet::gpu {

class DeviceRegionAllocator final : public os::RegionAllocator {
 public:
  explicit DeviceRegionAllocator(int device) : device_(device) {}
  // Throws std::runtime_error.
  std::byte* allocate(std::size_t bytes) override;
  void free(std::byte* at, std::size_t bytes) noexcept override;
  bool cpu_accessible() const noexcept override { return false; }
  // -1 where the driver cannot export it (the open kernel modules can).
  int dma_buf() const noexcept override;

 private:
  int device_;
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace nanet::gpu
