// SPDX-License-Identifier: Apache-2.0
// PM position tables in device memory. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nanet/gpu/memory.hpp"
#include "nanet/rich/geometry.hpp"
#include "nanet/rich/math.hpp"

namespace nanet::gpu {

// plane_entries each; of a detector with PM IDs of 16 bits, common positions alone, wide_plane_entries.
class DevicePlane {
 public:
  DevicePlane() = default;
  explicit DevicePlane(const rich::Geometry& geometry)
      : entries_(geometry.wide() ? wide_plane_entries : plane_entries) {
    std::vector<rich::Point> common(entries_);
    std::copy(geometry.common.begin(), geometry.common.end(), common.begin());
    common_ = copied(common);
    if (geometry.wide()) return;
    rich::Math algorithm;
    algorithm.use(geometry);
    std::vector<rich::Math::Position> math(entries_);
    for (std::uint32_t pm = 0; pm < entries_; ++pm) algorithm.set(math.data(), pm, common[pm]);
    math_ = copied(math);
  }
  std::uint32_t entries() const noexcept { return entries_; }
  const rich::Point* common() const noexcept { return common_.get(); }
  const rich::Math::Position* math() const noexcept { return math_.get(); }  // null if entries() is wide

 private:
  template <class T>
  static DeviceArray<T> copied(const std::vector<T>& table) {
    DeviceArray<T> array = device_array<T>(table.size());
    require(cudaMemcpy(array.get(), table.data(), table.size() * sizeof(T), cudaMemcpyHostToDevice),
            "copying the PM positions");
    return array;
  }

  std::uint32_t entries_ = 0;
  DeviceArray<rich::Point> common_;
  DeviceArray<rich::Math::Position> math_;
};

}  // namespace nanet::gpu
