// SPDX-License-Identifier: Apache-2.0
// Plug-in whose name has characters other than a-z, 0-9 and _.
#include "nanet/plugin/algorithm.hpp"

struct Named {
  static constexpr std::string_view name = "Mine";
  NANET_HD nanet::plugin::Rings operator()(const nanet::plugin::EventView&,
                                           const nanet::plugin::Point*) const {
    return {};
  }
};
NANET_ALGORITHM(Named)
