// SPDX-License-Identifier: Apache-2.0
// PM position tables in device memory. For .cu files.
#pragma once

#include <vector>

#include "nanet/gpu/memory.hpp"
#include "nanet/rich/geometry.hpp"
#include "nanet/rich/math.hpp"

namespace nanet::gpu {

class DevicePlane {
 public:
  DevicePlane() = default;
  explicit DevicePlane(const rich::Geometry& geometry) {
    std::vector<rich::Point> table(2 * plane_entries);
    for (std::size_t pm = 0; pm < geometry.common.size(); ++pm) {
      const rich::Point& p = geometry.common[pm];
      table[pm] = p;
      table[plane_entries + pm] = {p.x - rich::Math::origin_x, rich::Math::rows(p.y)};
    }
    table_ = device_array<rich::Point>(table.size());
    require(
        cudaMemcpy(table_.get(), table.data(), table.size() * sizeof(rich::Point), cudaMemcpyHostToDevice),
        "copying the PM positions");
  }
  const rich::Point* common() const noexcept { return table_.get(); }
  const rich::Point* math() const noexcept { return table_.get() + plane_entries; }

 private:
  DeviceArray<rich::Point> table_;
};

}  // namespace nanet::gpu
