// SPDX-License-Identifier: Apache-2.0
// Records by index with a free list; grows only beyond the reserved number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nanet::torus {

inline constexpr std::uint32_t none = ~std::uint32_t{0};  // no record

// T has a member `next`, which links the free records.
template <class T>
class Pool {
 public:
  explicit Pool(std::size_t reserved) { items_.reserve(reserved); }
  std::uint32_t take() {
    if (free_ == none) {
      items_.emplace_back();
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t index = free_;
    free_ = items_[index].next;
    return index;
  }
  void give(std::uint32_t index) {
    items_[index].next = free_;
    free_ = index;
  }
  void clear() {
    items_.clear();
    free_ = none;
  }
  T& operator[](std::uint32_t index) { return items_[index]; }

 private:
  std::vector<T> items_;
  std::uint32_t free_ = none;
};

}  // namespace nanet::torus
