// SPDX-License-Identifier: Apache-2.0
// CPU reconstructors: an algorithm behind the Reconstructor interface, called event by event.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/lanes.hpp"

namespace nanet::rich {

// One more than the largest 11-bit PM ID: an unchecked hit word stays within the table.
inline constexpr std::size_t plane_table_size = 2048;

// Common base: the algorithm and its table of PM positions.
template <class A>
class AlgorithmReconstructor : public Reconstructor {
 public:
  AlgorithmReconstructor(const A& algorithm, const Geometry& geometry) : algorithm_(algorithm) {
    std::copy(geometry.common.begin(), geometry.common.end(), plane_.begin());
  }
  std::string_view name() const noexcept override { return A::name; }
  const void* value() const noexcept override { return &algorithm_; }

 protected:
  A algorithm_;
  std::array<Point, plane_table_size> plane_{};
};

// For an algorithm over 32 lanes (lanes.hpp):
//
//     struct A {
//       static constexpr std::string_view name;
//       struct Scratch { ... };  // plain data, working memory of one event; shared memory on a GPU
//       template <class L>
//       NANET_HD void operator()(const EventView&, const Point* plane, Scratch&, Rings&) const;
//     };
//
// All lanes of a warp call it together, as algorithm.template operator()<L>(...). plane: plane_table_size
// entries. All lanes return with the same values; on a GPU one lane writes `rings`.
template <class A>
class WideReconstructor final : public AlgorithmReconstructor<A> {
 public:
  using AlgorithmReconstructor<A>::AlgorithmReconstructor;
  std::unique_ptr<Reconstructor> clone() const override { return std::make_unique<WideReconstructor>(*this); }
  void operator()(const EventBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i)
      this->algorithm_.template operator()<HostLanes>(batch.view(i), this->plane_.data(), scratch_, rings[i]);
  }

 private:
  alignas(64) typename A::Scratch scratch_{};
};

// For an algorithm without lanes: a plain function from an event to its rings (algorithm.hpp).
template <class A>
class EventReconstructor final : public AlgorithmReconstructor<A> {
 public:
  using AlgorithmReconstructor<A>::AlgorithmReconstructor;
  std::unique_ptr<Reconstructor> clone() const override {
    return std::make_unique<EventReconstructor>(*this);
  }
  void operator()(const EventBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i)
      rings[i] = this->algorithm_(batch.view(i), this->plane_.data());
  }
};

}  // namespace nanet::rich
