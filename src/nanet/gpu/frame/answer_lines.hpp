// SPDX-License-Identifier: Apache-2.0
// Answer's place in a mailbox (contract/mailbox.hpp), written by a thread block.
#pragma once

#include <cstdint>

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/block.hpp"

#ifdef __CUDACC__
#include "nanet/contract/device_access.cuh"
#endif

namespace nanet::gpu {

#ifdef __CUDACC__

struct AnswerLines {
  contract::Sixteen* to = nullptr;  // null: none
  std::uint32_t mark = 0;           // 0: none

  // Writes this thread's share of the units of a packet in shared memory.
  __device__ void write(const std::uint32_t* packet, std::uint32_t words, unsigned thread,
                        unsigned threads) const {
    if (!to || mark == 0) return;
    for (std::uint32_t u = thread; u <= contract::units_for(4 * words); u += threads) {
      std::uint32_t word[3] = {4 * words, 0, 0};
      if (u > 0) {
        const std::uint32_t at = 3 * (u - 1);
        for (unsigned i = 0; i < 3; ++i) word[i] = at + i < words ? packet[at + i] : 0;
      }
      put(u, word[0], word[1], word[2]);
    }
  }
  // Writes unit u.
  __device__ void store(std::uint32_t u, std::uint32_t x, std::uint32_t y, std::uint32_t z) const {
    if (to && mark != 0) put(u, x, y, z);
  }

 private:
  __device__ void put(std::uint32_t u, std::uint32_t x, std::uint32_t y, std::uint32_t z) const {
    contract::store_relaxed_system(to + u, {x | std::uint64_t{y} << 32, z | std::uint64_t{mark} << 32});
  }
};

#else

struct AnswerLines {
  void write(const std::uint32_t*, std::uint32_t, unsigned, unsigned) const {}
};

#endif

}  // namespace nanet::gpu
