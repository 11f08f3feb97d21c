// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/affinity.hpp"

#include <pthread.h>
#include <sched.h>

#include <string>
#include <system_error>

namespace nanet::os {

void pin_this_thread(int cpu) {
  pin_thread(pthread_self(), cpu);
}

void pin_thread(std::jthread::native_handle_type thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  const int error = pthread_setaffinity_np(thread, sizeof set, &set);
  if (error)
    throw std::system_error(error, std::generic_category(),
                            "cannot pin a thread to core " + std::to_string(cpu));
}

void keep_this_thread_off(std::span<const int> cpus) noexcept {
  cpu_set_t set;
  if (pthread_getaffinity_np(pthread_self(), sizeof set, &set) != 0) return;
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(cpu), &set);
  if (CPU_COUNT(&set) > 0) (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace nanet::os
