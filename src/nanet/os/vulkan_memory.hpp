// SPDX-License-Identifier: Apache-2.0
// GPU memory mapped for the CPU through the GPU's PCIe BAR, and exported as a file descriptor, by the Vulkan
// driver that comes with NVIDIA's driver. Loaded at run time: no kernel module and no Vulkan loader needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace nanet::os {

class VulkanMemory {
 public:
  // uuid: of the GPU, as CUDA gives it. Null where the driver does not offer it; why: the step that failed.
  static std::unique_ptr<VulkanMemory> open(std::span<const std::uint8_t, 16> uuid, std::size_t bytes,
                                            std::string& why);
  ~VulkanMemory();
  VulkanMemory(const VulkanMemory&) = delete;
  VulkanMemory& operator=(const VulkanMemory&) = delete;

  // Written by CPU threads; a read takes a microsecond.
  std::byte* host() const noexcept { return host_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // The importer owns the descriptor; -1 the second time.
  int release_fd() noexcept;

 private:
  struct Driver;
  VulkanMemory();
  std::unique_ptr<Driver> driver_;
  std::byte* host_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace nanet::os
