// SPDX-License-Identifier: Apache-2.0
// Interface of the ring algorithms: a plain struct, wrapped by a Reconstructor. An algorithm is a value with
// a call operator. The operator is a pure function of one event's hits, written once for CPU and GPU:
//
//     struct Mine {                                      // rich/mine.hpp, and `mine Mine` in algorithms.list
//       static constexpr std::string_view name = "mine";
//       struct Parameters { ... };                       // optional, with keys() and parameters
//       static Keys<Parameters> keys();                  // parameters.hpp
//       Parameters parameters;
//       // plane[pm]: position in the common plane, mm
//       NANET_HD Rings operator()(const EventView& event, const Point* plane) const;
//     };
//
// A 32-lane algorithm has another call operator (reconstructor.hpp). Optional static members: the traits
// below, and batch_reconstructor() for a CPU implementation over whole batches. It must give the same bits as
// the per-event operator.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

// Called once per batch, never per event.
class Reconstructor {
 public:
  virtual ~Reconstructor() = default;
  virtual std::string_view name() const noexcept = 0;
  // rings: batch.events entries, all written. Allocates nothing, never throws. Not thread-safe: use one
  // clone() per thread.
  virtual void operator()(const EventBatch& batch, Rings* rings) noexcept = 0;
  // The same for hits at free positions; of an event the first 128 count. Hits at PMs give the same bits.
  virtual void operator()(const PointBatch& batch, Rings* rings) noexcept = 0;
  virtual std::unique_ptr<Reconstructor> clone() const = 0;
  // The algorithm struct. GPU executors copy it.
  virtual const void* value() const noexcept = 0;
};

// Static members of an algorithm; missing members have these defaults. Used by tests and reports.
struct AlgorithmTraits {
  unsigned most_rings = 1;      // maximum number of rings per event
  bool rejects_noise = false;   // ignores hits far from the ring
  bool assumes_centre = false;  // has a prior on the ring centre: not invariant under translation
  bool is_fit = true;           // circle fit: exact on an ideal circle; no ring without an arc of hits
};
// Same names as algorithm_parameters(); defaults for a plug-in. Throws std::invalid_argument.
AlgorithmTraits algorithm_traits(std::string_view name);

using Parameters = std::map<std::string, double>;  // from TOML [algorithm.NAME]

struct ParameterInfo {
  std::string name;
  double value;  // default
  double low, high;
  std::string meaning;  // description, with the unit
};
inline constexpr std::string_view default_algorithm = "multiring";
std::vector<std::string> algorithm_names();  // order of algorithms.list; without plug-ins
// name: library algorithm, plug-in file (plugins.hpp) or loaded plug-in. Throws std::invalid_argument.
std::vector<ParameterInfo> algorithm_parameters(std::string_view name);

// Throws std::invalid_argument with key, value and remedy (unknown algorithm or parameter, value out of
// range). name: as in algorithm_parameters(). simd_name: a variant of simd.hpp; empty: this process's.
std::unique_ptr<Reconstructor> make_reconstructor(std::string_view name, const Parameters& parameters,
                                                  const Geometry& geometry, std::string_view simd_name = {});

}  // namespace nanet::rich
