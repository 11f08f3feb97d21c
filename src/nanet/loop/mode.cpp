// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "nanet/loop/executor_cuda.hpp"

namespace nanet::loop {

Mode mode_of(std::string_view name) {
  for (const Mode mode : {Mode::persistent, Mode::launch, Mode::graph})
    if (name == name_of(mode)) return mode;
  throw std::invalid_argument("executor = " + std::string(name) + " must be persistent, launch or graph");
}

std::string_view name_of(Mode mode) {
  return mode == Mode::persistent ? "persistent" : mode == Mode::launch ? "launch" : "graph";
}

}  // namespace nanet::loop
