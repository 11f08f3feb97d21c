// SPDX-License-Identifier: Apache-2.0
// Version of the library, from the tags of Git (cmake/version.cmake).
#pragma once

#include <string_view>

namespace nanet {

// "major.minor.patch".
std::string_view version() noexcept;

}  // namespace nanet
