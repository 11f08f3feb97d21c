// SPDX-License-Identifier: Apache-2.0
// The interface every ring algorithm stands behind. An algorithm is a value with a call operator, a pure
// function of one event's hits, written once for CPU and GPU:
//
//     struct Math {
//       static constexpr std::string_view name = "math";
//       struct Parameters { ... };
//       NANET_HD Rings operator()(const EventView& event, const Point* plane) const;   // plane[pm]:
//       common-plane position
//     };
//
// The trigger calls it through Reconstructor, once per batch and never per event, so an implementation may
// vectorise over the events of the batch; it must give the very bits that the per-event operator gives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

class Reconstructor {
 public:
  virtual ~Reconstructor() = default;
  virtual std::string_view name() const noexcept = 0;
  // rings: batch.events entries, each written. Allocates nothing, never throws. Not shared between threads:
  // clone() for each.
  virtual void operator()(const EventBatch& batch, Rings* rings) noexcept = 0;
  virtual std::unique_ptr<Reconstructor> clone() const = 0;
  // The algorithm itself, a value of the type whose `name` this is: what a device copies to run it there.
  virtual const void* value() const noexcept = 0;
};

using Parameters = std::map<std::string, double>;  // of TOML [algorithm.NAME]

struct ParameterInfo {
  std::string name;
  double value;  // default
  double low, high;
  std::string meaning;  // one sentence with the unit
};
std::vector<std::string> algorithm_names();  // of this library; plug-ins are not among them
// name: here and below also the file of a plug-in (plugins.hpp), or the name of one that is loaded.
std::vector<ParameterInfo> algorithm_parameters(std::string_view name);

// Throws std::invalid_argument whose text names the key, the value and what would be right (unknown algorithm
// or parameter, value out of range).
std::unique_ptr<Reconstructor> make_reconstructor(std::string_view name, const Parameters& parameters,
                                                  const Geometry& geometry);

}  // namespace nanet::rich
