// SPDX-License-Identifier: Apache-2.0
// Plug-in built for a processor that does not exist.
#define NANET_PLUGIN_NEEDS "sse4.2 avx1024f "
#include "nanet/plugin/algorithm.hpp"

struct OtherProcessor {
  static constexpr std::string_view name = "other_processor";
  NANET_HD nanet::plugin::Primitive operator()(const nanet::plugin::EventView&,
                                               const nanet::plugin::Point*) const {
    return {1};
  }
};
NANET_ALGORITHM(OtherProcessor)
