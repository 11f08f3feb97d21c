// SPDX-License-Identifier: Apache-2.0
// Plug-in with a default value outside its declared range.
#include "nanet/plugin/algorithm.hpp"

struct BadDefault {
  static constexpr std::string_view name = "bad_default";
  struct Parameters {
    float cut = 7;
  };
  static nanet::plugin::Keys<Parameters> keys() { return {{"cut", &Parameters::cut, 1, 5, "a number"}}; }
  Parameters parameters;
  NANET_HD nanet::plugin::Primitive operator()(const nanet::plugin::EventView&,
                                               const nanet::plugin::Point*) const {
    return {};
  }
};
NANET_ALGORITHM(BadDefault)
