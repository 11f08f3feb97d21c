// SPDX-License-Identifier: Apache-2.0
// Where contract memory lies. In the host's memory, unless a card that writes to a GPU's by itself (GPUDirect
// RDMA) is given a place there.
#pragma once

#include <cstddef>

namespace nanet::contract {

class Place {
 public:
  virtual ~Place() = default;
  // Zeroed, on a page boundary. Throws std::system_error or std::runtime_error.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give_back(std::byte* at, std::size_t bytes) noexcept = 0;
  // Whether the CPU can load and store there.
  virtual bool reachable() const noexcept { return true; }
  // A file descriptor under which a card's driver finds the memory taken last (dma-buf), the caller's to
  // close; -1: there is none.
  virtual int dma_buf() const noexcept { return -1; }
  // A file descriptor by which another process maps what was taken at `at`, from its offset 0 on; the
  // place's, and closed on exec. -1: it cannot be shared.
  virtual int shared(const std::byte*) const noexcept { return -1; }
};

// The host's memory, in huge pages where it allows them. For threads of this process only.
Place& host_place() noexcept;
// The same, which another process can map too, wherever that was started.
Place& shared_place() noexcept;
// Maps memory of another process' shared_place() at the address where that has it. Throws std::system_error.
void map_shared(int fd, std::byte* at, std::size_t bytes);
// What was taken at `at` keeps its addresses when it is given back, as a device that is out of reach may
// still know them.
void keep_addresses(const std::byte* at) noexcept;

}  // namespace nanet::contract
