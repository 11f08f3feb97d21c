// SPDX-License-Identifier: Apache-2.0
// Thread pinning and the spin-wait instruction.
#pragma once

#include <span>
#include <thread>

namespace nanet::os {

// Pins the calling thread to one core. Throws std::system_error naming the core.
void pin_this_thread(int cpu);
// Pins another thread. Throws std::system_error naming the core.
void pin_thread(std::jthread::native_handle_type thread, int cpu);

// Moves the calling thread to its other CPUs, if there are any: pinned threads keep theirs.
void keep_this_thread_off(std::span<const int> cpus) noexcept;

// One iteration of a spin-wait: lets the other hyper-thread run.
inline void spin() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace nanet::os
