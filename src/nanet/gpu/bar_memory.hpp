// SPDX-License-Identifier: Apache-2.0
// GPU memory that CPU threads write to through the GPU's PCIe BAR. Allocated, mapped and exported by the
// Vulkan driver that comes with NVIDIA's driver, imported by CUDA; no kernel module and no Vulkan loader
// needed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace nanet::gpu {

class BarMemory {
 public:
  // device: CUDA number. Zeroed. Null where the driver does not offer it; why: the step that failed.
  static std::unique_ptr<BarMemory> open(int device, std::size_t bytes, std::string& why);
  ~BarMemory();
  BarMemory(const BarMemory&) = delete;
  BarMemory& operator=(const BarMemory&) = delete;

  // Written by CPU threads; a read takes a microsecond.
  std::byte* host() const noexcept { return host_; }
  std::byte* device() const noexcept { return device_; }

 private:
  struct Driver;
  BarMemory();
  std::unique_ptr<Driver> driver_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

}  // namespace nanet::gpu
