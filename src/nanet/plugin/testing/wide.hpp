// SPDX-License-Identifier: Apache-2.0
// Plug-in with a 32-lane library algorithm under another name.
#include "nanet/plugin/algorithm.hpp"
#include "nanet/rich/almagest.hpp"

struct Wide : nanet::rich::Almagest {
  static constexpr std::string_view name = "wide_one";
  static nanet::plugin::Keys<Parameters> keys() {
    return {
        {"triplets", &Parameters::triplets, 1, max_triplets, "seed triplets for each ring, 32 at a time"}};
  }
};
NANET_ALGORITHM(Wide)
