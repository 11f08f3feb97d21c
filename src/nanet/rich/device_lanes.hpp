// SPDX-License-Identifier: Apache-2.0
// 32 lanes of a GPU warp: a lane is a thread, a value is a register. Common description: lanes.hpp.
#pragma once

#include <cmath>
#include <cstdint>

#include "nanet/rich/lane_code.hpp"

namespace nanet::rich {

struct DeviceLanes {
  using F = float;
  using I = std::int32_t;
  using M = bool;
  using Row = DeviceLanes;
  using Two = DeviceLanes;
  using Few = DeviceLanes;   // for the rings of an event
  using Half = DeviceLanes;  // lanes i and i + 16 hold the same
  static constexpr std::int32_t count = lane_count;
  static constexpr unsigned all = 0xFFFFFFFFu;
  static constexpr bool for_latency = false;

  // Part of the lanes that fills vectors of the CPU; here it is all of them.
  template <class>
  static constexpr int parts = 1;
  template <class = DeviceLanes>
  __device__ static F part(F v, int) {
    return v;
  }
  template <class = DeviceLanes>
  __device__ static void set_part(F& v, int, F to) {
    v = to;
  }
  // 1 in lanes 16 - 31, 0 in the others.
  __device__ static std::int32_t upper() { return static_cast<std::int32_t>(threadIdx.x >> 4 & 1u); }

  // The working memory of an algorithm is shared memory; shared addressing takes fewer instructions than
  // generic addressing. These statements keep their relative order. If other code also writes the memory,
  // sync() must precede load().
  __device__ static unsigned address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }
  __device__ static float get(unsigned at, float) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
    return v;
  }
  __device__ static std::int32_t get(unsigned at, std::int32_t) {
    std::int32_t v;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
  }
  __device__ static void set(unsigned at, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
  }
  __device__ static void set(unsigned at, std::int32_t v) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
  }
  __device__ static void get4(unsigned at, float (&v)[4]) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(at));
  }

  __device__ static I lane() { return static_cast<I>(threadIdx.x & 31u); }
  // Lane i reads p[i] (or writes p[i] if enabled). Writes are visible to other lanes after sync().
  __device__ static F load(const float* p) { return get(address(p) + 4u * lane(), 0.0f); }
  __device__ static I load(const std::int32_t* p) { return get(address(p) + 4u * lane(), 0); }
  __device__ static F one(const float* p) { return get(address(p), 0.0f); }  // p: by lane
  __device__ static void store(float* p, F v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(std::int32_t* p, I v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(float* p, F v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  __device__ static void store(std::int32_t* p, I v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  // Loads four values; p: 16 B aligned. On the host they are uniform.
  __device__ static void four(const float* p, float (&v)[4]) { get4(address(p), v); }
  // Exchanges values with the lane 16 away.
  __device__ static F other_half(F v) { return __shfl_xor_sync(all, v, 16); }
  // Stores one uniform value, once.
  __device__ static void put(float* p, float v) {
    if (lane() == 0) set(address(p), v);
  }
  __device__ static F gather(const float* p, I at) { return p[at]; }
  __device__ static I gather(const std::int32_t* p, I at) { return p[at]; }
  // The same for positions below `limit`; p: at least 32 entries.
  __device__ static F gather(const float* p, I at, std::int32_t) { return p[at]; }
  __device__ static void scatter(float* p, I at, F v, M where) {
    if (where) set(address(p) + 4u * at, v);
  }
  __device__ static void scatter(std::int32_t* p, I at, I v, M where) {
    if (where) set(address(p) + 4u * at, v);
  }
  // Lane i reads p[i % 4]; p: 16 B aligned.
  __device__ static F load_four(const float* p) { return get(address(p) + 4u * (threadIdx.x & 3u), 0.0f); }
  // Stores the values of enabled lanes one after the other. word: ballot of `where`. The host may also
  // overwrite the entries behind them, up to its number of lanes.
  __device__ static void append(float* p, F v, M where, std::uint32_t word) {
    scatter(p, rank(word), v, where);
  }
  __device__ static void sync() { __syncwarp(); }

  __device__ static F select(M m, F a, F b) { return m ? a : b; }
  __device__ static I select(M m, I a, I b) { return m ? a : b; }
  __device__ static F fma(F a, F b, F c) { return __fmaf_rn(a, b, c); }
  __device__ static F sqrt(F a) { return __fsqrt_rn(a); }
  // Correctly rounded (IEEE 754) reciprocal of normal numbers with normal result, and square root from 2^-86
  // to 2^92. Within these ranges the branches of the compiler's version are unnecessary.
  __device__ static F reciprocal(F a) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return __fmaf_rn(__fmaf_rn(-a, r, 1.0f), r, r);
  }
  __device__ static F root(F a) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    const float s = a * r;
    return __fmaf_rn(__fmaf_rn(-s, s, a), 0.5f * r, s);
  }
  __device__ static F min(F a, F b) { return a < b ? a : b; }
  __device__ static F max(F a, F b) { return a > b ? a : b; }
  __device__ static F abs(F a) { return fabsf(a); }
  __device__ static F to_float(I a) { return static_cast<float>(a); }
  __device__ static I to_int(F a) { return static_cast<std::int32_t>(a); }  // towards zero; |a| < 2^31
  __device__ static I bits(F a) { return __float_as_int(a); }
  __device__ static F from_bits(I a) { return __int_as_float(a); }

  __device__ static float sum(F v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(all, v, o);
    return v;
  }
  // Sums of integers wrap around.
  __device__ static I add(I a, I b) {
    return static_cast<I>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
  __device__ static std::int32_t sum(I v) { return __reduce_add_sync(all, v); }
  __device__ static void sum(const I (&v)[8], std::int32_t (&out)[8]) {
#pragma unroll
    for (int k = 0; k < 8; ++k) out[k] = sum(v[k]);
  }
  // Eight sums at once: lanes share the values, so 17 exchanges suffice instead of 40.
  __device__ static void sum(const F (&v)[8], float (&out)[8]) {
    const int i = lane();
    F four[4], two[2];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      four[k] = (i & 16 ? v[k + 4] : v[k]) + __shfl_xor_sync(all, i & 16 ? v[k] : v[k + 4], 16);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      two[k] = (i & 8 ? four[k + 2] : four[k]) + __shfl_xor_sync(all, i & 8 ? four[k] : four[k + 2], 8);
    F one = (i & 4 ? two[1] : two[0]) + __shfl_xor_sync(all, i & 4 ? two[0] : two[1], 4);
    one += __shfl_xor_sync(all, one, 2);
    one += __shfl_xor_sync(all, one, 1);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      out[k] = __shfl_sync(all, one, (k & 4 ? 16 : 0) | (k & 2 ? 8 : 0) | (k & 1 ? 4 : 0));
  }
  // Integers in the order of the numbers: one instruction instead of five exchanges. No value is NaN.
  __device__ static float max(F v) {
    const I of = ordered(bits(v));
    return from_bits(ordered(__reduce_max_sync(all, of)));
  }
  __device__ static std::uint32_t ballot(M m) { return __ballot_sync(all, m); }
  __device__ static I popcount(I v) { return __popc(v); }
  // Number of set bits in the word below the position of each lane.
  __device__ static I rank(std::uint32_t word) { return __popc(word & ((1u << lane()) - 1u)); }
  // The same for positions whose bit is set; undefined for the others.
  __device__ static I rank_of_set(std::uint32_t word) { return rank(word); }
  __device__ static bool any(M m) { return __any_sync(all, m); }
  __device__ static float at(F v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static std::int32_t at(I v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static F shuffle(F v, I from) { return __shfl_sync(all, v, from); }
  __device__ static I shuffle(I v, I from) { return __shfl_sync(all, v, from); }

 private:
  __device__ static I ordered(I of) { return of ^ (of >> 31 & 0x7FFFFFFF); }  // its own inverse
};

// The same for code that is optimised for the time of one event, not for the rate: independent work side by
// side, also where it may be unnecessary.
struct LatencyLanes : DeviceLanes {
  static constexpr bool for_latency = true;
};

}  // namespace nanet::rich
