// SPDX-License-Identifier: Apache-2.0
// An algorithm whose name is no word of small letters.
#include "nanet/plugin/algorithm.hpp"

struct Named {
  static constexpr std::string_view name = "Mine";
  NANET_HD nanet::plugin::Rings operator()(const nanet::plugin::EventView&,
                                           const nanet::plugin::Point*) const {
    return {};
  }
};
NANET_ALGORITHM(Named)
