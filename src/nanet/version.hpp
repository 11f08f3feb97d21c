// SPDX-License-Identifier: Apache-2.0
// The version of the library, as python/nanet/__init__.py states it.
#pragma once

#include <string_view>

namespace nanet {

// "major.minor.patch".
std::string_view version() noexcept;

}  // namespace nanet
