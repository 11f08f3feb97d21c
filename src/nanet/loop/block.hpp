// SPDX-License-Identifier: Apache-2.0
// A block of threads that works in steps, one source for a GPU's thread block and for a loop on the CPU: so
// that everything a kernel does with a frame is tested where there is no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/rich/lanes.hpp"
#include "nanet/units.hpp"

#ifdef __CUDACC__
#define NANET_DEVICE __device__
#else
#define NANET_DEVICE
#endif

namespace nanet::loop {

// Two bytes at an even address.
NANET_HD inline std::uint32_t half_word(const std::byte* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint16_t*>(at);
#else
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}
// Four bytes at an address that four divides.
NANET_HD inline std::uint32_t full_word(const std::byte* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint32_t*>(at);
#else
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}

#ifdef __CUDACC__

// What every thread of a thread block calls together.
struct Block {
  using Lanes = rich::DeviceLanes;

  __device__ static unsigned threads() { return blockDim.x; }
  // f(thread) in every thread; what they wrote is seen by all afterwards.
  template <class F>
  __device__ static void each(const F& f) {
    f(threadIdx.x);
    __syncthreads();
  }
  // f(warp) with all lanes of each warp together.
  template <class F>
  __device__ static void warps(const F& f) {
    f(threadIdx.x >> 5);
    __syncthreads();
  }
  __device__ static bool leads() { return (threadIdx.x & 31u) == 0; }
  // Adds and gives what was there before; any thread, in each() or warps().
  __device__ static std::uint32_t add(std::uint32_t& at, std::uint32_t n) { return atomicAdd(&at, n); }
  // v[i] becomes the sum of v[0] .. v[i - 1], total the sum of all; room: 33 words that all share.
  __device__ static void scan(std::uint32_t* v, std::uint32_t n, std::uint32_t& total, std::uint32_t* room) {
    const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const std::uint32_t share = (n + blockDim.x - 1) / blockDim.x;
    const std::uint32_t from = min(threadIdx.x * share, n), to = min(from + share, n);
    std::uint32_t own = 0;
    for (std::uint32_t i = from; i < to; ++i) own += v[i];
    std::uint32_t sum = own;
    for (unsigned o = 1; o < 32; o *= 2) {
      const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, sum, o);
      if (lane >= o) sum += below;
    }
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      const std::uint32_t mine = lane < warps ? room[lane] : 0;
      std::uint32_t up = mine;
      for (unsigned o = 1; o < 32; o *= 2) {
        const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, up, o);
        if (lane >= o) up += below;
      }
      room[lane] = up - mine;
      if (lane == 31) total = up;
    }
    __syncthreads();
    std::uint32_t at = room[warp] + sum - own;
    for (std::uint32_t i = from; i < to; ++i) {
      const std::uint32_t here = v[i];
      v[i] = at;
      at += here;
    }
    __syncthreads();
  }
};

#else

// The same, thread after thread.
struct Block {
  using Lanes = rich::HostLanes;

  static constexpr unsigned threads() { return 64; }
  template <class F>
  static void each(const F& f) {
    for (unsigned t = 0; t < threads(); ++t) f(t);
  }
  template <class F>
  static void warps(const F& f) {
    for (unsigned w = 0; w < threads() / 32; ++w) f(w);
  }
  static bool leads() { return true; }
  static std::uint32_t add(std::uint32_t& at, std::uint32_t n) {
    const std::uint32_t before = at;
    at += n;
    return before;
  }
  static void scan(std::uint32_t* v, std::uint32_t n, std::uint32_t& total, std::uint32_t*) {
    total = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t here = v[i];
      v[i] = total;
      total += here;
    }
  }
};

#endif

}  // namespace nanet::loop
