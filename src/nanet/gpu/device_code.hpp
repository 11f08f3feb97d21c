// SPDX-License-Identifier: Apache-2.0
// Block of threads of the device libraries (clop.hpp, rdma.hpp): leader, barrier, first warp, memory access.
// Without CUDA a block is one host thread, and a warp has one lane.
#pragma once

#include <bit>
#include <cstdint>

#include "nanet/contract/consumer.hpp"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#define NANET_DEVICE_CODE __device__ inline
// Called, not inlined: its registers are apart from the caller's.
#define NANET_DEVICE_CALL __device__ __noinline__ inline
#else
#include <thread>
#define NANET_DEVICE_CODE inline
#define NANET_DEVICE_CALL inline
#endif

namespace nanet::gpu::detail {

#ifdef __CUDACC__

NANET_DEVICE_CODE bool leads() {
  return threadIdx.x == 0;
}
NANET_DEVICE_CODE void barrier() {
  __syncthreads();
}
NANET_DEVICE_CODE void relax() {
  __nanosleep(100);
}
using Access = contract::DeviceAccess;

// Acquire and release; __threadfence() is sequentially consistent, which takes longer.
NANET_DEVICE_CODE void fence_device() {
  asm volatile("fence.acq_rel.gpu;" : : : "memory");
}
NANET_DEVICE_CODE void fence_system() {
  asm volatile("fence.acq_rel.sys;" : : : "memory");
}

// First warp of the block: its lanes make these calls together.
inline constexpr unsigned lanes = 32;
NANET_DEVICE_CODE bool first_warp() {
  return threadIdx.x < lanes;
}
NANET_DEVICE_CODE unsigned lane() {
  return threadIdx.x & (lanes - 1);
}
NANET_DEVICE_CODE void sync_warp() {
  __syncwarp();
}
NANET_DEVICE_CODE std::uint32_t ballot(bool yes) {
  return __ballot_sync(0xFFFFFFFFu, yes);
}
template <class T>
NANET_DEVICE_CODE T broadcast(T value, unsigned from = 0) {
  return __shfl_sync(0xFFFFFFFFu, value, static_cast<int>(from));
}
NANET_DEVICE_CODE unsigned lowest_bit(std::uint32_t mask) {
  return static_cast<unsigned>(__ffs(static_cast<int>(mask)) - 1);
}

#else

inline bool leads() {
  return true;
}
inline void barrier() {}
inline void relax() {
  std::this_thread::yield();
}
using Access = contract::HostAccess;

inline constexpr unsigned lanes = 1;
inline bool first_warp() {
  return true;
}
inline unsigned lane() {
  return 0;
}
inline void sync_warp() {}
inline std::uint32_t ballot(bool yes) {
  return yes ? 1 : 0;
}
template <class T>
inline T broadcast(T value, unsigned = 0) {
  return value;
}
inline unsigned lowest_bit(std::uint32_t mask) {
  return static_cast<unsigned>(std::countr_zero(mask));
}

#endif

}  // namespace nanet::gpu::detail
