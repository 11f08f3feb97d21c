// SPDX-License-Identifier: Apache-2.0
// 32-lane vector types: one source for GPU warps and CPU vectors. DeviceLanes: a lane is a thread, a value is
// a register. HostLanes: a value is two vectors of sixteen. Both give the same bits: every operation rounds
// alike, and lane sums use the same addition tree.
//
// F: 32 floats. I: 32 int32. M: 32 booleans. A plain float, int or bool is the same in all lanes ("uniform").
// Control flow may depend on uniform values only, such as the results of any(), ballot() and sum().
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if !defined(__CUDACC__) && (defined(__AVX512F__) || defined(__FMA__))
#include <immintrin.h>
#endif

#include "nanet/units.hpp"

namespace nanet::rich {

inline constexpr unsigned lane_count = 32;

// Before a loop: unrolls it fully or not at all. The instructions of a warp must fit in the instruction
// cache.
#ifdef __CUDACC__
#define NANET_UNROLLED _Pragma("unroll")
#define NANET_ROLLED _Pragma("unroll 1")
#define NANET_NOINLINE __noinline__
#else
#define NANET_UNROLLED _Pragma("GCC unroll 8")
#define NANET_ROLLED _Pragma("GCC unroll 1")
#define NANET_NOINLINE
#endif

// Fused multiply-add, in uniform code.
NANET_HD inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

#ifdef __CUDACC__  // nvcc has no host vectors and needs none

struct DeviceLanes {
  using F = float;
  using I = std::int32_t;
  using M = bool;
  static constexpr unsigned all = 0xFFFFFFFFu;

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
  __device__ static void store(float* p, F v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(std::int32_t* p, I v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(float* p, F v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  __device__ static void store(std::int32_t* p, I v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  // Loads four uniform values; p: 16 B aligned.
  __device__ static void four(const float* p, float (&v)[4]) { get4(address(p), v); }
  // Loads four values: from p in lanes 0 - 15, from q in lanes 16 - 31; both 16 B aligned.
  __device__ static void four(const float* p, const float* q, F (&v)[4]) {
    get4(address(threadIdx.x & 16u ? q : p), v);
  }
  // Exchanges values with the lane 16 away.
  __device__ static F other_half(F v) { return __shfl_xor_sync(all, v, 16); }
  // Stores one uniform value, once.
  __device__ static void put(float* p, float v) {
    if (lane() == 0) set(address(p), v);
  }
  __device__ static F gather(const float* p, I at) { return p[at]; }
  __device__ static I gather(const std::int32_t* p, I at) { return p[at]; }
  __device__ static void scatter(float* p, I at, F v, M where) {
    if (where) set(address(p) + 4u * at, v);
  }
  __device__ static void scatter(std::int32_t* p, I at, I v, M where) {
    if (where) set(address(p) + 4u * at, v);
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
  __device__ static std::int32_t sum(I v) { return __reduce_add_sync(all, v); }
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
  __device__ static float max(F v) {
    for (int o = 16; o > 0; o /= 2) {
      const float other = __shfl_xor_sync(all, v, o);
      v = v > other ? v : other;
    }
    return v;
  }
  __device__ static std::uint32_t ballot(M m) { return __ballot_sync(all, m); }
  // Number of set bits in the word below the position of each lane.
  __device__ static I rank(std::uint32_t word) { return __popc(word & ((1u << lane()) - 1u)); }
  __device__ static bool any(M m) { return __any_sync(all, m); }
  __device__ static float at(F v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static std::int32_t at(I v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static F shuffle(F v, I from) { return __shfl_sync(all, v, from); }
  __device__ static I shuffle(I v, I from) { return __shfl_sync(all, v, from); }
};

#else

namespace host_lanes {

using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));

#define NANET_LANES_INLINE inline __attribute__((always_inline))

struct I {
  Ints v[2];
  I() = default;
  NANET_LANES_INLINE I(std::int32_t all) : v{all - Ints{}, all - Ints{}} {}
  NANET_LANES_INLINE I(const Ints& a, const Ints& b) : v{a, b} {}
};
struct F {
  Floats v[2];
  F() = default;
  NANET_LANES_INLINE F(float all) : v{all - Floats{}, all - Floats{}} {}
  NANET_LANES_INLINE F(const Floats& a, const Floats& b) : v{a, b} {}
};
struct M {  // all bits of a lane set, or none
  Ints v[2];
  M() = default;
  NANET_LANES_INLINE M(bool all) : v{Ints{} - std::int32_t{all}, Ints{} - std::int32_t{all}} {}
  NANET_LANES_INLINE M(const Ints& a, const Ints& b) : v{a, b} {}
};

// NOLINTBEGIN(bugprone-macro-parentheses): a type and an operator
#define NANET_LANES_BINARY(Type, op)                                   \
  NANET_LANES_INLINE Type operator op(const Type& a, const Type& b) {  \
    return {a.v[0] op b.v[0], a.v[1] op b.v[1]};                       \
  }                                                                    \
  NANET_LANES_INLINE Type& operator op## = (Type & a, const Type& b) { \
    return a = a op b;                                                 \
  }
#define NANET_LANES_COMPARE(Type, op)                              \
  NANET_LANES_INLINE M operator op(const Type& a, const Type& b) { \
    return {a.v[0] op b.v[0], a.v[1] op b.v[1]};                   \
  }
NANET_LANES_BINARY(F, +)
NANET_LANES_BINARY(F, -)
NANET_LANES_BINARY(F, *)
NANET_LANES_BINARY(F, /)
NANET_LANES_BINARY(I, +)
NANET_LANES_BINARY(I, -)
NANET_LANES_BINARY(I, *)
NANET_LANES_BINARY(I, &)
NANET_LANES_BINARY(I, |)
NANET_LANES_BINARY(I, ^)
NANET_LANES_BINARY(M, &)
NANET_LANES_BINARY(M, |)
NANET_LANES_COMPARE(F, <)
NANET_LANES_COMPARE(F, >)
NANET_LANES_COMPARE(F, <=)
NANET_LANES_COMPARE(F, >=)
NANET_LANES_COMPARE(F, ==)
NANET_LANES_COMPARE(F, !=)
NANET_LANES_COMPARE(I, <)
NANET_LANES_COMPARE(I, >)
NANET_LANES_COMPARE(I, <=)
NANET_LANES_COMPARE(I, >=)
NANET_LANES_COMPARE(I, ==)
NANET_LANES_COMPARE(I, !=)
#undef NANET_LANES_BINARY
#undef NANET_LANES_COMPARE
// NOLINTEND(bugprone-macro-parentheses)
NANET_LANES_INLINE F operator-(const F& a) {
  return {-a.v[0], -a.v[1]};
}
NANET_LANES_INLINE M operator!(const M& a) {
  return {~a.v[0], ~a.v[1]};
}
NANET_LANES_INLINE I operator<<(const I& a, int n) {
  return {a.v[0] << n, a.v[1] << n};
}
NANET_LANES_INLINE I operator>>(const I& a, int n) {
  return {a.v[0] >> n, a.v[1] >> n};
}

}  // namespace host_lanes

struct HostLanes {
  using F = host_lanes::F;
  using I = host_lanes::I;
  using M = host_lanes::M;

  NANET_LANES_INLINE static I lane() {
    return {host_lanes::Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
            host_lanes::Ints{16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};
  }
  NANET_LANES_INLINE static F load(const float* p) {
    F r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  NANET_LANES_INLINE static I load(const std::int32_t* p) {
    I r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  NANET_LANES_INLINE static void store(float* p, const F& v) { std::memcpy(p, &v, sizeof v); }
  NANET_LANES_INLINE static void store(std::int32_t* p, const I& v) { std::memcpy(p, &v, sizeof v); }
  NANET_LANES_INLINE static void store(float* p, const F& v, const M& where) {
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i)
        if (where.v[h][i]) p[16 * h + i] = v.v[h][i];
  }
  NANET_LANES_INLINE static void store(std::int32_t* p, const I& v, const M& where) {
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i)
        if (where.v[h][i]) p[16 * h + i] = v.v[h][i];
  }
  NANET_LANES_INLINE static void four(const float* p, float (&v)[4]) {
    for (int k = 0; k < 4; ++k) v[k] = p[k];
  }
  NANET_LANES_INLINE static void four(const float* p, const float* q, F (&v)[4]) {
    for (int k = 0; k < 4; ++k) v[k] = {p[k] - host_lanes::Floats{}, q[k] - host_lanes::Floats{}};
  }
  NANET_LANES_INLINE static F other_half(const F& v) { return {v.v[1], v.v[0]}; }
  NANET_LANES_INLINE static void put(float* p, float v) { *p = v; }
  NANET_LANES_INLINE static F gather(const float* p, const I& at) {
    F r;
#ifdef __AVX512F__
    for (int h = 0; h < 2; ++h)
      r.v[h] = reinterpret_cast<host_lanes::Floats>(
          _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, reinterpret_cast<__m512i>(at.v[h]), p, 4));
#else
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i) r.v[h][i] = p[at.v[h][i]];
#endif
    return r;
  }
  NANET_LANES_INLINE static I gather(const std::int32_t* p, const I& at) {
    I r;
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i) r.v[h][i] = p[at.v[h][i]];
    return r;
  }
  NANET_LANES_INLINE static void scatter(float* p, const I& at, const F& v, const M& where) {
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i)
        if (where.v[h][i]) p[at.v[h][i]] = v.v[h][i];
  }
  NANET_LANES_INLINE static void scatter(std::int32_t* p, const I& at, const I& v, const M& where) {
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i)
        if (where.v[h][i]) p[at.v[h][i]] = v.v[h][i];
  }
  NANET_LANES_INLINE static void sync() {}

  NANET_LANES_INLINE static F select(const M& m, const F& a, const F& b) {
    return {m.v[0] ? a.v[0] : b.v[0], m.v[1] ? a.v[1] : b.v[1]};
  }
  NANET_LANES_INLINE static I select(const M& m, const I& a, const I& b) {
    return {m.v[0] ? a.v[0] : b.v[0], m.v[1] ? a.v[1] : b.v[1]};
  }
  NANET_LANES_INLINE static F fma(const F& a, const F& b, const F& c) {
    F r;
    for (int h = 0; h < 2; ++h) r.v[h] = fma(a.v[h], b.v[h], c.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F sqrt(const F& a) {
    F r;
    for (int h = 0; h < 2; ++h) r.v[h] = square_root(a.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F reciprocal(const F& a) { return F(1.0f) / a; }
  NANET_LANES_INLINE static F root(const F& a) { return sqrt(a); }
  NANET_LANES_INLINE static F min(const F& a, const F& b) { return select(a < b, a, b); }
  NANET_LANES_INLINE static F max(const F& a, const F& b) { return select(a > b, a, b); }
  NANET_LANES_INLINE static F abs(const F& a) { return from_bits(bits(a) & I(0x7FFFFFFF)); }
  NANET_LANES_INLINE static F to_float(const I& a) {
    return {__builtin_convertvector(a.v[0], host_lanes::Floats),
            __builtin_convertvector(a.v[1], host_lanes::Floats)};
  }
  NANET_LANES_INLINE static I to_int(const F& a) {
    return {__builtin_convertvector(a.v[0], host_lanes::Ints),
            __builtin_convertvector(a.v[1], host_lanes::Ints)};
  }
  NANET_LANES_INLINE static I bits(const F& a) { return std::bit_cast<I>(a); }
  NANET_LANES_INLINE static F from_bits(const I& a) { return std::bit_cast<F>(a); }

  // Addition tree of the warp butterfly: lane i with i ^ 16, then 8, 4, 2, 1.
  NANET_LANES_INLINE static float sum(const F& v) {
    const auto s16 = v.v[0] + v.v[1];
    const auto s8 = __builtin_shufflevector(s16, s16, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(s16, s16, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto s4 = __builtin_shufflevector(s8, s8, 0, 1, 2, 3) + __builtin_shufflevector(s8, s8, 4, 5, 6, 7);
    return (s4[0] + s4[2]) + (s4[1] + s4[3]);
  }
  NANET_LANES_INLINE static void sum(const F (&v)[8], float (&out)[8]) {
    for (int k = 0; k < 8; ++k) out[k] = sum(v[k]);
  }
  NANET_LANES_INLINE static std::int32_t sum(const I& v) {
    std::int32_t s = 0;
    for (int i = 0; i < 16; ++i) s += v.v[0][i] + v.v[1][i];
    return s;
  }
  NANET_LANES_INLINE static float max(const F& v) {
    const auto larger = [](const auto& a, const auto& b) { return a > b ? a : b; };
    const auto s16 = larger(v.v[0], v.v[1]);
    const auto s8 = larger(__builtin_shufflevector(s16, s16, 0, 1, 2, 3, 4, 5, 6, 7),
                           __builtin_shufflevector(s16, s16, 8, 9, 10, 11, 12, 13, 14, 15));
    const auto s4 =
        larger(__builtin_shufflevector(s8, s8, 0, 1, 2, 3), __builtin_shufflevector(s8, s8, 4, 5, 6, 7));
    const float a = s4[0] > s4[2] ? s4[0] : s4[2], b = s4[1] > s4[3] ? s4[1] : s4[3];
    return a > b ? a : b;
  }
  NANET_LANES_INLINE static std::uint32_t ballot(const M& m) {
#ifdef __AVX512F__
    return static_cast<std::uint32_t>(
        _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(m.v[0]), _mm512_setzero_si512()) |
        static_cast<std::uint32_t>(
            _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(m.v[1]), _mm512_setzero_si512()))
            << 16);
#else
    std::uint32_t r = 0;
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 16; ++i) r |= static_cast<std::uint32_t>(m.v[h][i] & 1) << (16 * h + i);
    return r;
#endif
  }
  NANET_LANES_INLINE static I rank(std::uint32_t word) {
    alignas(64) std::int32_t below[lane_count];
    std::int32_t n = 0;
    for (unsigned i = 0; i < lane_count; ++i) {
      below[i] = n;
      n += static_cast<std::int32_t>(word >> i & 1u);
    }
    return load(below);
  }
  NANET_LANES_INLINE static bool any(const M& m) { return ballot(m) != 0; }
  NANET_LANES_INLINE static float at(const F& v, int lane) { return v.v[lane >> 4][lane & 15]; }
  NANET_LANES_INLINE static std::int32_t at(const I& v, int lane) { return v.v[lane >> 4][lane & 15]; }
  NANET_LANES_INLINE static F shuffle(const F& v, const I& from) {
    float a[lane_count];
    store(a, v);
    return gather(a, from & I(31));
  }
  NANET_LANES_INLINE static I shuffle(const I& v, const I& from) {
    std::int32_t a[lane_count];
    store(a, v);
    return gather(a, from & I(31));
  }

 private:
  NANET_LANES_INLINE static host_lanes::Floats fma(const host_lanes::Floats& a, const host_lanes::Floats& b,
                                                   const host_lanes::Floats& c) {
#if defined(__AVX512F__)
    return reinterpret_cast<host_lanes::Floats>(_mm512_fmadd_ps(
        reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
    __m256 x[2], y[2], z[2];
    std::memcpy(x, &a, sizeof x);
    std::memcpy(y, &b, sizeof y);
    std::memcpy(z, &c, sizeof z);
    for (int h = 0; h < 2; ++h) z[h] = _mm256_fmadd_ps(x[h], y[h], z[h]);
    host_lanes::Floats r;
    std::memcpy(&r, z, sizeof r);
    return r;
#else
    host_lanes::Floats r;
    for (int i = 0; i < 16; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
#endif
  }
  // Written with intrinsics: g++ 12 does not vectorise the loop.
  NANET_LANES_INLINE static host_lanes::Floats square_root(const host_lanes::Floats& a) {
#if defined(__AVX512F__)
    return reinterpret_cast<host_lanes::Floats>(_mm512_maskz_sqrt_ps(0xFFFF, reinterpret_cast<__m512>(a)));
#elif defined(__FMA__)
    __m256 x[2];
    std::memcpy(x, &a, sizeof x);
    for (__m256& h : x) h = _mm256_sqrt_ps(h);
    host_lanes::Floats r;
    std::memcpy(&r, x, sizeof r);
    return r;
#else
    host_lanes::Floats r;
    for (int i = 0; i < 16; ++i) r[i] = __builtin_sqrtf(a[i]);
    return r;
#endif
  }
};

#endif  // __CUDACC__

}  // namespace nanet::rich
