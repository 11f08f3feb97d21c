// SPDX-License-Identifier: Apache-2.0
// One device's contract memory: a single mapped region, so that it can be registered with a GPU in one call
// and outlives any GPU context.
#pragma once

#include <cstddef>

#include "nanet/contract/layout.hpp"
#include "nanet/contract/place.hpp"

namespace nanet::contract {

// Bytes of the region that a device of this shape needs, and where everything lies in it.
std::size_t region_bytes(const Shape& shape) noexcept;
View lay_out(const Shape& shape, std::byte* region) noexcept;

class Memory {
 public:
  // Throws std::invalid_argument (shape out of the contract's rules) or std::system_error (no memory).
  // place outlives it.
  explicit Memory(const Shape& shape, Place& place = host_place());
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const View& view() const { return view_; }
  std::byte* region() const { return region_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Place* place_;
  std::byte* region_ = nullptr;
  std::size_t bytes_ = 0;
  View view_;
};

}  // namespace nanet::contract
