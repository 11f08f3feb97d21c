// SPDX-License-Identifier: Apache-2.0
// Plug-in with an invalid table: applies CHANGE to it.
#include "nanet/plugin/algorithm.hpp"

#define nanet_algorithm nanet_algorithm_unchanged
struct Changed {
  static constexpr std::string_view name = "changed";
  NANET_HD nanet::plugin::Primitive operator()(const nanet::plugin::EventView&,
                                               const nanet::plugin::Point*) const {
    return {};
  }
};
NANET_ALGORITHM(Changed)
#undef nanet_algorithm

extern "C" __attribute__((visibility("default"))) const nanet::rich::PluginTable* nanet_algorithm() {
  static nanet::rich::PluginTable t = *nanet_algorithm_unchanged();
  CHANGE;
  return &t;
}
