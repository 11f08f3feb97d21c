// SPDX-License-Identifier: Apache-2.0
// NANET_VERSION comes from CMake, which reads it from the Python package.
#include "nanet/version.hpp"

namespace nanet {

std::string_view version() noexcept {
  return NANET_VERSION;
}

}  // namespace nanet
