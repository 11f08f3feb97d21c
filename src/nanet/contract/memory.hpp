// SPDX-License-Identifier: Apache-2.0
// Contract memory of one device: a single mapped region, registered with a GPU in one call. It outlives any
// GPU context.
#pragma once

#include <cstddef>

#include "nanet/contract/layout.hpp"
#include "nanet/os/region_allocator.hpp"

namespace nanet::contract {

// Size in bytes of a region with this shape, and its layout.
std::size_t region_bytes(const Shape& shape) noexcept;
View lay_out(const Shape& shape, std::byte* region) noexcept;

class Memory {
 public:
  // Throws std::invalid_argument (shape violates the contract) or std::system_error (no memory).
  // allocator outlives the memory.
  explicit Memory(const Shape& shape, os::RegionAllocator& allocator = os::host_allocator());
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const View& view() const { return view_; }
  std::byte* region() const { return region_; }
  std::size_t bytes() const { return bytes_; }

 private:
  os::RegionAllocator* allocator_;
  std::byte* region_ = nullptr;
  std::size_t bytes_ = 0;
  View view_;
};

}  // namespace nanet::contract
