// SPDX-License-Identifier: Apache-2.0
// How an algorithm over thirty-two lanes (lanes.hpp) stands behind the Reconstructor interface on a CPU.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/lanes.hpp"

namespace nanet::rich {

// One more than any PM ID that eleven bits can hold: an unchecked hit word cannot reach past the table.
inline constexpr std::size_t plane_table_size = 2048;

// An algorithm A is a value
//
//     struct A {
//       static constexpr std::string_view name;
//       struct Scratch { ... };  // plain data, working memory of one event; shared memory on a GPU
//       template <class L>
//       NANET_HD void operator()(const EventView&, const Point* plane, Scratch&, Rings&) const;
//     };
//
// called by all lanes of a warp together, as algorithm.template operator()<L>(...). plane: plane_table_size
// entries. Every lane leaves with the same view of things; `rings` is written by one lane on a GPU.
template <class A>
class WideReconstructor final : public Reconstructor {
 public:
  WideReconstructor(const A& algorithm, const Geometry& geometry) : algorithm_(algorithm) {
    std::copy(geometry.common.begin(), geometry.common.end(), plane_.begin());
  }
  std::string_view name() const noexcept override { return A::name; }
  std::unique_ptr<Reconstructor> clone() const override { return std::make_unique<WideReconstructor>(*this); }
  const void* value() const noexcept override { return &algorithm_; }
  void operator()(const EventBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i)
      algorithm_.template operator()<HostLanes>(batch.view(i), plane_.data(), scratch_, rings[i]);
  }

 private:
  A algorithm_;
  std::array<Point, plane_table_size> plane_{};
  alignas(64) typename A::Scratch scratch_{};
};

}  // namespace nanet::rich
