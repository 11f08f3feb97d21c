// SPDX-License-Identifier: Apache-2.0
// Faults on purpose, to see what happens when a GPU fails.
#pragma once

#include <cstdint>

namespace nanet::gpu {

// At number `at` the kernel faults or stands still.
struct Injection {
  enum class Kind : std::uint32_t { none, fault, hang } kind = Kind::none;
  std::uint64_t at = 0;
};

}  // namespace nanet::gpu
