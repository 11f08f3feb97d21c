// SPDX-License-Identifier: Apache-2.0
// Code of 32-lane algorithms outside the vector types: number of lanes, macros for loops and functions, fused
// multiply-add.
#pragma once

#include "nanet/units.hpp"

namespace nanet::rich {

inline constexpr unsigned lane_count = 32;

// Before a loop: unrolls it fully, twice or not at all. The instructions of a warp must fit in the
// instruction cache. NANET_INLINED: a function that kernels inline; the members of an object that other
// functions take lie in local memory. NANET_CPU_INLINED: one that the CPU inlines; values of several vectors
// go to a function, and come from it, through memory.
#ifdef __CUDACC__
#define NANET_UNROLLED _Pragma("unroll")
#define NANET_UNROLLED_TWICE _Pragma("unroll 2")
#define NANET_ROLLED _Pragma("unroll 1")
#define NANET_NOINLINE __noinline__
#define NANET_INLINED __forceinline__
#define NANET_CPU_INLINED
#else
#ifdef __OPTIMIZE__
#define NANET_UNROLLED _Pragma("GCC unroll 8")
#define NANET_ROLLED _Pragma("GCC unroll 1")
#else  // g++ 12 says that it ignores them, and warnings are errors
#define NANET_UNROLLED
#define NANET_ROLLED
#endif
#define NANET_UNROLLED_TWICE
#define NANET_NOINLINE
#define NANET_INLINED
#define NANET_CPU_INLINED inline __attribute__((always_inline))
#endif

// Fused multiply-add, in uniform code.
NANET_HD inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

}  // namespace nanet::rich
