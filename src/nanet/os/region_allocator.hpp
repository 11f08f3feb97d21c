// SPDX-License-Identifier: Apache-2.0
// Allocators of page-aligned memory regions for the contract: private host memory, host memory shared with
// another process, or GPU memory for a card that writes to it directly (GPUDirect RDMA).
#pragma once

#include <cstddef>

namespace nanet::os {

class RegionAllocator {
 public:
  virtual ~RegionAllocator() = default;
  // Zeroed, page-aligned. Throws std::system_error or std::runtime_error.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* at, std::size_t bytes) noexcept = 0;
  // Whether the CPU can load and store in these regions.
  virtual bool cpu_accessible() const noexcept { return true; }
  // dma-buf file descriptor of the region allocated last, for a card's driver; the caller closes it. -1:
  // none.
  virtual int dma_buf() const noexcept { return -1; }
  // File descriptor by which another process maps the region at `at`, from offset 0. The allocator owns it;
  // it is close-on-exec. -1: the region cannot be shared.
  virtual int shared_fd(const std::byte*) const noexcept { return -1; }
};

// Private host memory in huge pages where the host allows them.
RegionAllocator& host_allocator() noexcept;
// Host memory that any other process can map.
RegionAllocator& shared_allocator() noexcept;
// Maps a region of another process's shared_allocator() at the same address. Throws std::system_error.
void map_shared(int fd, std::byte* at, std::size_t bytes);
// Keeps the region at `at` mapped after it is freed: a device that no longer responds may still write there.
void keep_addresses(const std::byte* at) noexcept;

}  // namespace nanet::os
