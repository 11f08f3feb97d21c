// SPDX-License-Identifier: Apache-2.0
// CPU reconstructors: an algorithm behind the Reconstructor interface, called event by event.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/lanes.hpp"

namespace nanet::rich {

// One more than the largest 11-bit PM ID: an unchecked hit word stays within the table.
inline constexpr std::size_t plane_table_size = 2048;
// Positions in the common plane by hit word. With PM IDs of 16 bits: 65536 entries.
inline std::vector<Point> plane_table(const Geometry& geometry) {
  std::vector<Point> table = geometry.common;
  table.resize(geometry.wide() ? 65536 : plane_table_size);
  return table;
}

// Table of PM positions. Behind them lie the hits of one event at free positions, under separate IDs, so
// that an algorithm reads both kinds of hits in one way and still finds all PMs. With PM IDs of 16 bits, free
// hits take the last IDs: of PMs that a detector with up to 65408 PMs lacks.
class Plane {
 public:
  explicit Plane(const Geometry& geometry)
      : points_(plane_table(geometry)), free_(geometry.wide() ? 65536 - max_event_hits : plane_table_size) {
    points_.resize(free_ + max_event_hits);
    for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<PmId>(free_ + i);
  }
  const Point* data() const noexcept { return points_.data(); }
  // Stores the hits of an event. The view is valid until the next call.
  EventView hits(const PointBatch& batch, std::uint32_t event) noexcept {
    const std::uint32_t from = batch.first[event];
    const std::uint32_t hits =
        std::min(batch.first[event + 1] - from, static_cast<std::uint32_t>(max_event_hits));
    for (std::uint32_t i = 0; i < hits; ++i) points_[free_ + i] = {batch.x[from + i], batch.y[from + i]};
    return {ids_.data(), hits};
  }

 private:
  std::vector<Point> points_;
  std::size_t free_;
  std::array<PmId, max_event_hits> ids_{};
};

// Common base: the algorithm and its table of PM positions.
template <class A>
class AlgorithmReconstructor : public Reconstructor {
 public:
  AlgorithmReconstructor(const A& algorithm, const Geometry& geometry)
      : algorithm_(algorithm), plane_(geometry) {}
  std::string_view name() const noexcept override { return A::name; }
  const void* value() const noexcept override { return &algorithm_; }

 protected:
  A algorithm_;
  Plane plane_;
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
    for (std::uint32_t i = 0; i < batch.events; ++i) find(batch.view(i), rings[i]);
  }
  void operator()(const PointBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i) find(this->plane_.hits(batch, i), rings[i]);
  }

 private:
  void find(const EventView& event, Rings& rings) noexcept {
    this->algorithm_.template operator()<HostLanes>(event, this->plane_.data(), scratch_, rings);
  }

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
  void operator()(const PointBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i)
      rings[i] = this->algorithm_(this->plane_.hits(batch, i), this->plane_.data());
  }
};

}  // namespace nanet::rich
