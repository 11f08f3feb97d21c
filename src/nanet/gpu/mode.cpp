// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "nanet/gpu/executor.hpp"

namespace nanet::gpu {

Mode mode_of(std::string_view name) {
  for (const Mode mode : {Mode::persistent, Mode::launch})
    if (name == name_of(mode)) return mode;
  throw std::invalid_argument("executor = " + std::string(name) + " must be persistent or launch");
}

std::string_view name_of(Mode mode) {
  return mode == Mode::persistent ? "persistent" : "launch";
}

}  // namespace nanet::gpu
