// SPDX-License-Identifier: Apache-2.0
// Fault injection for GPU executors.
#pragma once

#include <cstdint>

namespace nanet::gpu {

// At number `at` the kernel faults or hangs.
struct Injection {
  enum class Kind : std::uint32_t { none, fault, hang } kind = Kind::none;
  std::uint64_t at = 0;
};

}  // namespace nanet::gpu
