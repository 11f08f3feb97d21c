// SPDX-License-Identifier: Apache-2.0
// Atomic access to words of contract memory, on the host. Each word has one writer.
#pragma once

#include <atomic>

namespace nanet::contract {

template <class T>
inline T acquire(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <class T>
inline void release(T& word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}
template <class T>
inline T relaxed(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}
template <class T>
inline void relax(T& word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

// Orders the publication of an entry before the reading of a flag of the sleeping side, and the reverse
// there.
inline void full_fence() noexcept {
#ifdef __SANITIZE_THREAD__  // ThreadSanitizer has no model of fences
  static std::atomic<unsigned> word;
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace nanet::contract
