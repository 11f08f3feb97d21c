// SPDX-License-Identifier: Apache-2.0
// Plug-in with the name of a library algorithm.
#include "nanet/plugin/algorithm.hpp"

struct Named {
  static constexpr std::string_view name = "math";
  NANET_HD nanet::plugin::Rings operator()(const nanet::plugin::EventView&,
                                           const nanet::plugin::Point*) const {
    return {};
  }
};
NANET_ALGORITHM(Named)
