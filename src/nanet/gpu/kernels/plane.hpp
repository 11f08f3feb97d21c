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

class DevicePlane {
 public:
  DevicePlane() = default;
  explicit DevicePlane(const rich::Geometry& geometry) {
    std::vector<rich::Point> common(plane_entries);
    std::copy(geometry.common.begin(), geometry.common.end(), common.begin());
    common_ = copied(common);
    rich::Math algorithm;
    algorithm.use(geometry);
    std::vector<rich::Math::Position> math(plane_entries);
    for (std::uint32_t pm = 0; pm < plane_entries; ++pm) algorithm.set(math.data(), pm, common[pm]);
    math_ = copied(math);
  }
  const rich::Point* common() const noexcept { return common_.get(); }
  const rich::Math::Position* math() const noexcept { return math_.get(); }

 private:
  template <class T>
  static DeviceArray<T> copied(const std::vector<T>& table) {
    DeviceArray<T> array = device_array<T>(table.size());
    require(cudaMemcpy(array.get(), table.data(), table.size() * sizeof(T), cudaMemcpyHostToDevice),
            "copying the PM positions");
    return array;
  }

  DeviceArray<rich::Point> common_;
  DeviceArray<rich::Math::Position> math_;
};

}  // namespace nanet::gpu
