// SPDX-License-Identifier: Apache-2.0
// Thread block in steps: one source for a thread block of a GPU and for a loop on the CPU, so frame code is
// tested without a GPU.
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

namespace nanet::gpu {

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
NANET_HD inline std::uint32_t one_byte(const std::byte* at) {
  return static_cast<std::uint32_t>(*at);
}
// Four bytes at a multiple of four.
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

// Steps of a thread block on a GPU; every thread makes each call.
struct Block {
  using Lanes = rich::DeviceLanes;
  static constexpr bool has_warps = true;

  __device__ static unsigned threads() { return blockDim.x; }
  // Permutation of the threads; neighbours belong to different warps.
  __device__ static unsigned spread(unsigned t) { return (t & 31u) * (blockDim.x >> 5) + (t >> 5); }
  // f(thread) in every thread; its writes are visible to all threads afterwards.
  template <class F>
  __device__ static void each(const F& f) {
    f(threadIdx.x);
    __syncthreads();
  }
  // f() in thread 0; its writes are visible to the others after the next step.
  template <class F>
  __device__ static void one(const F& f) {
    if (threadIdx.x == 0) f();
  }
  // f(warp) with all lanes of each warp together.
  template <class F>
  __device__ static void warps(const F& f) {
    f(threadIdx.x >> 5);
    __syncthreads();
  }
  __device__ static bool leads() { return (threadIdx.x & 31u) == 0; }
  // Next number for the calling warp, counted up in `at`; inside warps().
  __device__ static std::uint32_t take(std::uint32_t& at) {
    std::uint32_t got = 0;
    if (leads()) got = atomicAdd(&at, 1u);
    return __shfl_sync(0xFFFFFFFFu, got, 0);
  }
  // Atomic addition; returns the previous value. Any thread, inside each() or warps().
  __device__ static std::uint32_t add(std::uint32_t& at, std::uint32_t n) { return atomicAdd(&at, n); }
  __device__ static void least(std::uint32_t& at, std::uint32_t n) { atomicMin(&at, n); }
  // f(i, number of set flags before i) for each i < n with flag[i] = 1. Returns the number of set flags.
  // room: one shared word per warp.
  template <class F>
  __device__ static std::uint32_t number(const std::uint32_t* flag, std::uint32_t n, std::uint32_t* room,
                                         const F& f) {
    const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    std::uint32_t before = 0;
    for (std::uint32_t from = 0; from < n; from += blockDim.x) {
      const std::uint32_t i = from + threadIdx.x;
      const bool is = i < n && flag[i];
      const unsigned vote = __ballot_sync(0xFFFFFFFFu, is);
      if (lane == 0) room[warp] = __popc(vote);
      __syncthreads();
      std::uint32_t mine = before;
#pragma unroll 8
      for (unsigned w = 0; w < warps; ++w) {
        const std::uint32_t there = room[w];
        mine += w < warp ? there : 0;
        before += there;
      }
      if (is) f(i, mine + __popc(vote & ((1u << lane) - 1)));
      __syncthreads();
    }
    return before;
  }
};

#else

// The same steps on the CPU, one thread after the other.
struct Block {
  using Lanes = rich::HostLanes;
  static constexpr bool has_warps = false;

  static constexpr unsigned threads() { return 64; }
  static unsigned spread(unsigned t) { return t; }
  template <class F>
  static void each(const F& f) {
    for (unsigned t = 0; t < threads(); ++t) f(t);
  }
  template <class F>
  static void one(const F& f) {
    f();
  }
  template <class F>
  static void warps(const F& f) {
    for (unsigned w = 0; w < threads() / 32; ++w) f(w);
  }
  static bool leads() { return true; }
  static std::uint32_t take(std::uint32_t& at) { return at++; }
  static std::uint32_t add(std::uint32_t& at, std::uint32_t n) {
    const std::uint32_t before = at;
    at += n;
    return before;
  }
  static void least(std::uint32_t& at, std::uint32_t n) { at = n < at ? n : at; }
  template <class F>
  static std::uint32_t number(const std::uint32_t* flag, std::uint32_t n, std::uint32_t*, const F& f) {
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < n; ++i)
      if (flag[i]) f(i, before++);
    return before;
  }
};

#endif

}  // namespace nanet::gpu
