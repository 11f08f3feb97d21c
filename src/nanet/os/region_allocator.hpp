// SPDX-License-Identifier: Apache-2.0
// Allocators of page-aligned memory regions for the contract. Private host memory, host memory shared with
// another process, or GPU memory for a card with direct access (GPUDirect RDMA).
#pragma once

#include <cstddef>

namespace nanet::os {

class RegionAllocator {
 public:
  virtual ~RegionAllocator() = default;
  // Zeroed, page-aligned. Throws std::system_error or std::runtime_error.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* at, std::size_t bytes) noexcept = 0;
  // True if the CPU can access these regions.
  virtual bool cpu_accessible() const noexcept { return true; }
  // dma-buf file descriptor of the last region, for a card's driver; the caller closes it. -1: none.
  virtual int dma_buf() const noexcept { return -1; }
  // File descriptor for mapping the region at `at` in another process, from offset 0. Owned by the allocator;
  // close-on-exec. -1: the region cannot be shared.
  virtual int shared_fd(const std::byte*) const noexcept { return -1; }
};

// Private host memory, in huge pages if the host allows them.
RegionAllocator& host_allocator() noexcept;
// Host memory that any other process can map.
RegionAllocator& shared_allocator() noexcept;
// Maps a region of another process's shared_allocator() at the same address. Throws std::system_error.
void map_shared(int fd, std::byte* at, std::size_t bytes);
// Keeps the region at `at` mapped after it is freed: an unresponsive device may still write to it.
void keep_addresses(const std::byte* at) noexcept;

}  // namespace nanet::os
