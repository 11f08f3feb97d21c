// SPDX-License-Identifier: Apache-2.0
// What a thread does between two looks at a word that another one will change.
#pragma once

#include <thread>

namespace nanet::card {

inline void spin() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace nanet::card
