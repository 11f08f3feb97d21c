// SPDX-License-Identifier: Apache-2.0
// Number of rounds of a test under a sanitizer.
#pragma once

#include <cstdlib>

namespace nanet {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NANET_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NANET_TEST_SANITIZED
#endif
#endif

// Whether tests do less work: a sanitizer makes a round up to 100 times slower. The complete run sets
// NANET_ALL_ROUNDS.
inline bool reduced() {
#ifdef NANET_TEST_SANITIZED
  static const bool all = std::getenv("NANET_ALL_ROUNDS") != nullptr;
  return !all;
#else
  return false;
#endif
}

// A quarter of the rounds suffices for the checks of a sanitizer.
template <class Count>
Count test_rounds(Count usual) {
  return reduced() ? usual / 4 : usual;
}

}  // namespace nanet
